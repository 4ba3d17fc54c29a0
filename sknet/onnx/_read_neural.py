"""ONNX operators of networks: products, convolutions, pools, norms, recurrences."""

import math
from typing import Any

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from sknet.exceptions import LoadError
from sknet.onnx._neural import GATES
from sknet.onnx._reading import operator

__all__: list[str] = []

Attributes = dict[str, Any]


@operator("Gemm")
def _gemm(attributes: Attributes, x: Any, y: Any, bias: Any = None) -> Any:
    x, y = as_tensor(x), as_tensor(y)
    product = ops.matmul(x.T if attributes.get("transA", 0) else x, y.T if attributes.get("transB", 0) else y)
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    product = product if alpha == 1.0 else alpha * product
    if bias is None:
        return product
    return product + (as_tensor(bias) if beta == 1.0 else beta * as_tensor(bias))


@operator("Einsum")
def _einsum(attributes: Attributes, *inputs: Any) -> Any:
    return ops.einsum(attributes["equation"], *map(as_tensor, inputs))


@operator("Det")
def _det(attributes: Attributes, x: Any) -> Any:
    return ops.linalg.det(x)


# -- windows ---------------------------------------------------------------------------------


def _as_images(x: Any) -> Any:
    """Return signals as images of one row."""
    if x.ndim not in (3, 4):
        raise LoadError(f"expected signals or images, (n, channels, ...), got an array of {x.ndim} axes")
    return ops.expand_dims(x, 2) if x.ndim == 3 else x


def _from_images(x: Any, like: Any) -> Any:
    return x if like.ndim == 4 else ops.squeeze(x, 2)


def _pair(values: list[int] | None, default: int = 1) -> tuple[int, int]:
    first, second = ([default] + (values or [default]))[-2:]
    return first, second


def _windows(attributes: Attributes, x: Any, kernel: tuple[int, int]) -> dict[str, Any]:
    """Return stride, dilation and padding; `x` are images."""
    stride, dilation = _pair(attributes.get("strides")), _pair(attributes.get("dilations"))
    mode = attributes.get("auto_pad", "NOTSET")
    pads = attributes.get("pads")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, s, d, k in zip(x.shape[2:], stride, dilation, kernel, strict=True)
        ]
        less, more = [t // 2 for t in totals], [-(-t // 2) for t in totals]
        before, after = (less, more) if mode == "SAME_UPPER" else (more, less)
    elif pads is None or mode == "VALID":
        before, after = [0, 0], [0, 0]
    else:
        half = len(pads) // 2
        before, after = list(_pair(pads[:half], 0)), list(_pair(pads[half:], 0))
    padding = tuple(zip(before, after, strict=True))
    return {"stride": stride, "padding": padding, "dilation": dilation}


def _ceiled(attributes: Attributes, x: Any, kernel: tuple[int, int], where: dict[str, Any]) -> dict[str, Any]:
    """Return stride, dilation and padding, with one more window at the end if `ceil_mode` requires it."""
    padding = []
    for n, k, s, d, (before, after) in zip(
        x.shape[2:], kernel, where["stride"], where["dilation"], where["padding"], strict=True
    ):
        span = n + before + after - d * (k - 1) - 1
        count = (-(-span // s) if attributes.get("ceil_mode", 0) else span // s) + 1
        if (count - 1) * s >= n + before:  # the window would begin beyond the end
            count -= 1
        padding.append((before, max((count - 1) * s + d * (k - 1) + 1 - n - before, 0)))
    return {**where, "padding": tuple(padding)}


@operator("Conv")
def _conv(attributes: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    images, kernels = _as_images(x), _as_images(weight)
    where = _windows(attributes, images, kernels.shape[2:])
    found = bind(PRIMITIVES["conv"], (images, kernels), {"groups": attributes.get("group", 1), **where})
    return _biased(_from_images(found, x), bias)


def _biased(x: Any, bias: Any) -> Any:
    return x if bias is None else x + ops.reshape(bias, (-1, *(1,) * (x.ndim - 2)))


@operator("ConvTranspose")
def _conv_transpose(attributes: Attributes, x: Any, weight: Any, bias: Any = None) -> Any:
    x, weight = as_tensor(x), as_tensor(weight)
    if attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or "output_shape" in attributes:
        raise LoadError("ConvTranspose with auto_pad or output_shape is not supported")
    images, kernels = _as_images(x), _as_images(weight)
    where = _windows(attributes, images, kernels.shape[2:])
    more = _pair(attributes.get("output_padding"), 0)
    size = tuple(
        s * (n - 1) + d * (k - 1) + 1 - before - after + extra
        for n, k, s, d, (before, after), extra in zip(
            images.shape[2:], kernels.shape[2:], where["stride"], where["dilation"], where["padding"], more,
            strict=True,
        )
    )  # fmt: skip
    params = {"size": size, "groups": attributes.get("group", 1), **where}
    return _biased(_from_images(bind(PRIMITIVES["conv_image"], (images, kernels), params), x), bias)


@operator("MaxPool")
def _max_pool(attributes: Attributes, x: Any) -> Any:
    x = as_tensor(x)
    images, kernel = _as_images(x), _pair(attributes["kernel_shape"])
    where = _ceiled(attributes, images, kernel, _windows(attributes, images, kernel))
    return _from_images(bind(PRIMITIVES["max_pool"], (images,), {"kernel": kernel, **where}), x)


@operator("AveragePool")
def _average_pool(attributes: Attributes, x: Any) -> Any:
    x = as_tensor(x)
    images, kernel = _as_images(x), _pair(attributes["kernel_shape"])
    given = _windows(attributes, images, kernel)
    where = _ceiled(attributes, images, kernel, given)
    total = bind(PRIMITIVES["sum_pool"], (images,), {"kernel": kernel, **where})
    # The number of elements in each window, including padding if that counts.
    counted = np.ones((1, 1, *images.shape[2:]), x.dtype)
    if attributes.get("count_include_pad", 0):
        counted = np.pad(counted, [(0, 0), (0, 0), *given["padding"]], constant_values=1)
        where = {**where, "padding": _behind(where["padding"], given["padding"])}
    sizes = bind(PRIMITIVES["sum_pool"], (as_tensor(counted),), {"kernel": kernel, **where})
    return _from_images(total / sizes, x)


def _behind(whole: Any, counted: Any) -> Any:
    return tuple((0, after - mine) for (_, after), (_, mine) in zip(whole, counted, strict=True))


@operator("GlobalAveragePool")
def _global_average(attributes: Attributes, x: Any) -> Any:
    return ops.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max(attributes: Attributes, x: Any) -> Any:
    return ops.max(x, axis=tuple(range(2, x.ndim)), keepdims=True)


# -- norms -----------------------------------------------------------------------------------


@operator("BatchNormalization")
def _batch_norm(attributes: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    shape = (-1, *(1,) * (x.ndim - 2))
    scale, bias, mean, variance = (ops.reshape(v, shape) for v in (scale, bias, mean, variance))
    return (as_tensor(x) - mean) / ops.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale + bias


@operator("LayerNormalization")
def _layer_norm(attributes: Attributes, x: Any, scale: Any, bias: Any = None) -> Any:
    at = attributes.get("axis", -1) % x.ndim
    return ops.layer_norm(x, tuple(x.shape[at:]), scale, bias, attributes.get("epsilon", 1e-5))


@operator("InstanceNormalization")
def _instance_norm(attributes: Attributes, x: Any, scale: Any, bias: Any) -> Any:
    return ops.instance_norm(x, scale, bias, attributes.get("epsilon", 1e-5))


# -- recurrences -----------------------------------------------------------------------------


def _recurrence(cell: str, states: int) -> Any:
    def compute(
        attributes: Attributes, x: Any, weight: Any, recurrent: Any, bias: Any = None,
        lengths: Any = None, *more: Any,
    ) -> Any:  # fmt: skip
        _check(cell, attributes)
        direction = attributes.get("direction", "forward")
        ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        runs = [
            _run(cell, attributes, x, number, reverse, (weight, recurrent, bias), lengths, more[:states])
            for number, reverse in enumerate(ways)
        ]
        outputs = ops.stack([ops.permute_dims(output, (1, 0, 2)) for output, _ in runs], axis=1)
        finals = [ops.stack([final[i] for _, final in runs], axis=0) for i in range(states)]
        return (outputs, *finals)

    return compute


def _check(cell: str, attributes: Attributes) -> None:
    if attributes.get("layout", 0) or "clip" in attributes or attributes.get("input_forget", 0):
        raise LoadError(f"{cell} with layout, clip or input_forget is not supported")
    if cell == "gru" and not attributes.get("linear_before_reset", 0):
        raise LoadError("GRU with linear_before_reset=0 is not supported: sknet's resets after the product")
    usual = {"lstm": ["Sigmoid", "Tanh", "Tanh"], "gru": ["Sigmoid", "Tanh"], "rnn": ["Tanh"]}[cell]
    given = attributes.get("activations", usual)
    known_ones = [usual] if cell != "rnn" else [["Tanh"], ["Relu"]]
    if given[: len(usual)] not in known_ones or given != given[: len(usual)] * (len(given) // len(usual)):
        raise LoadError(f"{cell} with activations {given} is not supported")


def _run(
    cell: str, attributes: Attributes, x: Any, number: int, reverse: bool, weights: Any, lengths: Any,
    states: Any,
) -> Any:  # fmt: skip
    weight, recurrent, bias = weights
    size = recurrent.shape[-1]
    kind = cell if cell != "rnn" else "tanh"
    order = np.argsort(GATES[kind])
    columns = np.concatenate([np.arange(k * size, (k + 1) * size) for k in order])
    taken = [
        ops.permute_dims(ops.take(as_tensor(m)[number], columns, 0), (1, 0)) for m in (weight, recurrent)
    ]
    options: dict[str, Any] = {"lengths": lengths, "reverse": reverse}
    given = [as_tensor(state)[number] for state in states if state is not None]
    options["state"] = None if not given else given[0] if cell != "lstm" else tuple(given)
    if cell == "rnn":
        options["activation"] = attributes.get("activations", ["Tanh"])[0].lower()
    output, final = getattr(ops, cell)(
        ops.permute_dims(x, (1, 0, 2)), *taken, _bias(cell, bias, number, columns, size), **options
    )
    return output, final if cell == "lstm" else (final,)


def _bias(cell: str, bias: Any, number: int, columns: Any, size: int) -> Any:
    if bias is None:
        return None
    bias = as_tensor(bias)[number]
    half = bias.shape[0] // 2
    first, second = ops.take(bias[:half], columns, 0), ops.take(bias[half:], columns, 0)
    if cell != "gru":
        return first + second
    apart = 2 * size  # the bias of the new state's product is affected by the reset gate
    return ops.concat([first[:apart] + second[:apart], first[apart:], second[apart:]], axis=0)


for _name, _states in (("LSTM", 2), ("GRU", 1), ("RNN", 1)):
    operator(_name)(_recurrence(_name.lower(), _states))


@operator("Resize")
def _resize(attributes: Attributes, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    x, mode = as_tensor(x), attributes.get("mode", "nearest")
    corners = attributes.get("coordinate_transformation_mode", "half_pixel")
    nearest = mode == "nearest" and corners == "asymmetric" and attributes.get("nearest_mode") == "floor"
    if not nearest and not (mode == "linear" and corners in ("half_pixel", "align_corners")):
        raise LoadError(f"Resize with mode {mode!r} and {corners!r} is not supported")
    if sizes is None:
        new = [math.floor(n * f) for n, f in zip(x.shape, np.asarray(scales).tolist(), strict=True)]
    else:
        new = np.asarray(sizes).tolist()
    if list(x.shape[:2]) != new[:2]:
        raise LoadError("Resize of the first two axes is not supported")
    kind = "nearest" if nearest else {1: "linear", 2: "bilinear", 3: "trilinear"}[x.ndim - 2]
    return ops.interpolate(x, new[2:], mode=kind, align_corners=corners == "align_corners")
