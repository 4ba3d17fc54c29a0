"""What the native executor reads from a graph: values with named axes, and what each is computed from."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

import numpy as np

from sknet._indexing import is_basic
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._views import Views
from sknet.compile.executors._expressions import used
from sknet.compile.executors.native._value import (
    Assembly,
    Axis,
    Columns,
    Given,
    Map,
    Mask,
    Operand,
    Product,
    Reduction,
    UnsupportedError,
    Value,
    View,
)

__all__ = ["Values"]

New = TypeVar("New", bound=Value)


class Values:
    """The values of a graph.

    Parameters
    ----------
    graph : Graph
        Optimised.
    prefix : str
        With which all names begin.

    Attributes
    ----------
    inputs, outputs : list of Value (or number, among the outputs)
        Those of the graph.
    constants : dict of Value to ndarray
        Arrays that are given once.
    outside : list of Value
        Numbers that are 0 if all indices are in bounds.

    Raises
    ------
    UnsupportedError
        If the graph has an operation that cannot be translated.
    """

    def __init__(self, graph: Graph, prefix: str) -> None:
        self._prefix, self._graph = prefix, graph
        self._names = 0
        self._views = Views(graph, graph.equations)
        self._known: dict[Variable, Any] = {}
        self._of_rows: dict[Variable, Value] = {}  # flat positions: the index in each row
        self.constants: dict[Value, np.ndarray] = {}
        self.outside: list[Value] = []
        self.inputs = [self._input(x) for x in graph.inputs]
        for variable, array in graph.constants.items():
            if array.size and (array == array.flat[0]).all():
                self._known[variable] = array.flat[0].item()
            else:
                self.constants[self._input(variable)] = array
        for equation in graph.equations:
            self._known[equation.output] = self._translated(equation)
        self.outputs = [self._known[x] for x in graph.outputs]

    # -- making values ------------------------------------------------------------------------

    def _new(
        self,
        kind: type[New],
        operands: Iterable[Operand],
        axes: Iterable[Axis],
        dtype: Any,
        shape: tuple[int, ...],
        **more: Any,
    ) -> New:
        self._names += 1
        name = f"{self._prefix}{self._names}"
        return kind(name, tuple(operands), tuple(axes), np.dtype(dtype), tuple(shape), **more)

    def _input(self, x: Variable) -> Given:
        axes = [Axis(n) for n in long_axes(x.shape)]
        value = self._known[x] = self._new(Given, (), axes, x.dtype, x.shape)
        return value

    def copy(self, x: Any, like: Value | None = None) -> Value:
        """Return a value of its own with the elements of another, or of a number."""
        if isinstance(x, Value):
            return self._new(Map, (x,), x.axes, x.dtype, x.shape, op="copy")
        if like is None:
            raise UnsupportedError("a number is returned")
        return self._new(Map, (x,), like.axes, like.dtype, like.shape, op="copy")

    def _translated(self, equation: Equation) -> Any:
        name = equation.primitive.name
        if equation.output.size == 0:
            raise UnsupportedError("an array without elements is not known to the native executor")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, equation)
        expression = equation.primitive.expression
        if expression is None:
            raise UnsupportedError(f"{name} is not known to the native executor")
        return self._map(equation, name, used(expression))

    def operand(self, x: Any) -> Any:
        """Return the value of an operand of an equation."""
        return self._known[x] if isinstance(x, Variable) else x

    def _map(self, equation: Equation, op: str, read: Collection[int] = (0, 1, 2)) -> Value:
        output = equation.output
        axes = [None if n == 1 else Axis(n) for n in output.shape]
        for x in equation.variables:
            self._align(self._known[x], x.shape, axes)
        operands = [self.operand(x) if i in read else 0 for i, x in enumerate(equation.operands)]
        return self._new(Map, operands, [a for a in axes if a is not None], output.dtype, output.shape, op=op)

    @staticmethod
    def _align(value: Any, shape: tuple[int, ...], axes: list[Axis | None]) -> None:
        """Let the axes of an operand be those of the output that they meet, counted from the end."""
        if not isinstance(value, Value):
            return
        mine = dims_of(value, shape)
        for a, b in zip(reversed(mine), reversed(axes), strict=False):
            if a is not None and b is not None:
                a.unite(b)

    # -- operations of their own kind ---------------------------------------------------------

    def _reshape(self, equation: Equation) -> Any:
        [x], output = equation.operands, equation.output
        value = self._known[x]
        if not isinstance(value, Value) or long_axes(x.shape) == long_axes(output.shape):
            return value
        return self._view(equation, [Axis(n) for n in long_axes(output.shape)])

    def _permute(self, equation: Equation) -> Any:
        [x], order = equation.operands, equation.params["axes"]
        value = self._known[x]
        if not isinstance(value, Value):
            return value
        mine = dims_of(value, x.shape)
        kept = [i % len(mine) for i in order if mine[i] is not None]
        if kept == sorted(kept):
            return value
        return self._view(equation, [axis for i in kept if (axis := mine[i]) is not None])

    def _getitem(self, equation: Equation) -> Any:
        value, output = self._known[equation.operands[0]], equation.output
        if not isinstance(value, Value) or (not value.axes and output.size == 1):
            return value
        return self._view(equation, [Axis(n) for n in long_axes(output.shape)])

    def _view(self, equation: Equation, axes: list[Axis]) -> Value:
        [x], output, views = equation.operands, equation.output, self._views
        name = equation.primitive.name
        if not views.is_view(equation):
            raise UnsupportedError(f"{name} that copies is not known to the native executor")

        def applied(array: np.ndarray) -> Any:
            return views.applied(equation, array.reshape(x.shape))

        return self._new(
            View,
            (self._known[x],),
            axes,
            output.dtype,
            output.shape,
            applied=applied,
            is_contiguous=views.is_contiguous(output),
            is_permuted=name == "permute_dims",
        )

    def _broadcast(self, equation: Equation) -> Any:
        [x] = equation.operands
        value = self._known[x]
        if not isinstance(value, Value) or math.prod(x.shape) == math.prod(equation.output.shape):
            return value
        return self._map(equation, "copy")

    def _reduce(self, equation: Equation) -> Any:
        [x], output = equation.operands, equation.output
        value = self._known[x]
        if not isinstance(value, Value):
            raise UnsupportedError("a sum of numbers")
        gone = {a % len(x.shape) for a in equation.params["axis"]}
        kept = [axis for i, axis in enumerate(dims_of(value, x.shape)) if axis is not None and i not in gone]
        if len(kept) == len(value.axes):
            return value
        name = equation.primitive.name
        keeps_nan = name != "max" or not self._only_shifts(equation)
        return self._new(Reduction, (value,), kept, output.dtype, output.shape, op=name, keeps_nan=keeps_nan)

    def _only_shifts(self, equation: Equation) -> bool:
        """Tell whether a maximum is only subtracted from what it is the maximum of, as in a softmax.

        NaN among the operands is then in the differences, and need not be in the maximum, which costs
        twice the time where rows are long.
        """
        [x], output = equation.operands, equation.output
        users = [e for e in self._graph.equations if any(y is output for y in e.operands)]
        return output not in self._graph.outputs and all(
            e.primitive.name == "subtract" and e.operands[0] is x for e in users
        )

    def _sum_squares(self, equation: Equation) -> Value:
        dtype = equation.output.dtype
        sums = [self._squares(self.operand(x), dtype) for x in equation.operands]
        total = sums[0]
        for other in sums[1:]:
            total = self._new(Map, (total, other), (), dtype, (), op="add")
        return total

    def _squares(self, x: Any, dtype: Any) -> Value:
        if not isinstance(x, Value):
            raise UnsupportedError("a sum of numbers")
        if not x.axes:
            return self._new(Map, (x,), (), dtype, (), op="square")
        return self._new(Reduction, (x, x), (), dtype, (), op="inner")

    def _matmul(self, equation: Equation) -> Value:
        x, y = equation.operands
        output = equation.output
        if x.ndim != 2 or y.ndim != 2 or x.dtype != y.dtype or output.size == 0:
            raise UnsupportedError("matmul of other than two matrices is not known to the native executor")
        a, b = self._known[x], self._known[y]
        if not isinstance(a, Value) or not isinstance(b, Value):
            raise UnsupportedError("matmul of a constant")
        rows, inner = dims_of(a, x.shape)
        other, columns = dims_of(b, y.shape)
        axes = [axis for axis in (rows, columns) if axis is not None]
        if inner is None or other is None:
            return self._new(Map, (a, b), axes, output.dtype, output.shape, op="multiply")
        inner.unite(other)
        for v in (x, y):
            flags = self._views.ghost(v).flags
            if not (flags.c_contiguous or flags.f_contiguous):
                raise UnsupportedError("matmul of a part of a matrix is not known to the native executor")
        if not axes:
            return self._new(Reduction, (a, b), (), output.dtype, output.shape, op="inner")
        return self._new(Product, (a, b), axes, output.dtype, output.shape, shapes=(x.shape, y.shape))

    def _flat_index(self, equation: Equation) -> Any:
        """Compare an index with the elements of its row, instead of computing flat positions."""
        [x], length = equation.operands, equation.params["length"]
        index = self._known[x]
        if equation.params.get("from_end", True) or not isinstance(index, Value):
            raise UnsupportedError("an index that may be negative, or is a constant")
        self._of_rows[equation.output] = index
        self.outside.append(self._number_outside(index, length))
        return index

    def _number_outside(self, index: Value, length: int) -> Value:
        """Return how many indices are not in a row."""
        dtype = self._graph.inputs[0].dtype

        def by_row(op: str, *operands: Any, dtype: Any = "bool") -> Value:
            return self._new(Map, operands, index.axes, dtype, index.shape, op=op)

        x = by_row("astype", index, dtype=dtype)
        is_outside = by_row("logical_or", by_row("less", x, 0), by_row("greater", x, length - 0.5))
        counted = by_row("astype", is_outside, dtype=dtype)
        return self._new(Reduction, (counted,), (), dtype, (), op="sum") if index.axes else counted

    def _index_of_rows(self, positions: Variable, shape: tuple[int, ...]) -> Value:
        """Return the index of each row of an array of this shape, from flat positions."""
        index = self._of_rows.get(positions)
        if index is None:
            raise UnsupportedError("an index that may be negative, or is a constant")
        if len(long_axes(shape)) != 2 or shape[-1] == 1:
            raise UnsupportedError("one element of each row, with rows or columns of length 1")
        return index

    def _take_at(self, equation: Equation) -> Any:
        v, positions = equation.operands
        x, index = self._known[v], self._index_of_rows(positions, v.shape)
        if not isinstance(x, Value):
            return x
        x.axes[0].unite(index.axes[0])
        return self._new(Reduction, (x, index), x.axes[:1], x.dtype, equation.output.shape, op="pick")

    def _put_at(self, equation: Equation) -> Value:
        *parts, positions = equation.operands
        output = equation.output
        axes = [Axis(n) for n in long_axes(output.shape)]
        operands = [*map(self.operand, parts), self._index_of_rows(positions, output.shape)]
        for value in operands:
            for mine, axis in zip(value.axes if isinstance(value, Value) else (), axes, strict=False):
                mine.unite(axis)
        return self._new(Map, operands, axes, output.dtype, output.shape, op=equation.primitive.name)

    def _scatter_add(self, equation: Equation) -> Value:
        """Return zeros with some columns that are given: the gradient of taking columns of a matrix."""
        [x], output = equation.operands, equation.output
        columns = _columns_of(equation.params["index"], output.shape)
        value = self.operand(x)
        if columns is None or (isinstance(value, Value) and value.dtype != output.dtype):
            raise UnsupportedError("scatter_add to other than columns is not known to the native executor")
        axes = [None if n == 1 else Axis(n) for n in output.shape]
        if isinstance(value, Value) and axes[0] is not None:
            value.axes[0].unite(axes[0])
        kept = [axis for axis in axes if axis is not None]
        return self._new(Columns, (value,), kept, output.dtype, output.shape, columns=columns, given=x.shape)

    def _dropout_mask(self, equation: Equation) -> Value:
        output, params = equation.output, dict(equation.params)
        axes = [Axis(n) for n in long_axes(output.shape)]
        step = self.operand(equation.operands[1])
        if not isinstance(step, Given):
            raise UnsupportedError("dropout with a step that is computed")
        del params["shape"], params["dtype"]
        return self._new(Mask, (step,), axes, output.dtype, output.shape, **params)

    def _assemble(self, equation: Equation) -> Value:
        operands = [self.operand(x) for x in equation.operands]
        output = equation.output
        axes, starts = [Axis(output.size)], equation.params["starts"]
        return self._new(Assembly, operands, axes, output.dtype, output.shape, starts=starts)


def long_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of a shape that are not 1: those of a value's axes."""
    return tuple([n for n in shape if n != 1])


def dims_of(value: Value, shape: tuple[int, ...]) -> list[Axis | None]:
    """Return the axis of every dimension of `shape`, None where its length is 1."""
    axes = iter(value.axes)
    return [None if n == 1 else next(axes) for n in shape]


def _columns_of(index: Any, shape: tuple[int, ...]) -> str | None:
    """Return as source which columns of a matrix an index takes, all rows of them; None for anything else."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(shape) != 2 or not is_basic(index) or None in parts:
        return None
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts = (*parts[:at], *[slice(None)] * (3 - len(parts)), *parts[at + 1 :])
    rows, columns = (*parts, slice(None), slice(None))[:2]
    if not isinstance(rows, slice) or rows.indices(shape[0]) != (0, shape[0], 1):
        return None
    if not isinstance(columns, slice):
        return str(int(columns) % shape[1])
    start, stop, step = columns.indices(shape[1])
    return f"{start}:{stop}:{step}" if step > 0 else None


_SPECIAL: dict[str, Callable[[Values, Equation], Any]] = {
    "reshape": Values._reshape,
    "permute_dims": Values._permute,
    "getitem": Values._getitem,
    "broadcast_to": Values._broadcast,
    "sum": Values._reduce,
    "max": Values._reduce,
    "sum_squares": Values._sum_squares,
    "matmul": Values._matmul,
    "flat_index": Values._flat_index,
    "take_at": Values._take_at,
    "put_at": Values._put_at,
    "subtract_at": Values._put_at,
    "scatter_add": Values._scatter_add,
    "dropout_mask": Values._dropout_mask,
    "assemble": Values._assemble,
}
