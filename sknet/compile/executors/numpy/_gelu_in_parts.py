"""GELU by a hyperbolic tangent, and its gradient, as operations that have functions of NumPy.

Blocks and native code run these as they run all others. A gradient takes the sigmoid that the forward pass
has computed.
"""

from collections.abc import Callable

from sknet.compile._graph import Equation, Graph, Operand, Variable
from sknet.compile.executors.numpy._emitters import REAL
from sknet.core import PRIMITIVES
from sknet.ops.extend import GELU_CUBIC as CUBIC
from sknet.ops.extend import GELU_LINEAR as LINEAR

__all__ = ["with_gelu_in_parts"]


def with_gelu_in_parts(graph: Graph) -> Graph:
    """Return a graph that computes the same bits without the two primitives.

    Parameters
    ----------
    graph : Graph
        Any graph.

    Returns
    -------
    Graph
        The same graph if it has neither in single or double precision.
    """
    found = [equation for equation in graph.equations if _has_parts(equation)]
    if not found:
        return graph
    written = _Equations()
    for equation in graph.equations:
        if equation in found:
            PARTS[equation.primitive.name](written, *equation.operands, equation.output)
        else:
            written.equations.append(equation)
    return graph.replaced(equations=written.equations).verify()


def _has_parts(equation: Equation) -> bool:
    dtypes = {x.dtype for x in (*equation.variables, equation.output)}
    return equation.primitive.name in PARTS and len(dtypes) == 1 and dtypes.pop().char in REAL


class _Equations:
    """Equations, as they are written one after the other."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._shares: dict[Variable, Variable] = {}  # of the operand of each sigmoid

    def add(self, name: str, *operands: Operand, output: Variable | None = None) -> Variable:
        """Write an operation and return its output."""
        self.equations.append(Equation(PRIMITIVES[name], operands, {}, output))
        return self.equations[-1].output

    def polynomial(self, x: Variable, square: float, constant: float) -> Variable:
        """Write ``x * x * square + constant``."""
        return self.add("add", self.add("multiply", self.add("multiply", x, x), square), constant)

    def share(self, x: Variable) -> Variable:
        """Write the sigmoid that x is multiplied by, unless it is there."""
        if x not in self._shares:
            inner = self.add("multiply", x, self.polynomial(x, CUBIC, LINEAR))
            self._shares[x] = self.add("sigmoid", inner)
        return self._shares[x]


def _gelu(w: _Equations, x: Variable, output: Variable) -> None:
    w.add("multiply", x, w.share(x), output=output)


def _gradient(w: _Equations, g: Operand, x: Variable, output: Variable) -> None:
    share = w.share(x)
    rest = w.add("multiply", x, w.add("subtract", 1.0, share))
    bend = w.add("multiply", rest, w.polynomial(x, 3 * CUBIC, LINEAR))
    w.add("multiply", g, w.add("multiply", share, w.add("add", bend, 1.0)), output=output)


PARTS: dict[str, Callable[..., None]] = {"gelu_tanh": _gelu, "gelu_tanh_gradient": _gradient}
