"""Rows of reductions, scans, sorting and searching."""

import functools
from typing import Any

import numpy as np

from sknet.compile import Equation
from sknet.compile.extend import Length
from sknet.device import result_dtype
from sknet.onnx._expressions import broadcast_shape, expression
from sknet.onnx._writer import Value, Writer, row

__all__: list[str] = []

REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def _reduced(w: Writer, op: str, x: Value, axis: Any, keepdims: bool) -> Value:
    axes = sorted(a % x.ndim for a in axis)
    if not axes:
        return x
    shape = [(1 if i in axes else n) for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return w.add(op, x, w.constant(axes, np.int64), shape=shape, keepdims=int(keepdims))


@row(*REDUCTIONS)
def _reduction(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    dtype = equation.output.dtype
    computed = x.dtype if x.dtype.kind == dtype.kind else dtype
    if computed.kind in "bu" or (computed.itemsize < 4 and computed.kind == "i"):
        computed = np.dtype(np.int64)  # few runtimes reduce other integer dtypes
    found = _reduced(w, REDUCTIONS[equation.primitive.name], w.cast(x, computed), axis, keepdims)
    return w.cast(found, dtype)


@row("any", "all")
def _truths(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    op = "ReduceMax" if equation.primitive.name == "any" else "ReduceMin"
    return w.cast(_reduced(w, op, w.cast(w.cast(x, bool), np.int32), axis, keepdims), bool)


@row("argmax", "argmin")
def _place(w: Writer, equation: Equation, x: Value, axis: int, keepdims: bool = False) -> Value:
    """NaN counts as both largest and smallest, as in NumPy."""
    op = "ArgMax" if equation.primitive.name == "argmax" else "ArgMin"
    if x.dtype.kind == "f":
        extreme = w.constant(np.inf if op == "ArgMax" else -np.inf, x.dtype)
        is_nan = w.add("IsNaN", x, dtype=bool)
        x = w.add("Where", is_nan, extreme, x, dtype=x.dtype, shape=x.shape)
    else:
        x = w.cast(x, np.int64 if x.dtype.itemsize > 4 or x.dtype.kind == "u" else np.int32)
    at = axis % x.ndim
    shape = [1 if i == at else n for i, n in enumerate(x.shape) if keepdims or i != at]
    found = w.add(op, x, dtype=np.int64, shape=shape, axis=at, keepdims=int(keepdims))
    return w.cast(found, equation.output.dtype)


@row("sum_squares")
def _sum_squares(w: Writer, equation: Equation, *arrays: Value) -> Value:
    parts = []
    for array in arrays:
        x = w.cast(array, equation.output.dtype)
        parts.append(_reduced(w, "ReduceSum", w.add("Mul", x, x), range(x.ndim), False))
    return functools.reduce(lambda total, part: w.add("Add", total, part), parts)


@row("logsumexp")
def _logsumexp(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    dtype = equation.output.dtype
    x = w.cast(x, dtype)
    top = _reduced(w, "ReduceMax", x, axis, True)
    top = expression(w, "x if isfinite(x) else 0", {"x": top}, dtype)
    total = _reduced(w, "ReduceSum", expression(w, "exp(x - y)", {"x": x, "y": top}, dtype), axis, True)
    found = expression(w, "log(x) + y", {"x": total, "y": top}, dtype)
    return w.reshaped(found, w.rows.shape(equation.output))


@row("softmax", "log_softmax")
def _softmax(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    op = "Softmax" if equation.primitive.name == "softmax" else "LogSoftmax"
    return w.add(op, w.cast(x, equation.output.dtype), axis=axis % x.ndim)


@row("cumulative_sum")
def _cumulative_sum(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    at = w.constant(axis % x.ndim, np.int64)
    return w.add("CumSum", w.cast(x, equation.output.dtype), at)


@row("cumulative_prod")
def _cumulative_prod(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    """The partial products of 1, 2, 4, ... elements, each from two of the step before."""
    x = w.cast(x, equation.output.dtype)
    at = axis % x.ndim
    length = x.known(at)
    apart = 1
    while apart < length:
        first = sliced(w, x, at, 0, apart)
        product = w.add("Mul", sliced(w, x, at, apart, length), sliced(w, x, at, 0, length - apart))
        x = w.add("Concat", first, product, shape=x.shape, axis=at)
        apart *= 2
    return x


def sliced(w: Writer, x: Value, axis: int, start: int, stop: int) -> Value:
    """Return elements from start to stop along an axis."""
    bounds = [w.constant([n], np.int64) for n in (start, stop, axis)]
    shape = [stop - start if i == axis else n for i, n in enumerate(x.shape)]
    return w.add("Slice", x, *bounds, shape=shape)


# -- sorting and searching -------------------------------------------------------------------


def _sorted(w: Writer, x: Value, axis: int, k: int | Length, largest: bool) -> tuple[Value, Value]:
    """Return the first k elements in order and their indices; the sort is stable."""
    shape = [k if i == axis else n for i, n in enumerate(x.shape)]
    outputs = [(None, shape), (np.int64, shape)]
    values, places = w.add_several(
        "TopK", (x, w.lengths([k])), outputs, axis=axis, largest=int(largest), sorted=1
    )
    return values, places


def _ordered(w: Writer, x: Value) -> Value:
    """Return x in a dtype that can be sorted, with infinity for NaN, which sorts last."""
    if x.dtype.kind == "f":
        is_nan = w.add("IsNaN", x, dtype=bool)
        return w.add("Where", is_nan, w.constant(np.inf, x.dtype), x, dtype=x.dtype, shape=x.shape)
    return w.cast(x, np.int64)


@row("sort")
def _sort(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    at = axis % x.ndim
    _, places = _sorted(w, _ordered(w, x), at, x.shape[at], largest=False)
    return w.add("GatherElements", x, places, axis=at)


@row("argsort")
def _argsort(w: Writer, equation: Equation, x: Value, axis: int, descending: bool) -> Value:
    at = axis % x.ndim
    return _sorted(w, _ordered(w, x), at, x.shape[at], descending)[1]


@row("topk")
def _topk(w: Writer, equation: Equation, x: Value, k: int, axis: int, largest: bool) -> Value:
    return _sorted(w, _ordered(w, x), axis % x.ndim, k, largest)[1]


@row("searchsorted")
def _searchsorted(w: Writer, equation: Equation, x: Value, values: Value, side: str) -> Value:
    """Count the elements that come before, by comparing with all."""
    dtype = result_dtype(*equation.operands)
    x, values = w.cast(x, dtype), w.cast(values, dtype)
    column = w.reshaped(values, (*values.shape, 1))
    op = "x < y" if side == "left" else "x <= y"
    before = expression(w, op, {"x": x, "y": column}, dtype)
    counted = w.cast(w.expanded(before, broadcast_shape(x, column)), np.int64)
    return _reduced(w, "ReduceSum", counted, (-1,), False)
