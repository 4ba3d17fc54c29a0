"""Random operands of ONNX operators of networks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.operands import DRAWS, Draw, Drawn, draws, inputs, many


@draws("MatMul")
def _matmul(d: Draw) -> Drawn:
    dtype, n = d.one(["float32", "float64", "int32", "int64"]), d.int(1, 4)
    batch = d.shape(0, 2)
    left = (n,) if d.chance(0.2) else (*d.like(batch), d.int(1, 4), n)
    right = (n,) if d.chance(0.2) else (*d.like(batch), n, d.int(1, 4))
    return Drawn(inputs(d.array(left, dtype), d.array(right, dtype)))


@draws("Gemm")
def _gemm(d: Draw) -> Drawn:
    m, k, n = d.ints(3, 1, 4)
    dtype, a, b = d.one(["float32", "float64"]), d.flag(), d.flag()
    c = d.array(d.like((m, n)), dtype)
    if d.opset >= 11:
        c = d.maybe(c, 0.8)
    arrays = (d.array((k, m) if a else (m, k), dtype), d.array((n, k) if b else (k, n), dtype), c)
    numbers = {"alpha": d.maybe(0.5), "beta": d.maybe(-1.5)}
    return Drawn({**inputs(*arrays), "transA": a or None, "transB": b or None, **numbers})


@draws("Einsum")
def _einsum(d: Draw) -> Drawn:
    text = d.one(
        ["ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ii->i", "...ij,...jk->...ik", "bij, bjk -> bik", "i,j->ij"]
    )
    arrays = [
        d.array((3,) * (len(part.strip().replace("...", "a"))), "float32")
        for part in text.split("->")[0].split(",")
    ]
    return Drawn({**many(*arrays), "equation": text})


@draws("Det")
def _det(d: Draw) -> Drawn:
    n = d.int(1, 3)
    return Drawn(inputs(d.array((*d.shape(0, 2), n, n), "float32")))


def _windows(d: Draw, rank: int, kernel: list[int], pad: bool = True, dilate: bool = True) -> dict[str, Any]:
    auto = d.one([None, None, "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    values: dict[str, Any] = {"auto_pad": auto, "strides": d.maybe(d.ints(rank, 1, 3))}
    values["dilations"] = d.maybe(d.ints(rank, 1, 2), 0.4) if dilate else None
    if auto in (None, "NOTSET") and pad:
        values["pads"] = d.maybe([d.int(0, min(k - 1, 2)) for k in kernel * 2])
    return values


def _images(d: Draw, channels: int, rank: int, dtype: str) -> np.ndarray:
    return d.array((d.int(1, 2), channels, *d.ints(rank, 5, 8)), dtype)  # all windows fit


def _convolution(is_transposed: bool) -> Callable[[Draw], Drawn]:
    def drawn(d: Draw) -> Drawn:
        rank, group = d.one([1, 2, 2, 2]), d.one([1, 1, 2])
        kernel, own, others = d.ints(rank, 1, 3), d.int(1, 2), d.int(1, 2)
        x = _images(d, own * group, rank, "float32")
        shape = (own * group, others) if is_transposed else (others * group, own)
        weight, bias = d.array((*shape, *kernel)), d.maybe(d.array((others * group,)))
        values = {"group": group, "kernel_shape": d.maybe(kernel), **_windows(d, rank, kernel)}
        if is_transposed:
            values["output_padding"] = d.maybe(d.ints(rank, 0, 1), 0.3)
        return Drawn({**inputs(x, weight, bias), **values})

    return drawn


DRAWS["Conv"], DRAWS["ConvTranspose"] = _convolution(False), _convolution(True)


@draws("MaxPool", "AveragePool")
def _pool(d: Draw) -> Drawn:
    rank = d.one([1, 2, 2, 2])
    kernel = d.ints(rank, 1, 3)
    x = _images(d, d.int(1, 2), rank, d.one(["float32", "float32", "float64"]))
    values = {"kernel_shape": kernel, "ceil_mode": d.maybe(d.flag()), "count_include_pad": d.maybe(d.flag())}
    return Drawn({**inputs(x), **values, **_windows(d, rank, kernel)})


@draws("GlobalAveragePool", "GlobalMaxPool")
def _global(d: Draw) -> Drawn:
    return Drawn(inputs(_images(d, 2, d.int(1, 3), d.one(["float32", "float64"]))))


@draws("BatchNormalization", "InstanceNormalization")
def _norm(d: Draw) -> Drawn:
    x = _images(d, 2, d.int(1, 3), "float32")
    statistics = [d.array((2,)), d.array((2,)), d.array((2,)), d.array((2,), "float32", 0.5, 2.0)]
    return Drawn({**inputs(x, *statistics), "epsilon": d.maybe(0.1), "momentum": d.maybe(0.5)})


@draws("LayerNormalization")
def _layer_norm(d: Draw) -> Drawn:
    x = d.array(d.shape(1, empty=0), d.one(["float32", "float64"]))
    axis = d.axis(x.ndim)
    shape = x.shape[axis % x.ndim :]
    scale, bias = d.array(shape, str(x.dtype)), d.maybe(d.array(shape, str(x.dtype)))
    return Drawn(
        {**inputs(x, scale, bias), "axis": axis, "epsilon": d.maybe(0.1)}, n_outputs=d.one([1, 1, 3])
    )


def _recurrence(gates: int, options: list[list[str] | None]) -> Callable[[Draw], Drawn]:
    def drawn(d: Draw) -> Drawn:
        steps, rows, width, size = d.int(1, 4), d.int(1, 3), d.int(1, 3), d.int(1, 3)
        direction = d.one([None, "forward", "reverse", "bidirectional"])
        n = 2 if direction == "bidirectional" else 1
        activations, has_state = d.one([None, None, *options]), d.chance(0.5)
        values: dict[str, Any] = {
            "X": d.array((steps, rows, width)),
            "W": d.array((n, gates * size, width)),
            "R": d.array((n, gates * size, size)),
            "B": d.maybe(d.array((n, 2 * gates * size)), 0.7),
            "sequence_lens": d.maybe(d.rng.integers(0, steps + 1, rows).astype("int32"), 0.4),
            "initial_h": d.array((n, rows, size)) if has_state else None,
            "initial_c": d.array((n, rows, size)) if has_state and gates == 4 else None,
            "P": d.maybe(d.array((n, 3 * size)), 0.1) if gates == 4 else None,
            "hidden_size": size,
            "direction": direction,
            "activations": activations * n if activations else None,
            "linear_before_reset": d.one([1, 1, 1, None, 0]),
            "clip": d.maybe(0.5, 0.1),
        }
        return Drawn(values, ("sequence_lens",), 3 if gates == 4 else 2)

    return drawn


DRAWS["LSTM"] = _recurrence(4, [None, ["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Relu", "Tanh"]])
DRAWS["GRU"] = _recurrence(3, [None, ["Sigmoid", "Tanh"], ["Tanh", "Sigmoid"]])
DRAWS["RNN"] = _recurrence(1, [None, ["Tanh"], ["Relu"], ["Sigmoid"]])


@draws("Resize")
def _resize(d: Draw) -> Drawn:
    rank = d.int(1, 2)
    x = _images(d, 2, rank, "float32")
    ways = [("linear", "half_pixel"), ("linear", "align_corners"), ("nearest", "asymmetric")]
    mode, corners = d.one([*ways, *ways, ("cubic", "half_pixel"), ("linear", "asymmetric"), (None, None)])
    scales = np.array([1, 1, *(d.one([0.5, 2.0, 3.0, 1.5, 0.6, 1.7]) for _ in range(rank))], np.float32)
    sizes = np.array([*x.shape[:2], *d.ints(rank, 1, 9)], np.int64)
    by_size = d.opset >= 11 and d.chance(0.4)
    values: dict[str, Any] = {"X": x, "mode": mode, "coordinate_transformation_mode": corners}
    values |= {"scales": None if by_size else scales, "sizes": sizes if by_size else None}
    values["nearest_mode"] = d.one(["floor", "floor", None]) if mode == "nearest" else None
    values["antialias"] = d.maybe(d.flag(), 0.1)
    if d.opset < 13 and d.opset >= 11:
        values["roi"] = np.zeros(0, np.float32)
        values["scales"] = np.zeros(0, np.float32) if by_size else scales
    return Drawn(values, ("scales", "sizes", "roi"))
