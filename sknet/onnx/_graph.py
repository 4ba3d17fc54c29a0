"""A captured function, written equation by equation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sknet.compile import Equation, Graph
from sknet.compile.extend import Rows, graph_of_any_rows
from sknet.exceptions import CaptureError
from sknet.onnx import _elementwise, _neural, _reductions, _shapes  # noqa: F401  they fill the table
from sknet.onnx._table import NOT_EXPORTED, TABLE, operands_of
from sknet.onnx._writer import Value, Writer

__all__ = ["exported"]


def exported(
    captured: Callable[[int], Graph], parameters: Mapping[str, np.ndarray[Any, Any]], inputs: Sequence[str]
) -> tuple[Writer, list[Value]]:
    """Write the graph of a function of parameters and inputs, for any number of rows.

    Parameters
    ----------
    captured : callable
        Returns the graph for a number of rows; its inputs are the parameters and then the inputs.
    parameters : mapping of str to ndarray
        Their values, by name.
    inputs : sequence of str
        Names of the inputs, whose first axis is the rows.

    Returns
    -------
    writer : Writer
        With all nodes.
    outputs : list of Value
        What the function returns.
    """
    rows = graph_of_any_rows(captured)
    graph = rows.graph
    w = Writer(rows, inputs[0] if inputs else None)
    free = iter(graph.inputs)
    for name, array in parameters.items():
        w.bind(next(free), w.parameter(name, array))
    for name in inputs:
        variable = next(free)
        w.bind(variable, Value(name, variable.dtype, rows.shape(variable)))
    for equation in graph.equations:
        _write(w, rows, equation)
    return w, [w.value(x) for x in graph.outputs]


def _write(w: Writer, rows: Rows, equation: Equation) -> None:
    name = equation.primitive.name
    write = TABLE.get(name)
    if write is None:
        raise CaptureError(f"{name} cannot be exported to ONNX: {NOT_EXPORTED.get(name, 'it has no row')}")
    found = write(w, equation, *operands_of(w, equation), **rows.params(equation))
    w.bind(equation.output, found)
