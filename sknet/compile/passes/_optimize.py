"""All passes over a graph, in their order."""

from sknet.compile._graph import Graph
from sknet.compile.passes._algebra import ALGEBRA, ASSEMBLY, CONSTANTS, SIGNS
from sknet.compile.passes._fast_math import RELAXED
from sknet.compile.passes._rewrite import Rules, rewrite

__all__ = ["RULES", "optimize"]

EXACT_RULES = Rules(CONSTANTS, ALGEBRA, ASSEMBLY)
ALL_RULES = Rules(CONSTANTS, RELAXED, ALGEBRA, ASSEMBLY)
RULES = Rules(ALL_RULES, SIGNS)  # of all passes


def optimize(graph: Graph, *, exact: bool = False) -> Graph:
    """Return a graph that computes the same with fewer equations and passes over memory."""
    rules = EXACT_RULES if exact else ALL_RULES
    graph = _without_dead_code(rewrite(_without_dead_code(graph), rules, exact))
    if exact or SIGNS.apply_to(graph):  # an exact walk may have kept views that the next one merges
        graph = _without_dead_code(rewrite(graph, SIGNS, exact))
    return graph.verify()


def _without_dead_code(graph: Graph) -> Graph:
    """Return the graph without equations and constants that no output depends on."""
    needed = set(graph.outputs)
    kept = []
    for equation in reversed(graph.equations):
        if equation.output in needed:
            kept.append(equation)
            needed.update(equation.variables)
    constants = {v: value for v, value in graph.constants.items() if v in needed}
    return graph.replaced(constants=constants, equations=kept[::-1])
