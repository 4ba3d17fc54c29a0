"""Rows of operations that move elements: shapes, concatenation, padding, indexing."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sknet.compile import Equation
from sknet.compile._symbolic import VARYING, plus
from sknet.exceptions import CaptureError
from sknet.onnx._elementwise import common
from sknet.onnx._writer import Value, Writer, row

END = np.iinfo(np.int64).max


@row("reshape")
def _reshape(w: Writer, equation: Equation, x: Value, shape: Any) -> Value:
    return w.reshaped(x, w.rows.shape(equation.output))


@row("permute_dims")
def _permute(w: Writer, equation: Equation, x: Value, axes: Any) -> Value:
    return w.transposed(x, axes)


@row("broadcast_to")
def _broadcast(w: Writer, equation: Equation, x: Value, shape: Any) -> Value:
    return w.expanded(x, w.rows.shape(equation.output))


@row("concat")
def _concat(w: Writer, equation: Equation, *arrays: Any, axis: int) -> Value:
    parts = common(w, equation, list(arrays), equation.output.dtype)
    at = axis % parts[0].ndim
    return w.add("Concat", *parts, shape=w.rows.shape(equation.output), axis=at)


@row("pad")
def _pad(w: Writer, equation: Equation, x: Value, widths: Any, value: float) -> Value:
    widths = [(0, 0)] * (x.ndim - len(widths)) + list(widths)
    pads = [before for before, _ in widths] + [after for _, after in widths]
    amounts, number = w.lengths(pads), w.constant(value, x.dtype)
    return w.add("Pad", x, amounts, number, shape=w.rows.shape(equation.output), mode="constant")


# -- one index after the other ---------------------------------------------------------------


@row("take")
def _take(w: Writer, equation: Equation, x: Value, indices: Value, axis: int, **_: Any) -> Value:
    at, shape = axis % x.ndim, w.rows.shape(equation.output)
    return w.add("Gather", x, w.cast(indices, np.int64), shape=shape, axis=at)


@row("take_along_axis")
def _take_along(w: Writer, equation: Equation, x: Value, indices: Value, axis: int, **_: Any) -> Value:
    places = w.cast(indices, np.int64)
    return w.add("GatherElements", x, places, shape=indices.shape, axis=axis % x.ndim)


@row("put_along_axis")
def _put_along(
    w: Writer, equation: Equation, g: Value, indices: Value, length: int, axis: int, **_: Any
) -> Value:
    shape = w.rows.shape(equation.output)
    zeros = w.expanded(w.constant(0, g.dtype), shape)
    places = w.cast(indices, np.int64)
    return w.add("ScatterElements", zeros, places, g, axis=axis % g.ndim, reduction="add")


@row("put")
def _put(w: Writer, equation: Equation, g: Value, indices: Value, length: int, axis: int, **_: Any) -> Value:
    """Scatter-add rows along the axis, which is moved to the front."""
    shape = w.rows.shape(equation.output)
    at = axis % len(shape)
    behind = len(shape) - at - 1
    before = list(range(at))
    middle = list(range(at, g.ndim - behind))
    front = w.transposed(g, [*middle, *before, *range(g.ndim - behind, g.ndim)])
    target = [shape[at], *shape[:at], *shape[at + 1 :]]
    zeros = w.expanded(w.constant(0, g.dtype), target)
    places = w.reshaped(w.cast(indices, np.int64), (*indices.shape, 1))
    found = w.add("ScatterND", zeros, places, front, reduction="add")
    return w.transposed(found, [*range(1, at + 1), 0, *range(at + 1, len(shape))])


# -- indexing with [] ------------------------------------------------------------------------


@row("getitem")
def _getitem(w: Writer, equation: Equation, x: Value, index: Any) -> Value:
    parts, arrays = _split(index, x.ndim)
    shape = w.rows.shape(equation.output)
    found = _gathered(w, x, parts, shape) if arrays else _sliced(w, x, parts, shape)
    return w.reshaped(found, shape)


def _split(index: Any, ndim: int) -> tuple[list[Any], bool]:
    """Return an index for every axis, with None for each new axis, and whether one of them is an array."""
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [np.asarray(p) if isinstance(p, (list, np.ndarray)) else p for p in parts]
    taken = sum(p.ndim if _is_mask(p) else p is not None and p is not Ellipsis for p in parts)
    whole = [slice(None)] * (ndim - taken)
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[at : at + 1] = whole
    return parts, any(isinstance(p, np.ndarray) for p in parts)


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == bool


def _sliced(w: Writer, x: Value, parts: list[Any], result: tuple[Any, ...]) -> Value:
    """Return x after integers and slices, with an axis of length 1 for each integer."""
    starts, stops, steps, axes = [], [], [], []
    shape = list(x.shape)
    lengths = iter(result)
    for axis, part in _by_axis(parts, lengths):
        if isinstance(part, slice):
            shape[axis] = next(lengths)
        if part == slice(None):
            continue
        if isinstance(part, slice):
            start, stop, step = _bounds(part, x.shape[axis])
        else:
            start, step = part, 1
            stop = END if part == -1 else plus(part, 1)
            shape[axis] = 1
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        axes.append(axis)
    if not axes:
        return x
    bounds = [w.lengths(starts), w.lengths(stops), w.constant(axes, np.int64), w.constant(steps, np.int64)]
    return w.add("Slice", x, *bounds, shape=shape)


def _by_axis(parts: list[Any], lengths: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Yield every axis with its index; skip the lengths of new axes."""
    axis = 0
    for part in parts:
        if part is None:
            next(lengths)
        else:
            yield axis, part
            axis += 1


def _bounds(part: slice, length: Any) -> tuple[Any, Any, int]:
    step = 1 if part.step is None else part.step
    if step > 0:
        return 0 if part.start is None else part.start, END if part.stop is None else part.stop, step
    start = END if part.start is None else part.start
    return start, -END if part.stop is None else part.stop, step


def _gathered(w: Writer, x: Value, parts: list[Any], result: tuple[Any, ...]) -> Value:
    """Return the elements that an index with arrays takes, from each row of x if it has rows."""
    places = _places(x, parts)
    rows = _rows_of(x)
    if (*rows, *places.shape) != result:
        raise CaptureError("an index with arrays on both sides of a slice cannot be exported")
    flat = w.reshaped(x, (*rows, _row_size(x)))
    taken = w.constant(places.reshape(-1), np.int64)
    return w.add("Gather", flat, taken, shape=(*rows, places.size), axis=len(rows))


@row("setitem")
def _setitem(w: Writer, equation: Equation, x: Value, value: Any, index: Any) -> Value:
    places = _places(x, _split(index, x.ndim)[0])
    [given] = common(w, equation, [value], x.dtype)
    return _scattered(w, x, places, w.expanded(given, (*_rows_of(x), *places.shape)), "none")


@row("scatter_add")
def _scatter_add(w: Writer, equation: Equation, g: Value, index: Any, shape: Any) -> Value:
    zeros = w.expanded(w.constant(0, g.dtype), w.rows.shape(equation.output))
    places = _places(zeros, _split(index, zeros.ndim)[0])
    return _scattered(w, zeros, places, g, "add")


def _rows_of(x: Value) -> tuple[Any, ...]:
    return tuple(n for n in x.shape if isinstance(n, VARYING))


def _row_size(x: Value) -> int:
    return math.prod(n for n in x.shape if isinstance(n, int))


def _places(x: Value, parts: list[Any]) -> np.ndarray[Any, Any]:
    """Return the flat positions of the elements that an index takes, in x or in each row of it."""
    n_rows = len(_rows_of(x))
    first = [p for p in parts if p is not None][:n_rows]
    if n_rows > 1 or (n_rows and not isinstance(x.shape[0], VARYING)):
        raise CaptureError("an index with arrays on both sides of a slice cannot be exported")
    if parts[:n_rows] != first or any(not isinstance(p, slice) or p != slice(None) for p in first):
        raise CaptureError("an index that takes some of the rows cannot be exported for any number of rows")
    lengths = [n for n in x.shape if isinstance(n, int)]
    return np.arange(math.prod(lengths)).reshape(lengths)[tuple(parts[n_rows:])]


def _scattered(w: Writer, x: Value, places: np.ndarray[Any, Any], given: Value, reduction: str) -> Value:
    """Return x with elements written, or added, at positions that are the same in every row."""
    rows = _rows_of(x)
    axes = [1, 0] if rows else [0]
    flat = w.transposed(w.reshaped(x, (*rows, _row_size(x))), axes)
    updates = w.transposed(w.reshaped(given, (*rows, places.size)), axes)
    where = w.constant(places.reshape(-1, 1), np.int64)
    found = w.add("ScatterND", flat, where, updates, reduction=reduction)
    return w.reshaped(w.transposed(found, axes), x.shape)
