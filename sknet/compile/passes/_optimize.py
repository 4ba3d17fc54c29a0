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
    """Return a graph that computes the same with fewer equations and passes over memory.

    Parameters
    ----------
    graph : Graph
        As captured.
    exact : bool, default=False
        Keep every bit of the results (except the sign of a zero); otherwise rounding may change.

    Returns
    -------
    Graph
        Verified, with the same inputs and as many outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import capture
    >>> print(optimize(capture(lambda x, y: y - (-x * 1.0 - 0.0), np.ones(3), np.ones(3))))
    graph(v0: float64[3], v1: float64[3]):
      v2: float64[3] = add v1 v0
      return v2
    """
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
