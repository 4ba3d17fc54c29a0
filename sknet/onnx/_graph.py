"""A captured function, written equation by equation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from sknet.compile import Equation, Graph
from sknet.compile.extend import Rows, graph_of_any_rows
from sknet.exceptions import CaptureError
from sknet.onnx import _elementwise, _neural, _reductions, _shapes  # noqa: F401  they fill the table
from sknet.onnx._writer import NOT_EXPORTED, TABLE, Value, Writer, operands_of

__all__ = ["Prepares", "exported"]


class Prepares(Protocol):
    """What comes before a function."""

    inputs: list[Value]

    def write(self, w: Writer, value: Value) -> Value:
        """Write what computes a value of this dtype and shape, and return it."""


def exported(
    captured: Callable[[int], Graph],
    parameters: Mapping[str, np.ndarray[Any, Any]],
    inputs: Sequence[str],
    prepares: "Prepares | None" = None,
) -> tuple[Writer, list[Value]]:
    """Write the graph of a function of parameters and inputs, for any number of rows."""
    rows = graph_of_any_rows(captured)
    graph = rows.graph
    first = inputs[0] if inputs else None
    w = Writer(rows, first if prepares is None else prepares.inputs[0].name)
    free = iter(graph.inputs)
    for name, array in parameters.items():
        w.bind(next(free), w.parameter(name, array))
    for name in inputs:
        variable = next(free)
        value = Value(name, variable.dtype, rows.shape(variable))
        w.bind(variable, value if prepares is None else prepares.write(w, value))
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
