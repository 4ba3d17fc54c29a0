"""Products of float32 numbers as three products in TF32, nearly as exact as one in float32.

A factor is the sum of its leading bits, which TF32 holds, and of a rest, of which TF32 holds all but the last
bit. The product of two rests, at most 2**-22 of that of the factors, is left out. The equations that split an
array join the kernel that writes it; the smallest product comes first, and is a term of the next one.
"""

from sknet.compile import _graph as own
from sknet.compile._graph import Equation, Graph, Operand, Variable
from sknet.core import PRIMITIVES, Primitive

# Memory bounds products with fewer rows, columns or terms, and launches those with fewer multiplications.
LEAST_SIZE, LEAST_PRODUCTS = 32, 1 << 24


def with_split_products(graph: Graph) -> tuple[Graph, set[Equation]]:
    """Return a graph whose large products of float32 are three products each, and these products."""
    splits = _Splits()
    for equation in graph.equations:
        splits.add(equation)
    return graph.replaced(equations=splits.equations), splits.products


def _is_large(equation: Equation) -> bool:
    if equation.primitive.name != "matmul":
        return False
    x, y = equation.variables[0], equation.variables[-1]
    if not (x.dtype == y.dtype == "float32" and x.ndim > 1 and y.ndim > 1):
        return False
    rows = x.size // max(x.shape[-1], 1) if y.ndim == 2 else x.shape[-2]
    sizes = rows, x.shape[-1], y.shape[-1]
    return min(sizes) >= LEAST_SIZE and equation.output.size * x.shape[-1] >= LEAST_PRODUCTS


class _Splits:
    """The equations so far, and the parts of arrays that are split."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.products: set[Equation] = set()
        self._parts: dict[Operand, tuple[Variable, Variable]] = {}
        self._transposes: dict[Operand, Equation] = {}

    def add(self, equation: Equation) -> None:
        """Add an equation of the graph, as several if it is a large product."""
        if _is_large(equation):
            self._multiply(equation)
            return
        if equation.primitive.name == "permute_dims":
            self._transposes[equation.output] = equation
        self.equations.append(equation)

    def _multiply(self, equation: Equation) -> None:
        (x, x_rest), (y, y_rest) = map(self._split, equation.operands)
        rest = self._product(x_rest, y)
        rest = self._write(own.axpy, self._product(x, y_rest), rest, 1.0)
        whole = self._product(x, y)
        self.equations.append(Equation(own.axpy, (whole, rest, 1.0), {}, equation.output))

    def _product(self, x: Variable, y: Variable) -> Variable:
        found = self._write(PRIMITIVES["matmul"], x, y)
        self.products.add(self.equations[-1])
        return found

    def _split(self, x: Operand) -> tuple[Variable, Variable]:
        """Return the leading bits of an array and the rest; of a transpose, those of what is transposed."""
        if x not in self._parts:
            transpose = self._transposes.get(x)
            if transpose is None:
                leading = self._write(own.leading, x)
                self._parts[x] = leading, self._write(PRIMITIVES["subtract"], x, leading)
            else:
                of, rest = self._split(transpose.operands[0])
                how = transpose.primitive
                self._parts[x] = (
                    self._write(how, of, **transpose.params),
                    self._write(how, rest, **transpose.params),
                )
        return self._parts[x]

    def _write(self, primitive: Primitive, *operands: Operand, **params: object) -> Variable:
        self.equations.append(Equation(primitive, operands, params))
        return self.equations[-1].output
