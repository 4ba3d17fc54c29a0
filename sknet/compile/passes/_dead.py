"""Dead code elimination."""

from sknet.compile._graph import Graph

__all__ = ["without_dead_code"]


def without_dead_code(graph: Graph) -> Graph:
    """Return the graph without equations and constants that no output depends on."""
    needed = set(graph.outputs)
    kept = []
    for equation in reversed(graph.equations):
        if equation.output in needed:
            kept.append(equation)
            needed.update(equation.variables)
    constants = {v: value for v, value in graph.constants.items() if v in needed}
    return graph.replaced(constants=constants, equations=kept[::-1])
