"""Values that a graph checks: if one is not finite, a comparison with infinity in it is false."""

import math

from sknet.compile._graph import Equation, Graph, Variable

__all__ = ["seen_variables"]

# A result of these is not finite if any element of an operand is not: 0 times infinity or NaN is NaN.
SPREADING = (
    "abs", "add", "assemble", "axpy", "matmul", "multiply", "permute_dims", "reshape", "square", "subtract",
    "sum", "sum_squares",
)  # fmt: skip


def seen_variables(graph: Graph, members: int | None = None) -> set[Variable]:
    """Return the values of a graph of which it sees whether they are finite."""
    shapes = ((), (members,))
    absolute = {e.output for e in graph.equations if e.primitive.name == "abs" and e.output.shape in shapes}
    seen: set[Variable] = set()
    for equation in reversed(graph.equations):
        if _is_check(equation, absolute) or (equation.output in seen and _spreads(equation)):
            seen.update(equation.variables)
    for equation in graph.equations:
        if equation.primitive.view is not None and equation.operands[0] in seen:
            seen.add(equation.output)
    return seen


def _spreads(equation: Equation) -> bool:
    return equation.primitive.name in SPREADING or equation.params.get("of_all") is True


def _is_check(equation: Equation, absolute: set[Variable]) -> bool:
    """Tell whether an absolute value is compared with infinity."""
    x, most = (*equation.operands, None, None)[:2]
    return equation.primitive.name == "less" and x in absolute and most == math.inf
