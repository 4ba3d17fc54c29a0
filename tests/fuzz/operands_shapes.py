"""Random operands of ONNX operators that move elements."""

from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.fuzz.operands import INTS, Draw, Drawn, draws, inputs, many


@draws("Shape")
def _shape(d: Draw) -> Drawn:
    values = {"start": d.maybe(d.int(-5, 5)), "end": d.maybe(d.int(-5, 5))}
    return Drawn({"#0": d.array(d.shape(), d.dtype(*INTS)), **values})


@draws("Size")
def _size(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape())))


@draws("Constant")
def _constant(d: Draw) -> Drawn:
    options = {"value": numpy_helper.from_array(d.array(d.shape(), d.dtype(*INTS)))}
    if d.opset >= 12:
        options |= {"value_int": d.int(-9, 9), "value_float": 0.25, "value_ints": d.ints(d.int(1, 3), -9, 9)}
        options["value_floats"] = d.array(d.int(1, 3)).tolist()
    name = d.one(sorted(options))
    return Drawn({name: options[name]})


@draws("ConstantOfShape")
def _constant_of_shape(d: Draw) -> Drawn:
    value = numpy_helper.from_array(d.array((1,), d.dtype(*INTS, "bool")))
    return Drawn({"#0": np.array(d.shape(), np.int64), "value": d.maybe(value)}, ("input",))


@draws("Range")
def _range(d: Draw) -> Drawn:
    dtype = d.one(["float32", "float64", "int32", "int64", "int16"])
    start, stop, step = (d.array((), dtype, -9, 9) for _ in range(3))
    return Drawn(inputs(start, stop, step if step else np.ones_like(step)), ("start", "limit", "delta"))


@draws("Reshape")
def _reshape(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype("int64", "bool"))
    lengths = list(d.rng.permutation(np.array(x.shape, int)))
    if len(lengths) > 1 and d.chance(0.5):
        lengths = [int(np.prod(lengths[:2])), *lengths[2:]]
    if lengths and d.chance(0.5):
        lengths[d.int(0, len(lengths) - 1)] = -1
    if lengths and d.chance(0.2):
        lengths[d.int(0, len(lengths) - 1)] = 0
    shape = np.array(lengths, np.int64)
    return Drawn({"#0": x, "#1": shape, "allowzero": d.maybe(d.flag(), 0.3)}, ("shape",))


@draws("Flatten")
def _flatten(d: Draw) -> Drawn:
    x = d.array(d.shape(1), d.dtype("int32"))
    low = 0 if d.opset < 11 else -x.ndim
    return Drawn({"#0": x, "axis": d.maybe(d.int(low, x.ndim), 0.8)})


@draws("Transpose")
def _transpose(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype(*INTS, "bool"))
    return Drawn({"#0": x, "perm": d.maybe(d.rng.permutation(x.ndim).tolist() or None, 0.7)})


@draws("Expand")
def _expand(d: Draw) -> Drawn:
    shape = d.shape()
    x = d.array(d.like(shape), d.dtype(*INTS, "bool"))
    return Drawn(inputs(x, np.array(d.like(shape), np.int64)), ("shape",))


@draws("Squeeze")
def _squeeze(d: Draw) -> Drawn:
    shape = tuple(1 if d.chance(0.5) else n for n in d.shape())
    ones = [i for i, n in enumerate(shape) if n == 1 and d.chance(0.7)]
    axes = [i - len(shape) if d.opset >= 11 and d.chance(0.4) else i for i in ones]
    return Drawn({"#0": d.array(shape), "axes": d.maybe(np.array(axes, np.int64), 0.7)}, ("axes",))


@draws("Unsqueeze")
def _unsqueeze(d: Draw) -> Drawn:
    x = d.array(d.shape(0, 3), d.dtype(*INTS))
    ndim = x.ndim + d.int(1, 2)
    axes = d.rng.permutation(ndim)[: ndim - x.ndim]
    axes = np.array([a - ndim if d.opset >= 11 and d.chance(0.4) else a for a in axes], np.int64)
    return Drawn({"#0": x, "axes": axes}, ("axes",))


@draws("Concat")
def _concat(d: Draw) -> Drawn:
    shape, dtype = list(d.shape(1)), d.dtype(*INTS, "bool")
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    arrays = []
    for _ in range(d.int(1, 3)):
        shape[axis] = d.int(0, 3)
        arrays.append(d.array(shape, dtype))
    return Drawn({**many(*arrays), "axis": axis})


@draws("Split")
def _split(d: Draw) -> Drawn:
    shape = list(d.shape(1, empty=0))
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    lengths = d.ints(d.int(1, 3), 0 if d.opset >= 11 else 1, 3)
    shape[axis] = sum(lengths)
    values: dict[str, Any] = {"#0": d.array(shape, d.dtype("int32", "int64")), "axis": axis}
    if d.chance(0.5):
        values["split"] = np.array(lengths, np.int64)
    elif d.opset >= 18:
        values["num_outputs"] = len(lengths)
    return Drawn(values, ("split",), len(lengths))


@draws("Slice")
def _slice(d: Draw) -> Drawn:
    x = d.array(d.shape(1), d.dtype("int64", "int32"))
    axes = d.axes(x.ndim) if d.opset >= 10 else np.abs(d.axes(x.ndim)) % x.ndim
    axes = np.unique(axes % x.ndim) if d.opset < 10 else axes
    n = len(axes) or x.ndim
    ends = [d.one([d.int(-6, 6), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]) for _ in range(n)]
    values = {"#0": x, "starts": np.array(d.ints(n, -6, 6)), "ends": np.array(ends, np.int64)}
    steps = np.array([d.one([1, 1, 2, -1, -2, 3]) for _ in range(n)])
    values["axes"] = axes if len(axes) else None
    if values["axes"] is not None or d.opset < 10:
        return Drawn({**values, "steps": d.maybe(steps)}, ("starts", "ends", "axes", "steps"))
    return Drawn(values, ("starts", "ends"))


def _indices(d: Draw, shape: Any, length: int) -> np.ndarray:
    low = -length if d.opset >= 11 else 0
    return d.rng.integers(low, max(length, 1), shape).astype(d.one(["int64", "int32"]))


@draws("Gather")
def _gather(d: Draw) -> Drawn:
    x = d.array(d.shape(1, empty=0), d.dtype(*INTS))
    axis = d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)
    return Drawn({**inputs(x, _indices(d, d.shape(0, 2), x.shape[axis])), "axis": axis})


def _smaller(d: Draw, x: np.ndarray, axis: int) -> tuple[int, ...]:
    lengths = [d.int(1, n) if d.chance(0.4) else n for n in x.shape]
    lengths[axis] = d.int(1, 5)
    return tuple(lengths)


@draws("GatherElements")
def _gather_elements(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 3, empty=0), d.dtype("int32"))
    axis = d.axis(x.ndim)
    return Drawn({**inputs(x, _indices(d, _smaller(d, x, axis), x.shape[axis])), "axis": axis})


@draws("ScatterElements")
def _scatter_elements(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 3, empty=0), d.one(["float32", "float64", "int32"]))
    axis, reduction = d.axis(x.ndim), d.one([None, "none", "add", "mul"]) if d.opset >= 16 else None
    shape = _smaller(d, x, axis)
    indices = _indices(d, shape, x.shape[axis])
    if reduction in (None, "none"):  # each index once
        shape = tuple(min(n, m) for n, m in zip(shape, x.shape, strict=True))
        order = d.rng.permuted(np.broadcast_to(_along(x.shape, axis), x.shape), axis=axis)
        indices = order[tuple(slice(n) for n in shape)].astype(np.int64)
        indices = np.where(d.rng.random(shape) < 0.3, indices - x.shape[axis], indices)
    values = {"axis": axis, "reduction": reduction}
    return Drawn({**inputs(x, indices, d.array(shape, str(x.dtype))), **values})


def _along(shape: tuple[int, ...], axis: int) -> np.ndarray:
    at = axis % len(shape)
    return np.arange(shape[at]).reshape([-1 if i == at else 1 for i in range(len(shape))])


def _rows(d: Draw, x: np.ndarray, n: int) -> np.ndarray:
    """Return different places in the first axes of an array."""
    depth = d.int(1, x.ndim)
    places = np.stack(
        np.unravel_index(d.rng.permutation(int(np.prod(x.shape[:depth])))[:n], x.shape[:depth]), -1
    )
    return np.where(d.rng.random(places.shape) < 0.3, places - np.array(x.shape[:depth]), places).astype(
        np.int64
    )


@draws("ScatterND")
def _scatter_nd(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 3, empty=0), d.one(["float32", "float64", "int32"]))
    places = _rows(d, x, d.int(1, 3))
    updates = d.array((len(places), *x.shape[places.shape[-1] :]), str(x.dtype))
    reduction = d.one([None, "none", "add", "max"])
    return Drawn({**inputs(x, places, updates), "reduction": reduction}, ("indices",))


@draws("GatherND")
def _gather_nd(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 3, empty=0), d.dtype("int64"))
    return Drawn({**inputs(x, _rows(d, x, d.int(1, 3))), "batch_dims": d.maybe(0)}, ("indices",))


@draws("Pad")
def _pad(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 4, empty=0), d.one(["float32", "float64", *(["int32"] if d.opset >= 11 else [])]))
    mode = d.one([None, "constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 else [])])
    axes = d.maybe(d.axes(x.ndim)) if d.opset >= 18 else None
    n = x.ndim if axes is None else len(axes)
    lengths = [x.shape[a] for a in (range(x.ndim) if axes is None else axes)] * 2
    low = -1 if d.chance(0.3) else 0
    pads = [d.int(low, 2 if mode in (None, "constant", "edge") else max(m - 1, 0)) for m in lengths]
    number = d.maybe(d.array((), str(x.dtype)))
    if d.opset < 11:
        number = None if number is None else float(number)
    values = {"#0": x, "pads": np.array(pads, np.int64).reshape(2 * n), "mode": mode, "axes": axes}
    return Drawn({**values, "constant_value": number, "value": number}, ("pads", "constant_value", "axes"))


@draws("Tile")
def _tile(d: Draw) -> Drawn:
    x = d.array(d.shape(1, 3), d.dtype("int64", "bool"))
    return Drawn(inputs(x, np.array(d.ints(x.ndim, 0, 3), np.int64)), ("repeats",))


@draws("OneHot")
def _one_hot(d: Draw) -> Drawn:
    kind = d.one(["int64", "int32", "float32"])
    indices = d.array(d.shape(0, 3), kind, -6, 6)
    indices = np.round(indices).astype(kind) if d.opset >= 11 else np.abs(np.round(indices)).astype(kind)
    depth = np.array(d.int(1, 4), d.one(["int64", "int32", "float32"]))
    values = d.array((2,), d.one(["float32", "int64", "int32"]))
    axis = d.maybe(d.int(-indices.ndim - 1, indices.ndim))
    return Drawn({**inputs(indices, depth, values), "axis": axis}, ("depth", "values"))


@draws("Trilu")
def _trilu(d: Draw) -> Drawn:
    x = d.array((*d.shape(0, 2), *d.ints(2, 1, 4)), d.one(["float32", "float64", "int64"]))
    k = d.maybe(np.array(d.int(-5, 5)))
    return Drawn({**inputs(x, k), "upper": d.maybe(d.flag())}, ("k",))


@draws("CumSum")
def _cumsum(d: Draw) -> Drawn:
    x = d.array(d.shape(1), d.one(["float32", "float64", "int32", "int64"]))
    axis = np.array(d.axis(x.ndim), d.one(["int32", "int64"]))
    return Drawn({**inputs(x, axis), "exclusive": d.maybe(d.flag()), "reverse": d.maybe(d.flag())}, ("axis",))


@draws("TopK")
def _topk(d: Draw) -> Drawn:
    x = d.array(d.shape(1, empty=0), d.one(["float32", "float64", "int64", "int32"]), -9, 9)
    axis = d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)
    k = d.int(0 if d.opset >= 10 else 1, x.shape[axis])
    count = k if d.opset < 10 else np.array([k], np.int64)
    return Drawn({"#0": x, "K": count, "axis": axis, "largest": d.maybe(d.flag())}, ("K",), 2)


@draws("DepthToSpace")
def _depth_to_space(d: Draw) -> Drawn:
    b = d.int(1, 3)
    x = d.array((d.int(1, 2), b * b * d.int(1, 2), *d.ints(2, 1, 3)), d.one(["float32", "float64"]))
    return Drawn({"#0": x, "blocksize": b, "mode": d.one([None, "DCR", "CRD"])})
