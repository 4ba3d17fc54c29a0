"""ONNX operators that move elements: shapes, concatenation, indexing, sorting."""

import math
from typing import Any, Literal

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind, normalize_axis
from sknet.exceptions import LoadError
from sknet.onnx._read_elementwise import flattened
from sknet.onnx._reading import Flag, are_known, ints, known, operator


@operator("Shape")
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Any:
    return np.array(x.shape[start:end], np.int64)


@operator("Size")
def _size(x: Any) -> Any:
    return np.array(math.prod(x.shape), np.int64)


@operator("Constant")
def _constant(
    *, value: Any = None, value_float: Any = None, value_floats: Any = None, value_int: Any = None,
    value_ints: Any = None,
) -> Any:  # fmt: skip
    if value is not None:
        return np.asarray(value)
    numbers = value_float if value_float is not None else value_floats
    if numbers is not None:
        return np.asarray(numbers, np.float32)
    return np.asarray(value_int if value_int is not None else value_ints, np.int64)


@operator("ConstantOfShape")
def _constant_of_shape(shape: Any, *, value: Any = np.zeros(1, np.float32)) -> Any:  # noqa: B008  read only
    return np.full(ints(shape, "a shape"), value.item(), value.dtype)


@operator("Range")
def _range(start: Any, stop: Any, step: Any, *, stash_type: Literal[1] = 1) -> Any:
    first, last, delta = (known(x, "a range").reshape(()) for x in (start, stop, step))
    wide = np.dtype(np.float32) if first.dtype == np.float16 else first.dtype
    count = max(math.ceil((last.item() - first.item()) / delta.item()), 0)
    return (first.astype(wide) + np.arange(count).astype(wide) * delta.astype(wide)).astype(first.dtype)


@operator("Reshape")
def _reshape(x: Any, shape: Any, *, allowzero: Flag = 0) -> Any:
    lengths = ints(shape, "a shape")
    if not allowzero:
        lengths = [x.shape[i] if n == 0 else n for i, n in enumerate(lengths)]
    elif 0 in lengths and -1 in lengths:
        raise LoadError(f"the shape {lengths} has both 0 and -1, with allowzero=1")
    return ops.reshape(as_tensor(x), tuple(lengths))


@operator("Flatten")
def _flatten(x: Any, *, axis: int = 1) -> Any:
    return flattened(as_tensor(x), axis)


@operator("Transpose")
def _transpose(x: Any, *, perm: Any = None) -> Any:
    return ops.permute_dims(as_tensor(x), tuple(range(x.ndim))[::-1] if perm is None else tuple(perm))


@operator("Expand")
def _expand(x: Any, shape: Any) -> Any:
    return ops.broadcast_to(as_tensor(x), np.broadcast_shapes(x.shape, tuple(ints(shape, "a shape"))))


@operator("Squeeze", since=13)
def _squeeze(x: Any, axes: Any = None) -> Any:
    return _squeezed(x, axes=None if axes is None else ints(axes, "an axis"))


@operator("Squeeze", until=12)
def _squeezed(x: Any, *, axes: Any = None) -> Any:
    if axes is not None and not len(axes):
        raise LoadError("an empty list of axes is not supported: runtimes differ")
    at = tuple(i for i, n in enumerate(x.shape) if n == 1) if axes is None else tuple(axes)
    return ops.squeeze(as_tensor(x), at)


@operator("Unsqueeze", since=13)
def _unsqueeze(x: Any, axes: Any) -> Any:
    return _unsqueezed(x, axes=ints(axes, "an axis"))


@operator("Unsqueeze", until=12)
def _unsqueezed(x: Any, *, axes: Any) -> Any:
    lengths, ndim = list(x.shape), x.ndim + len(axes)
    places = _axes(axes, ndim)
    for place in sorted(places):
        lengths.insert(place, 1)
    return ops.reshape(as_tensor(x), tuple(lengths))


def _axes(axes: Any, ndim: int) -> list[int]:
    """Return different axes, counted from the front."""
    found = [normalize_axis(axis, ndim, "axes") + ndim for axis in axes]
    if len(set(found)) < len(found):
        raise LoadError(f"the axes {list(axes)} repeat one of {ndim} axes")
    return found


@operator("Concat")
def _concat(*arrays: Any, axis: int) -> Any:
    return ops.concat([as_tensor(x) for x in arrays], axis)


def _cut(x: Any, axis: int, lengths: list[int]) -> Any:
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "axis") + x.ndim
    if min(lengths, default=0) < 0 or sum(lengths) != x.shape[at]:
        raise LoadError(f"parts of {lengths} are not the {x.shape[at]} elements of axis {axis}")
    ends = np.cumsum(lengths).tolist()
    before = (slice(None),) * at
    return tuple(x[(*before, slice(end - n, end))] for n, end in zip(lengths, ends, strict=True))


def _equal_parts(x: Any, axis: int, count: int) -> list[int]:
    length = x.shape[axis]
    if length % count:
        raise LoadError(f"{length} elements of axis {axis} cannot be split into {count} equal parts")
    return [length // count] * count


@operator("Split", since=18, outputs=None)
def _split(x: Any, parts: Any = None, *, axis: int = 0, num_outputs: int = 0, n_outputs: int) -> Any:
    if parts is not None:
        return _cut(x, axis, ints(parts, "a split"))
    if num_outputs != n_outputs:
        raise LoadError(f"num_outputs={num_outputs}, but it has {n_outputs} outputs")
    whole = -(-x.shape[axis] // num_outputs)
    return _cut(x, axis, [whole] * (num_outputs - 1) + [x.shape[axis] - whole * (num_outputs - 1)])


@operator("Split", since=13, until=17, outputs=None)
def _split_equally(x: Any, parts: Any = None, *, axis: int = 0, n_outputs: int) -> Any:
    return _cut(x, axis, _equal_parts(x, axis, n_outputs) if parts is None else ints(parts, "a split"))


@operator("Split", until=12, outputs=None)
def _split_as_told(x: Any, *, axis: int = 0, split: Any = None, n_outputs: int) -> Any:
    return _cut(x, axis, _equal_parts(x, axis, n_outputs) if split is None else list(split))


@operator("Slice", since=10)
def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    given = [None if v is None else ints(v, "a slice") for v in (starts, ends, axes, steps)]
    return _sliced(x, *given)


@operator("Slice", until=9)
def _slice_as_told(x: Any, *, starts: Any, ends: Any, axes: Any = None) -> Any:
    return _sliced(x, starts, ends, axes, None)


def _sliced(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    index: list[Any] = [slice(None)] * x.ndim
    places = _axes(range(len(starts)) if axes is None else axes, x.ndim)
    steps = [1] * len(starts) if steps is None else steps
    for start, end, at, step in zip(starts, ends, places, steps, strict=True):
        index[at] = _part(start, end, step, x.shape[at])
    return as_tensor(x)[tuple(index)]


def _part(start: int, end: int, step: int, length: int) -> slice:
    """Return a slice between bounds that are brought into the axis, as the standard does."""
    if step < 0 and end in (2**31 - 1, 2**63 - 1):
        raise LoadError(f"a step of {step} to the end {end} is not supported: runtimes differ")
    start, end = (place + length if place < 0 else place for place in (start, end))
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    start, end = min(max(start, 0), length - 1), min(max(end, -1), length - 1)
    return slice(max(start, 0), None if end < 0 else end, step)


@operator("Gather")
def _gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    return ops.take(as_tensor(x), _within(indices, x.shape[axis]), axis)


def _within(indices: Any, length: int) -> Any:
    """Return indices; known ones must be in an axis."""
    if are_known(indices):
        places = np.asarray(indices)
        if places.size and not -length <= places.min() <= places.max() < length:
            raise LoadError(
                f"an index is out of bounds for {length} elements: from {places.min()} to {places.max()}"
            )
    return indices


@operator("GatherElements")
def _gather_elements(x: Any, indices: Any, *, axis: int = 0) -> Any:
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "axis") + x.ndim
    _check_smaller(indices, x, at)
    _within(indices, x.shape[at])
    part = tuple(slice(None) if i == at else slice(n) for i, n in enumerate(indices.shape))
    return ops.take_along_axis(x[part], indices, at)


def _check_smaller(indices: Any, x: Any, at: int) -> None:
    lengths = list(indices.shape)
    if len(lengths) != x.ndim or any(
        n > m for i, (n, m) in enumerate(zip(lengths, x.shape, strict=True)) if i != at
    ):
        raise LoadError(f"outside axis {at}, indices of shape {lengths} are not within {list(x.shape)}")


@operator("ScatterElements")
def _scatter_elements(
    x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: Literal["none", "add"] = "none"
) -> Any:
    x, updates = as_tensor(x), as_tensor(updates)
    at = normalize_axis(axis, x.ndim, "axis") + x.ndim
    _check_smaller(indices, x, at)
    if tuple(updates.shape) != tuple(indices.shape):
        raise LoadError(f"updates of shape {list(updates.shape)} for indices of {list(indices.shape)}")
    _within(indices, x.shape[at])
    if reduction == "none" and are_known(indices):
        grid = list(np.indices(indices.shape, sparse=True))
        grid[at] = np.asarray(indices)
        return bind(PRIMITIVES["setitem"], (x, updates), {"index": tuple(np.broadcast_arrays(*grid))})
    added = _put(updates, indices, x, at)
    if reduction == "add":
        return x + added
    written = _put(ops.ones_like(updates), indices, x, at)
    return ops.where(ops.greater(written, 0), added, x)


def _put(updates: Any, indices: Any, like: Any, at: int) -> Any:
    """Return zeros with updates added at indices along an axis."""
    where = {"length": like.shape[at], "axis": at - like.ndim}
    found = bind(PRIMITIVES["put_along_axis"], (updates, as_tensor(indices)), where)
    return ops.pad(found, [(0, n - m) for n, m in zip(like.shape, found.shape, strict=True)])


def _places(x: Any, indices: Any) -> tuple[Any, ...]:
    """Return the index of parts of x from rows of known indices."""
    places = known(indices, "an index")
    if places.shape[-1] > x.ndim:
        raise LoadError(f"indices of shape {list(places.shape)} point to more axes than {x.ndim}")
    return tuple(_within(places[..., i], x.shape[i]) for i in range(places.shape[-1]))


@operator("ScatterND")
def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: Literal["none", "add"] = "none") -> Any:
    x, updates = as_tensor(x), as_tensor(updates)
    index = _places(x, indices)
    if reduction == "none":
        return bind(PRIMITIVES["setitem"], (x, updates), {"index": index})
    return x + bind(PRIMITIVES["scatter_add"], (updates,), {"index": index, "shape": x.shape})


@operator("GatherND")
def _gather_nd(x: Any, indices: Any, *, batch_dims: Literal[0] = 0) -> Any:
    return as_tensor(x)[_places(x, indices)]


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
Mode = Literal["constant", "reflect", "edge", "wrap"]


@operator("Pad", since=11, fixed=(2,))
def _pad(x: Any, pads: Any, value: Any = None, axes: Any = None, *, mode: Mode = "constant") -> Any:
    number = 0 if value is None else known(value, "a padding").item()
    return _padded(x, ints(pads, "a padding"), number, None if axes is None else ints(axes, "an axis"), mode)


@operator("Pad", until=10)
def _pad_as_told(x: Any, *, pads: Any, value: float = 0.0, mode: Mode = "constant") -> Any:
    return _padded(x, pads, value, None, mode)


def _padded(x: Any, amounts: Any, number: Any, axes: Any, mode: str) -> Any:
    chosen = _axes(range(x.ndim) if axes is None else axes, x.ndim)
    if len(amounts) != 2 * len(chosen):
        raise LoadError(f"{len(amounts)} paddings for {len(chosen)} axes")
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        widths[axis] = (amounts[i], amounts[i + len(chosen)])
    x = as_tensor(x)[tuple(slice(max(-a, 0), min(b, 0) or None) for a, b in widths)]
    return ops.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], MODES[mode], number)


@operator("Tile")
def _tile(x: Any, repeats: Any) -> Any:
    times = ints(repeats, "a repetition")
    if len(times) != x.ndim or min(times, default=0) < 0:
        raise LoadError(f"repetitions {times} for an array of {x.ndim} axes")
    return ops.tile(as_tensor(x), times)


@operator("OneHot", fixed=(2,))
def _one_hot(indices: Any, depth: Any, values: Any, *, axis: int = -1) -> Any:
    [count], [off, on] = ints(depth, "a depth"), known(values, "a value")
    indices = as_tensor(indices)
    from_front = ops.where(ops.less(indices, 0), indices + count, indices)
    hot = ops.equal(ops.expand_dims(from_front, -1), np.arange(count))  # others are in no class
    return ops.moveaxis(ops.where(hot, as_tensor(on), as_tensor(off)), -1, axis)


@operator("Trilu")
def _triangle(x: Any, k: Any = None, *, upper: Flag = 1) -> Any:
    [at] = [0] if k is None else ints(k, "a diagonal")
    return (ops.triu if upper else ops.tril)(as_tensor(x), at)


@operator("CumSum")
def _cumulative(x: Any, axis: Any, *, exclusive: Flag = 0, reverse: Flag = 0) -> Any:
    x, [at] = as_tensor(x), ints(axis, "an axis")
    found = ops.flip(x, at) if reverse else x
    found = ops.cumulative_sum(found, at, include_initial=bool(exclusive))
    if exclusive:
        found = found[(slice(None),) * (at % x.ndim) + (slice(-1),)]
    return ops.astype(ops.flip(found, at) if reverse else found, x.dtype)


@operator("TopK", since=10, outputs=2)
def _top(x: Any, k: Any, *, axis: int = -1, largest: Flag = 1, sorted: Flag = 1) -> Any:
    [count] = ints(k, "a number of elements")
    return _top_as_told(x, k=count, axis=axis, largest=largest)


@operator("TopK", until=9, outputs=2)
def _top_of_largest(x: Any, *, k: int, axis: int = -1) -> Any:
    return _top_as_told(x, k=k, axis=axis, largest=1)


def _top_as_told(x: Any, k: int, axis: int, largest: int) -> Any:
    return ops.topk(as_tensor(x), k, axis, bool(largest))


@operator("DepthToSpace")
def _depth_to_space(x: Any, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Any:
    n, channels, rows, columns = x.shape
    b, depth = blocksize, channels // (blocksize * blocksize)
    if mode == "DCR":
        parts, axes = (n, b, b, depth, rows, columns), (0, 3, 4, 1, 5, 2)
    else:
        parts, axes = (n, depth, b, b, rows, columns), (0, 1, 4, 2, 5, 3)
    moved = ops.permute_dims(ops.reshape(as_tensor(x), parts), axes)
    return ops.reshape(moved, (n, depth, rows * b, columns * b))
