"""What the native executor reads from a graph: values with named axes, and what each is computed from."""

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from sknet._indexing import is_basic
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._views import Views
from sknet.compile.executors._expressions import used
from sknet.exceptions import CaptureError

__all__ = ["Axis", "UnsupportedError", "Value", "Values"]


class UnsupportedError(CaptureError):
    """A graph that the native executor does not know how to compute; NumPy's executor does."""


class Axis:
    """An axis that several values share: loops run over axes, whatever their lengths.

    Parameters
    ----------
    size : int
        Its length in the graph at hand.
    """

    __slots__ = ("_same", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._same: Axis | None = None

    @property
    def root(self) -> "Axis":
        """The one axis that stands for all that are the same."""
        return self if self._same is None else self._same.root

    def unite(self, other: "Axis") -> None:
        """Let two axes be the same one."""
        a, b = self.root, other.root
        if a is not b:
            b._same = a


class Value:
    """One value of a step: an input, a view, or the result of an operation.

    Parameters
    ----------
    name : str
        Unique; element variables of the source have it.
    kind : {"input", "map", "reduce", "call", "view", "assemble"}
        How it comes about: given, element by element, as a sum (or maximum) over axes, by a
        function over whole arrays, as a view of another array, or from parts of a flat array.
    op : str
        The operation: of maps, the primitive's name.
    operands : tuple of Value or number
        What it is computed from.
    axes : tuple of Axis
        Its axes; those of length 1 do not count.
    dtype : dtype
        Its dtype.
    shape : tuple of int
        Its shape, with axes of length 1.
    params : dict
        What else the operation needs.
    """

    __slots__ = ("_axes", "dtype", "home", "kind", "name", "op", "operands", "params", "shape", "stored")

    def __init__(
        self,
        name: str,
        kind: str,
        op: str,
        operands: tuple[Any, ...],
        axes: tuple[Axis, ...],
        dtype: Any,
        shape: tuple[int, ...],
        **params: Any,
    ) -> None:
        self.name, self.kind, self.op, self.operands = name, kind, op, operands
        self._axes, self.dtype, self.shape, self.params = axes, np.dtype(dtype), shape, params
        # Number of the unit that computes it: -1 for what is given, -2 for what is not yet scheduled.
        self.home = -1 if kind == "input" else -2
        self.stored = kind in ("input", "call")

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Its axes, each by the one that stands for all that are the same."""
        return tuple([axis.root for axis in self._axes])

    @property
    def space(self) -> tuple[Axis, ...]:
        """The axes of the loop that computes it."""
        return self.operands[0].axes if self.kind == "reduce" else self.axes

    @property
    def values(self) -> list["Value"]:
        """The operands that are not numbers."""
        return [x for x in self.operands if isinstance(x, Value)]

    @property
    def is_placed(self) -> bool:
        """Whether it is given, or some unit computes it."""
        return self.home > -2

    @property
    def is_local(self) -> bool:
        """Whether it is one number that a local variable holds."""
        return not self.axes and (self.kind in ("map", "reduce") or self.op == "local")

    @property
    def is_row_reduction(self) -> bool:
        """Whether it is a reduction that one row of the space suffices for."""
        return self.kind == "reduce" and len(self.space) == 2 and self.axes == self.space[:1]

    @property
    def needs_all_rows(self) -> bool:
        """Whether it is known only after all rows of its space have been visited."""
        return self.kind == "reduce" and not self.is_row_reduction

    @property
    def lengths(self) -> tuple[int, ...]:
        """Its shape, without axes of length 1."""
        return tuple([axis.size for axis in self._axes])

    def __repr__(self) -> str:
        return f"{self.name}: {self.kind} {self.op}{list(self.lengths)}"


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
        self, kind: str, op: str, operands: Iterable[Any], axes: Any, dtype: Any, shape: Any, **params: Any
    ) -> Value:
        self._names += 1
        return Value(
            f"{self._prefix}{self._names}", kind, op, tuple(operands), tuple(axes), dtype, shape, **params
        )

    def _input(self, x: Variable) -> Value:
        axes = [Axis(n) for n in long_axes(x.shape)]
        value = self._known[x] = self._new("input", "", (), axes, x.dtype, x.shape)
        return value

    def copy(self, x: Any, like: Value | None = None) -> Value:
        """Return a value of its own with the elements of another, or of a number."""
        if isinstance(x, Value):
            return self._new("map", "copy", (x,), x.axes, x.dtype, x.shape)
        if like is None:
            raise UnsupportedError("a number is returned")
        return self._new("map", "copy", (x,), like.axes, like.dtype, like.shape)

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
        return self._new("map", op, operands, [a for a in axes if a is not None], output.dtype, output.shape)

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

        more = {"applied": applied, "contiguous": views.is_contiguous(output)}
        return self._new("view", name, (self._known[x],), axes, output.dtype, output.shape, **more)

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
        name, params = equation.primitive.name, {}
        if name == "max":
            params["keeps_nan"] = not self._only_shifts(equation)
        return self._new("reduce", name, (value,), kept, output.dtype, output.shape, **params)

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
            total = self._new("map", "add", (total, other), (), dtype, ())
        return total

    def _squares(self, x: Any, dtype: Any) -> Value:
        if not isinstance(x, Value):
            raise UnsupportedError("a sum of numbers")
        if not x.axes:
            return self._new("map", "square", (x,), (), dtype, ())
        return self._new("reduce", "inner", (x, x), (), dtype, ())

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
            return self._new("map", "multiply", (a, b), axes, output.dtype, output.shape)
        inner.unite(other)
        for v in (x, y):
            flags = self._views.ghost(v).flags
            if not (flags.c_contiguous or flags.f_contiguous):
                raise UnsupportedError("matmul of a part of a matrix is not known to the native executor")
        if not axes:
            return self._new("reduce", "inner", (a, b), (), output.dtype, output.shape)
        return self._new(
            "call", "matmul", (a, b), axes, output.dtype, output.shape, shapes=(x.shape, y.shape)
        )

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
            return self._new("map", op, operands, index.axes, dtype, index.shape)

        x = by_row("astype", index, dtype=dtype)
        is_outside = by_row("logical_or", by_row("less", x, 0), by_row("greater", x, length - 0.5))
        counted = by_row("astype", is_outside, dtype=dtype)
        return self._new("reduce", "sum", (counted,), (), dtype, ()) if index.axes else counted

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
        return self._new("reduce", "pick", (x, index), x.axes[:1], x.dtype, equation.output.shape)

    def _put_at(self, equation: Equation) -> Value:
        *parts, positions = equation.operands
        output = equation.output
        axes = [Axis(n) for n in long_axes(output.shape)]
        operands = [*map(self.operand, parts), self._index_of_rows(positions, output.shape)]
        for value in operands:
            for mine, axis in zip(value.axes if isinstance(value, Value) else (), axes, strict=False):
                mine.unite(axis)
        return self._new("map", equation.primitive.name, operands, axes, output.dtype, output.shape)

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
        more = {"columns": columns, "shape_of_values": x.shape}
        kept = [axis for axis in axes if axis is not None]
        return self._new("call", "scatter_add", (value,), kept, output.dtype, output.shape, **more)

    def _dropout_mask(self, equation: Equation) -> Value:
        output, params = equation.output, dict(equation.params)
        axes = [Axis(n) for n in long_axes(output.shape)]
        step = self.operand(equation.operands[1])
        if not isinstance(step, Value) or step.kind != "input":
            raise UnsupportedError("dropout with a step that is computed")
        del params["shape"], params["dtype"]
        return self._new("call", "dropout_mask", (step,), axes, output.dtype, output.shape, **params)

    def _assemble(self, equation: Equation) -> Value:
        operands = [self.operand(x) for x in equation.operands]
        output = equation.output
        starts = equation.params["starts"]
        return self._new(
            "assemble", "", operands, [Axis(output.size)], output.dtype, output.shape, starts=starts
        )


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
