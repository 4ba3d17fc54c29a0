"""ONNX operators that move elements: shapes, concatenation, indexing, sorting."""

from typing import Any

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from sknet.exceptions import LoadError
from sknet.onnx._reading import are_known, ints, known, operator

__all__: list[str] = []

Attributes = dict[str, Any]


def _either(x: Any, function: Any) -> Any:
    """Return ``function(tensor)``, as an array if x is known."""
    found = function(as_tensor(x))
    return found.numpy() if are_known(x) else found


@operator("Shape")
def _shape(attributes: Attributes, x: Any) -> Any:
    return np.array(x.shape[attributes.get("start", 0) : attributes.get("end")], np.int64)


@operator("Size")
def _size(attributes: Attributes, x: Any) -> Any:
    return np.array(x.size, np.int64)


@operator("Constant")
def _constant(attributes: Attributes) -> Any:
    [value] = attributes.values()
    return np.asarray(value)


@operator("ConstantOfShape")
def _constant_of_shape(attributes: Attributes, shape: Any) -> Any:
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32)))
    return np.full(ints(shape, "a shape"), value.reshape(-1)[0], value.dtype)


@operator("Range")
def _range(attributes: Attributes, start: Any, stop: Any, step: Any) -> Any:
    bounds = [known(x, "a range") for x in (start, stop, step)]
    return np.arange(*(bound.item() for bound in bounds), dtype=bounds[0].dtype)


@operator("Reshape")
def _reshape(attributes: Attributes, x: Any, shape: Any) -> Any:
    lengths = ints(shape, "a shape")
    if not attributes.get("allowzero", 0):
        lengths = [x.shape[i] if n == 0 else n for i, n in enumerate(lengths)]
    return x.reshape(lengths) if are_known(x) else ops.reshape(x, tuple(lengths))


@operator("Flatten")
def _flatten(attributes: Attributes, x: Any) -> Any:
    at = attributes.get("axis", 1) % (x.ndim + 1)
    rows = int(np.prod(x.shape[:at], dtype=np.int64))
    return _either(x, lambda x: ops.reshape(x, (rows, x.size // max(rows, 1))))


@operator("Transpose")
def _transpose(attributes: Attributes, x: Any) -> Any:
    axes = attributes.get("perm", list(range(x.ndim))[::-1])
    return _either(x, lambda x: ops.permute_dims(x, tuple(axes)))


@operator("Expand")
def _expand(attributes: Attributes, x: Any, shape: Any) -> Any:
    lengths = np.broadcast_shapes(x.shape, tuple(ints(shape, "a shape")))
    return np.broadcast_to(x, lengths) if are_known(x) else ops.broadcast_to(x, lengths)


@operator("Squeeze")
def _squeeze(attributes: Attributes, x: Any, axes: Any = None) -> Any:
    chosen = attributes.get("axes") if axes is None else ints(axes, "an axis")
    at = tuple(i for i, n in enumerate(x.shape) if n == 1) if chosen is None else tuple(chosen)
    return _either(x, lambda x: ops.squeeze(x, at))


@operator("Unsqueeze")
def _unsqueeze(attributes: Attributes, x: Any, axes: Any = None) -> Any:
    chosen = attributes["axes"] if axes is None else ints(axes, "an axis")
    places = sorted(a % (x.ndim + len(chosen)) for a in chosen)
    lengths = list(x.shape)
    for place in places:
        lengths.insert(place, 1)
    return _either(x, lambda x: ops.reshape(x, tuple(lengths)))


@operator("Concat")
def _concat(attributes: Attributes, *arrays: Any) -> Any:
    at = attributes["axis"]
    return (
        np.concatenate(arrays, at) if are_known(*arrays) else ops.concat([as_tensor(x) for x in arrays], at)
    )


@operator("Split")
def _split(attributes: Attributes, x: Any, parts: Any = None) -> Any:
    at = attributes.get("axis", 0)
    lengths = attributes.get("split") if parts is None else ints(parts, "a split")
    if lengths is None:
        count = attributes["num_outputs"]
        whole = -(-x.shape[at] // count)
        lengths = [whole] * (count - 1) + [x.shape[at] - whole * (count - 1)]
    ends = np.cumsum(lengths)
    pieces = [_index(at, slice(int(end) - n, int(end))) for n, end in zip(lengths, ends, strict=True)]
    return tuple(as_tensor(x)[piece] for piece in pieces)


def _index(axis: int, part: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + (part,) if axis >= 0 else (..., part, *(slice(None),) * (-axis - 1))


@operator("Slice")
def _slice(attributes: Attributes, x: Any, *given: Any) -> Any:
    if not given:  # before opset 10
        given = tuple(np.array(attributes[k]) for k in ("starts", "ends") if k in attributes)
        given += (np.array(attributes["axes"]),) if "axes" in attributes else ()
    starts, ends, *more = [[] if v is None else ints(v, "a slice") for v in given]
    axes = (more[0] if more else None) or list(range(len(starts)))
    steps = (more[1] if len(more) > 1 else None) or [1] * len(starts)
    index: list[Any] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis % x.ndim
        index[at] = slice(start, None if step < 0 and end < -x.shape[at] else end, step)
    return x[tuple(index)]


@operator("Gather")
def _gather(attributes: Attributes, x: Any, indices: Any) -> Any:
    at = attributes.get("axis", 0)
    return np.take(x, indices, at) if are_known(x, indices) else ops.take(x, indices, at)


@operator("GatherElements")
def _gather_elements(attributes: Attributes, x: Any, indices: Any) -> Any:
    return ops.take_along_axis(x, indices, attributes.get("axis", 0))


@operator("ScatterElements")
def _scatter_elements(attributes: Attributes, x: Any, indices: Any, updates: Any) -> Any:
    x, at = as_tensor(x), attributes.get("axis", 0) % x.ndim
    where = {"length": x.shape[at], "axis": at - x.ndim}
    added = bind(PRIMITIVES["put_along_axis"], (as_tensor(updates), as_tensor(indices)), where)
    if attributes.get("reduction", "none") == "add":
        return x + added
    if attributes.get("reduction", "none") != "none":
        raise LoadError(f"ScatterElements with reduction {attributes['reduction']!r} is not supported")
    ones = ops.ones_like(as_tensor(updates))
    written = bind(PRIMITIVES["put_along_axis"], (ones, as_tensor(indices)), where)
    return ops.where(ops.greater(written, 0), added, x)


@operator("ScatterND")
def _scatter_nd(attributes: Attributes, x: Any, indices: Any, updates: Any) -> Any:
    x, places = as_tensor(x), known(indices, "a place")
    index = tuple(places[..., i] for i in range(places.shape[-1]))
    reduction = attributes.get("reduction", "none")
    if reduction == "none":
        return bind(PRIMITIVES["setitem"], (x, as_tensor(updates)), {"index": index})
    if reduction != "add":
        raise LoadError(f"ScatterND with reduction {reduction!r} is not supported")
    return x + bind(PRIMITIVES["scatter_add"], (as_tensor(updates),), {"index": index, "shape": x.shape})


@operator("GatherND")
def _gather_nd(attributes: Attributes, x: Any, indices: Any) -> Any:
    if attributes.get("batch_dims", 0):
        raise LoadError("GatherND with batch_dims is not supported")
    places = known(indices, "a place")
    return x[tuple(places[..., i] for i in range(places.shape[-1]))]


@operator("Pad")
def _pad(attributes: Attributes, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    amounts = attributes["pads"] if pads is None else ints(pads, "a padding")
    number = attributes.get("value", 0.0) if value is None else known(value, "a padding").item()
    chosen = range(x.ndim) if axes is None else [a % x.ndim for a in ints(axes, "an axis")]
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        widths[axis] = (amounts[i], amounts[i + len(amounts) // 2])
    x = as_tensor(x)[tuple(slice(max(-a, 0), min(b, 0) or None) for a, b in widths)]
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    return ops.pad(x, widths, mode[attributes.get("mode", "constant")], number)


@operator("Tile")
def _tile(attributes: Attributes, x: Any, repeats: Any) -> Any:
    return _either(x, lambda x: ops.tile(x, ints(repeats, "a repetition")))


@operator("OneHot")
def _one_hot(attributes: Attributes, indices: Any, depth: Any, values: Any) -> Any:
    [count], [off, on] = ints(depth, "a depth"), known(values, "a value")
    hot = ops.equal(ops.expand_dims(as_tensor(indices) % count, -1), np.arange(count))
    found = ops.where(hot, as_tensor(on), as_tensor(off))
    return ops.moveaxis(found, -1, attributes.get("axis", -1))


@operator("Trilu")
def _triangle(attributes: Attributes, x: Any, k: Any = None) -> Any:
    at = 0 if k is None else ints(k, "a diagonal")[0]
    return (ops.triu if attributes.get("upper", 1) else ops.tril)(as_tensor(x), at)


@operator("CumSum")
def _cumulative(attributes: Attributes, x: Any, axis: Any) -> Any:
    [at] = ints(axis, "an axis")
    if attributes.get("exclusive", 0) or attributes.get("reverse", 0):
        raise LoadError("CumSum with exclusive or reverse is not supported")
    return ops.cumulative_sum(x, at)


@operator("TopK")
def _top(attributes: Attributes, x: Any, k: Any) -> Any:
    [count] = ints(k, "a number of elements")
    return ops.topk(x, count, attributes.get("axis", -1), bool(attributes.get("largest", 1)))


@operator("DepthToSpace")
def _depth_to_space(attributes: Attributes, x: Any) -> Any:
    n, channels, rows, columns = x.shape
    b = attributes["blocksize"]
    depth = channels // (b * b)
    if attributes.get("mode", "DCR") == "DCR":
        parts, axes = (n, b, b, depth, rows, columns), (0, 3, 4, 1, 5, 2)
    else:
        parts, axes = (n, depth, b, b, rows, columns), (0, 1, 4, 2, 5, 3)
    return ops.reshape(ops.permute_dims(ops.reshape(x, parts), axes), (n, depth, rows * b, columns * b))
