"""Translation of views, reductions and single elements of rows to native values."""

from typing import Any

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors.native._value import Axis, Map, Reduction, Value
from sknet.compile.executors.native._values import Values, dims_of, long_axes, place_beside, rule

__all__: list[str] = []

# -- views --------------------------------------------------------------------------------------


@rule("reshape")
def _reshape(values: Values, equation: Equation) -> Any:
    [x], output = equation.operands, equation.output
    value = values.operand(x)
    if not isinstance(value, Value) or long_axes(x.shape) == long_axes(output.shape):
        return value
    view = values.view(equation, [Axis(n) for n in long_axes(output.shape)])
    return values.reshaped(values.copy(value), output.shape) if view is None else view


@rule("permute_dims")
def _permute(values: Values, equation: Equation) -> Any:
    [x], order = equation.operands, equation.params["axes"]
    value = values.operand(x)
    if not isinstance(value, Value):
        return value
    mine = dims_of(value, x.shape)
    kept = [i % len(mine) for i in order if mine[i] is not None]
    if kept == sorted(kept):
        return value
    if len(kept) > 2:
        return values.view(equation, [Axis(x.shape[i]) for i in kept])
    return values.view(equation, [axis for i in kept if (axis := mine[i]) is not None])


@rule("getitem")
def _getitem(values: Values, equation: Equation) -> Any:
    value, output = values.operand(equation.operands[0]), equation.output
    if not isinstance(value, Value) or (not value.axes and output.size == 1):
        return value
    return values.view(equation, [Axis(n) for n in long_axes(output.shape)])


@rule("broadcast_to")
def _broadcast(values: Values, equation: Equation) -> Any:
    [x], output = equation.operands, equation.output
    value = values.operand(x)
    if not isinstance(value, Value) or long_axes(x.shape) == long_axes(output.shape):
        return value
    return values.map(equation, "copy")


# -- reductions ---------------------------------------------------------------------------------


@rule("sum", "max", "min")
def _reduce(values: Values, equation: Equation) -> Any:
    [x], output = equation.operands, equation.output
    if x.size == 0 or output.dtype != values.dtype or x.dtype != output.dtype:
        return None
    value = values.with_own_axes(values.value(x))
    gone = {a % len(x.shape) for a in equation.params["axis"]}
    kept = [axis for i, axis in enumerate(dims_of(value, x.shape)) if axis is not None and i not in gone]
    if len(kept) == len(value.axes):
        return value
    name = equation.primitive.name
    keeps_nan = name == "sum" or not _only_shifts(values, equation)
    return values.new(Reduction, (value,), kept, output.dtype, output.shape, op=name, keeps_nan=keeps_nan)


def _only_shifts(values: Values, equation: Equation) -> bool:
    """Tell whether a maximum is only subtracted from its own operand, as in a softmax.

    The differences then propagate NaN, so the maximum need not, which would cost
    twice the time where rows are long.
    """
    [x], output = equation.operands, equation.output
    users = [e for e in values.graph.equations if any(y is output for y in e.operands)]
    return output not in values.graph.outputs and all(
        e.primitive.name == "subtract" and e.operands[0] is x for e in users
    )


@rule("sum_squares")
def _sum_squares(values: Values, equation: Equation) -> Value | None:
    dtype = equation.output.dtype
    if any(x.size == 0 or x.dtype != values.dtype for x in equation.operands):
        return None
    sums = [_squares(values, values.value(x), dtype) for x in equation.operands]
    total = sums[0]
    for other in sums[1:]:
        total = values.new(Map, (total, other), (), dtype, (), op="add")
    return total


def _squares(values: Values, x: Value, dtype: Any) -> Value:
    if not x.axes:
        return values.new(Map, (x,), (), dtype, (), op="square")
    x = values.with_own_axes(x)
    return values.new(Reduction, (x, x), (), dtype, (), op="inner")


# -- one element of each row --------------------------------------------------------------------


@rule("flat_index")
def _flat_index(values: Values, equation: Equation) -> Any:
    """Compare an index with the elements of its row, instead of computing flat positions."""
    [x], length = equation.operands, equation.params["length"]
    index = values.operand(x)
    if equation.params.get("from_end", True) or not isinstance(index, Value):
        return None
    values.of_rows[equation.output] = equation, index
    values.outside.append(_number_outside(values, index, length))
    return index


def _number_outside(values: Values, index: Value, length: int) -> Value:
    """Return the number of indices out of bounds."""
    dtype = values.dtype

    def by_row(op: str, *operands: Any, dtype: Any = "bool") -> Value:
        return values.new(Map, operands, index.axes, dtype, index.shape, op=op)

    x = by_row("astype", index, dtype=dtype)
    is_outside = by_row("logical_or", by_row("less", x, 0), by_row("greater", x, length - 0.5))
    counted = by_row("astype", is_outside, dtype=dtype)
    return values.new(Reduction, (counted,), (), dtype, (), op="sum") if index.axes else counted


def _index_of_rows(values: Values, positions: Variable, shape: tuple[int, ...]) -> Value | None:
    """Return the index in each row of an array of this shape; None if only flat positions are known."""
    if positions not in values.of_rows or shape[-1] == 1:
        return None
    _, index = values.of_rows[positions]
    rows = long_axes(shape[:-1])
    return index if rows and index.lengths == rows and len(set(index.axes)) == len(rows) else None


@rule("take_at")
def _take_at(values: Values, equation: Equation) -> Any:
    v, positions = equation.operands
    output = equation.output
    x = values.operand(v)
    if not isinstance(x, Value):
        return x
    index = _index_of_rows(values, positions, v.shape)
    if index is None or output.dtype != values.dtype or len(set(x.axes)) < len(x.axes):
        return None
    pairs = list(zip(x.axes[:-1], index.axes, strict=True))
    if not all(a.may_unite(b) for a, b in pairs):
        return None
    for a, b in pairs:
        a.unite(b)
    taken = values.new(Reduction, (x, index), x.axes[:-1], x.dtype, v.shape[:-1], op="pick")
    return taken if len(pairs) == 1 else values.reshaped(taken, output.shape)


@rule("put_at", "subtract_at")
def _put_at(values: Values, equation: Equation) -> Value | None:
    *parts, positions = equation.operands
    output = equation.output
    index = _index_of_rows(values, positions, output.shape)
    if index is None:
        return None
    long = long_axes(output.shape)
    row = (*long[:-1], 1)
    axes = [Axis(n) for n in long]
    place_beside(axes)
    shapes = [long] * (len(parts) - 1) + [row]
    operands = []
    for x, shape in zip(parts, shapes, strict=True):
        value = _in_shape(values, x, shape)
        operands.append(values.aligned(value, Variable(shape, output.dtype), axes))
    index = values.aligned(index, Variable(row, index.dtype), axes)
    name = equation.primitive.name
    return values.new(Map, (*operands, index), axes, output.dtype, output.shape, op=name)


def _in_shape(values: Values, x: Any, shape: tuple[int, ...]) -> Any:
    """Return an operand with the axes of `shape`, which it may have merged."""
    value = values.operand(x)
    if not isinstance(value, Value) or value.lengths == long_axes(shape):
        return value
    return values.reshaped(values.contiguous(x), shape)
