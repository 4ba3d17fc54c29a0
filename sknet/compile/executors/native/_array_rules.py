"""Translation of products, indexed rows and slices, and of primitives that are left to NumPy."""

import math
from functools import partial
from typing import Any

import numpy as np

from sknet._indexing import is_basic, with_ellipsis
from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._writer import forward_scratch
from sknet.compile.executors.native._value import (
    Along,
    ArrayCall,
    Assembly,
    Axis,
    Columns,
    Given,
    HostCall,
    Map,
    Mask,
    Pasted,
    Product,
    Products,
    Reduction,
    Rows,
    UnsupportedError,
    Value,
    View,
)
from sknet.compile.executors.native._values import OTHERWISE, Values, dims_of, long_axes, rule
from sknet.device import backend, result_dtype
from sknet.ops import SparseSlot

__all__: list[str] = []

Shape = tuple[int, ...]


def _called(
    values: Values, kind: type[ArrayCall], equation: Equation, operands: Any, **more: Any
) -> ArrayCall:
    """Return the value of an equation, computed by a function over whole arrays."""
    output = equation.output
    axes = [Axis(n) for n in long_axes(output.shape)]
    return values.new(kind, operands, axes, output.dtype, output.shape, **more)


# -- products -----------------------------------------------------------------------------------


@rule("matmul")
def _matmul(values: Values, equation: Equation) -> Value | None:
    x, y = equation.operands
    output = equation.output
    if min(x.ndim, y.ndim) < 2 or x.dtype != y.dtype or output.size == 0 or x.size == 0:
        return None
    if x.ndim > 2 or y.ndim > 2:
        return _stacks(values, equation) if x.dtype == values.dtype else None
    a, b = values.value(x), values.value(y)
    rows, inner = dims_of(a, x.shape)
    other, columns = dims_of(b, y.shape)
    axes = [axis for axis in (rows, columns) if axis is not None]
    if inner is None or other is None:
        if rows is not None and rows is columns:
            b = values.alias(b)
            axes[1:] = b.axes
        return values.new(Map, (a, b), axes, output.dtype, output.shape, op="multiply")
    if inner.may_unite(other):
        inner.unite(other)
    elif not axes:
        b = values.alias(b)
        inner.unite(b.axes[0])
    if not axes:
        return values.new(Reduction, (a, b), (), output.dtype, output.shape, op="inner")
    a, b = (_for_product(values, value, v) for value, v in ((a, x), (b, y)))
    return values.new(Product, (a, b), axes, output.dtype, output.shape, shapes=(x.shape, y.shape))


def _for_product(values: Values, value: Value, x: Variable) -> Value:
    flags = values.ghost(value, x).flags
    is_plain = not isinstance(value, View) or flags.c_contiguous or flags.f_contiguous
    return value if is_plain else values.copy(value)


def _stacks(values: Values, equation: Equation) -> Value:
    (x, y), output = equation.operands, equation.output
    a, b = values.array(x), values.array(y)
    if y.size == y.shape[-2] * y.shape[-1] and (not isinstance(a, View) or a.is_contiguous):
        b = _for_product(values, b, Variable(y.shape[-2:], y.dtype))
        shapes = (math.prod(x.shape[:-1]), x.shape[-1]), y.shape[-2:]
        return _called(values, Product, equation, (a, b), shapes=shapes)
    a, b = (_with_rows(values, value, v) for value, v in ((a, x), (b, y)))
    batch = output.shape[:-2]
    wholes = [(*batch, *v.shape[-2:]) for v in (x, y, output)]
    strides = [
        _broadcast_strides(v.shape[:-2], values.ghost(value, v).strides[:-2], batch)
        for value, v in ((a, x), (b, y))
    ]
    strides.append(np.empty(output.shape, output.dtype).strides[:-2])
    merged = _merged(batch, strides)
    stacks = tuple(
        (v.shape, shape, (*merged, *shape[-2:])) for v, shape in zip((x, y, output), wholes, strict=True)
    )
    return _called(values, Products, equation, (a, b), stacks=stacks)


def _with_rows(values: Values, value: Value, x: Variable) -> Value:
    """Return a value whose matrices BLAS can read: with contiguous rows or columns."""
    fits = x.dtype.itemsize in values.ghost(value, x).strides[-2:]
    return value if fits or 1 in x.shape[-2:] else values.copy(value)


def _broadcast_strides(shape: Shape, strides: Shape, batch: Shape) -> Shape:
    own = [0 if n == 1 else s for n, s in zip(shape, strides, strict=True)]
    return (*[0] * (len(batch) - len(shape)), *own)


def _merged(batch: Shape, strides: list[Shape]) -> Shape:
    """Return the lengths of a stack's axes, merging those that are contiguous in all arrays."""
    sizes: list[int] = []
    last: list[int] = []
    for i, n in enumerate(batch):
        if n == 1:
            continue
        here = [each[i] for each in strides]
        if sizes and last == [n * s for s in here]:
            sizes[-1] *= n
        else:
            sizes.append(n)
        last = here
    return tuple(sizes)


# -- indexed rows -------------------------------------------------------------------------------


def _around(shape: Shape, axis: int) -> tuple[int, int, int]:
    at = len(shape) + axis
    return math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])


def _indexed(values: Values, equation: Equation, kind: type[Rows], adds: bool) -> Value | None:
    x, index = equation.operands
    output = equation.output
    is_index = type(index) is Variable and index.dtype.kind in "iu" and index.size
    if not is_index or x.size == 0 or x.dtype != output.dtype or output.dtype != values.dtype:
        return None
    longer = output.shape if adds else x.shape
    around = _around(longer, equation.params["axis"])
    operands = values.contiguous(x), values.contiguous(index)
    from_end = equation.params.get("from_end", True)
    return _called(values, kind, equation, operands, adds=adds, around=around, from_end=from_end)


@rule("take")
def _take(values: Values, equation: Equation) -> Value | None:
    return _indexed(values, equation, Rows, adds=False)


@rule("put")
def _put(values: Values, equation: Equation) -> Value | None:
    return _indexed(values, equation, Rows, adds=True)


@rule("take_along_axis")
def _take_along(values: Values, equation: Equation) -> Value | None:
    return _indexed(values, equation, Along, adds=False)


@rule("put_along_axis")
def _put_along(values: Values, equation: Equation) -> Value | None:
    return _indexed(values, equation, Along, adds=True)


# -- slices -------------------------------------------------------------------------------------


@rule("concat")
def _concat(values: Values, equation: Equation) -> Value | None:
    output, axis = equation.output, equation.params["axis"]
    parts = [x for x in equation.operands if x.size]
    if not parts or any(x.dtype != output.dtype for x in parts):
        return None
    places, start = [], 0
    for x in parts:
        stop = start + x.shape[axis]
        places.append((..., slice(start, stop), *[slice(None)] * (output.ndim - 1 - axis % output.ndim)))
        start = stop
    return _pasted(values, equation, parts, places, None)


@rule("setitem")
def _setitem(values: Values, equation: Equation) -> Value | None:
    (x, part), index = equation.operands, equation.params["index"]
    if not is_basic(index) or (type(part) is Variable and part.dtype != x.dtype) or x.size == 0:
        return None
    if type(part) is Variable and part.ndim > len(x.shape):
        return None
    return _pasted(values, equation, (x, part), (..., with_ellipsis(index)), None)


@rule("pad")
def _pad(values: Values, equation: Equation) -> Value | None:
    [x], params = equation.operands, equation.params
    if x.size == 0:
        return None
    widths = params["widths"]
    lengths = x.shape[x.ndim - len(widths) :]
    inside = (..., *[slice(before, before + n) for (before, _), n in zip(widths, lengths, strict=True)])
    return _pasted(values, equation, (x,), (inside,), params["value"])


@rule("scatter_add")
def _scatter_add(values: Values, equation: Equation) -> Value | None:
    """Return zeros except where an index points: the gradient of indexing."""
    [x], output, index = equation.operands, equation.output, equation.params["index"]
    if not is_basic(index) or x.dtype != output.dtype or output.dtype != values.dtype:
        return None
    columns = _columns_of(index, output.shape)
    if columns is None or output.size == 0:
        return _pasted(values, equation, (x,), (with_ellipsis(index),), 0.0)
    value = values.operand(x)
    axes = [None if n == 1 else Axis(n) for n in output.shape]
    if isinstance(value, Value) and axes[0] is not None:
        value.axes[0].unite(axes[0])
    kept = [axis for axis in axes if axis is not None]
    return values.new(Columns, (value,), kept, output.dtype, output.shape, columns=columns, given=x.shape)


def _columns_of(index: Any, shape: Shape) -> str | None:
    """Return the source of an index of whole columns of a matrix; None for any other index."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(shape) != 2 or None in parts:
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


@rule("assemble")
def _assemble(values: Values, equation: Equation) -> Value:
    starts = equation.params["starts"]
    places = tuple(slice(s, s + x.size) for s, x in zip(starts, equation.operands, strict=True))
    shapes = tuple((x.size,) for x in equation.operands)
    operands = [values.operand(x) for x in equation.operands]
    return _called(values, Assembly, equation, operands, starts=starts, places=places, given=shapes, fill=0.0)


def _pasted(values: Values, equation: Equation, parts: Any, places: Any, fill: float | None) -> Value:
    operands = [values.operand(x) for x in parts]
    shapes = tuple(getattr(x, "shape", ()) for x in parts)
    return _called(values, Pasted, equation, operands, places=tuple(places), given=shapes, fill=fill)


# -- others -------------------------------------------------------------------------------------


@rule("dropout_mask", "uniform_draws")
def _dropout_mask(values: Values, equation: Equation) -> Value | None:
    output, params = equation.output, dict(equation.params)
    axes = [Axis(n) for n in long_axes(output.shape)]
    step = values.operand(equation.operands[1])
    if not isinstance(step, Given) or step.axes:
        return None
    del params["shape"], params["dtype"]
    return values.new(Mask, (step,), axes, output.dtype, output.shape, **params)


@rule(OTHERWISE)
def _on_the_host(values: Values, equation: Equation) -> Value:
    primitive, params = equation.primitive, equation.params
    if any(isinstance(x, SparseSlot) for x in params.values()):
        raise UnsupportedError(f"{primitive.name} reads a sparse matrix, which native code cannot")
    dtype = None
    if len(equation.variables) < len(equation.operands):
        dtype = result_dtype(*primitive.values(equation.operands))
    given = tuple(
        x.shape if type(x) is Variable else np.asarray(x, None if i == primitive.condition else dtype)
        for i, x in enumerate(equation.operands)
    )
    forward = primitive.forward_on(backend("cpu"))
    return _called(
        values, HostCall, equation, [values.array(x) for x in equation.variables],
        forward=partial(forward, **params) if params else forward, given=given,
        scratch=tuple(forward_scratch(equation)), writes_out=primitive.writes_out,
    )  # fmt: skip
