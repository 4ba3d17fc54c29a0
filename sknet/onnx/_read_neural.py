"""ONNX operators of networks: products, convolutions, pools, norms, recurrences."""

from typing import Any, Literal, NamedTuple

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind, normalize_axis
from sknet.exceptions import LoadError, ShapeError
from sknet.onnx._neural import GATES
from sknet.onnx._reading import Flag, ints, known, operator
from sknet.ops._windows import Windows


@operator("Gemm")
def _gemm(
    x: Any, y: Any, bias: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: Flag = 0,
    transB: Flag = 0,
) -> Any:  # fmt: skip
    x, y = as_tensor(x), as_tensor(y)
    if x.ndim != 2 or y.ndim != 2:
        raise LoadError(f"expected two matrices, got shapes {list(x.shape)} and {list(y.shape)}")
    product = ops.matmul(x.T if transA else x, y.T if transB else y)
    if bias is None:
        return _times(alpha, product)
    bias = _times(beta, as_tensor(bias))
    if np.broadcast_shapes(product.shape, bias.shape) != product.shape:
        raise LoadError(f"C of shape {list(bias.shape)} does not fit into {list(product.shape)}")
    return _times(alpha, product) + bias


def _times(factor: float, x: Any) -> Any:
    return x if factor == 1.0 else ops.astype(factor * x, x.dtype)


@operator("Einsum")
def _einsum(*inputs: Any, equation: str) -> Any:
    return ops.einsum(equation, *map(as_tensor, inputs))


@operator("Det")
def _det(x: Any) -> Any:
    return ops.linalg.det(as_tensor(x))


# -- windows ---------------------------------------------------------------------------------

AutoPad = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


def _as_images(x: Any) -> Any:
    if x.ndim not in (3, 4):
        raise LoadError(f"expected signals or images, (n, channels, ...), got an array of {x.ndim} axes")
    return ops.expand_dims(x, 2) if x.ndim == 3 else x


def _from_images(x: Any, like: Any) -> Any:
    return x if like.ndim == 4 else ops.squeeze(x, 2)


def _pair(name: str, values: Any, rank: int, default: int = 1) -> tuple[int, int]:
    """Return a number for the rows and one for the columns; signals have one row."""
    given = [default] * rank if values is None else [int(n) for n in values]
    least = min(default, 1)
    if len(given) != rank or min(given) < least:
        raise LoadError(f"{name}={given}: expected {rank} integers of at least {least}")
    first, second = [default, *given][-2:]
    return first, second


class _Grid(NamedTuple):
    """Windows on images: what the attributes of convolutions and pools say."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]

    @property
    def where(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}


def _grid(x: Any, kernel: tuple[int, int], strides: Any, dilations: Any, pads: Any, auto_pad: str) -> _Grid:
    """Return the windows on signals or images, before a padding by `ceil_mode`."""
    rank = x.ndim - 2
    stride, dilation = _pair("strides", strides, rank), _pair("dilations", dilations, rank)
    before, after = (0, 0), (0, 0)
    if auto_pad.startswith("SAME"):
        sizes = [1, *x.shape[2:]][-2:]
        totals = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, s, d, k in zip(sizes, stride, dilation, kernel, strict=True)
        ]
        less, more = (totals[0] // 2, totals[1] // 2), (-(-totals[0] // 2), -(-totals[1] // 2))
        before, after = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
    elif pads is not None and auto_pad == "NOTSET":
        half = len(pads) // 2
        before, after = (_pair("pads", part, rank, 0) for part in (pads[:half], pads[half:]))
    (top, left), (bottom, right) = before, after
    return _Grid(kernel, stride, dilation, ((top, bottom), (left, right)))


def _fitting(images: Any, grid: _Grid) -> _Grid:
    """Return the grid of windows; raise a ShapeError if no window fits."""
    windows = Windows(images.shape[2:], grid.kernel, grid.stride, grid.padding, grid.dilation)
    if min(windows.grid) < 1:
        raise ShapeError(f"no window of {grid.kernel} fits on an input of {list(windows.padded)}")
    return grid


def _pooled(
    x: Any, kernel_shape: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str, ceil_mode: int
) -> tuple[Any, _Grid, _Grid]:
    """Return images and the windows of a pool, before and after a padding by `ceil_mode`."""
    images, kernel = _as_images(x), _pair("kernel_shape", kernel_shape, x.ndim - 2)
    grid = _grid(x, kernel, strides, dilations, pads, auto_pad)
    if auto_pad.startswith("SAME") and max(grid.dilation) > 1:
        raise LoadError(f"auto_pad={auto_pad!r} with dilations is not supported: runtimes differ")
    return images, grid, _fitting(images, _ceiled(images, grid, ceil_mode))


def _ceiled(images: Any, grid: _Grid, ceil_mode: int) -> _Grid:
    """Return the windows with one more at the end if `ceil_mode` requires it."""
    padding = []
    for n, k, s, d, (before, after) in zip(images.shape[2:], *grid, strict=True):
        span = n + before + after - d * (k - 1) - 1
        count = (-(-span // s) if ceil_mode else span // s) + 1
        if ceil_mode and (count - 1) * s >= n + before:  # the window would begin beyond the end
            count -= 1
        padding.append((before, max((count - 1) * s + d * (k - 1) + 1 - n - before, 0)))
    rows, columns = padding
    return grid._replace(padding=(rows, columns))


def _kernel_of(weight: Any, kernel_shape: Any) -> Any:
    if kernel_shape is not None and list(kernel_shape) != list(weight.shape[2:]):
        raise LoadError(f"kernel_shape={list(kernel_shape)} for a weight of shape {list(weight.shape)}")
    return _as_images(weight)


def _check_channels(x: Any, weight: Any, group: int, axis: int) -> None:
    """Check that the channels of an input are those of a weight, which has some along `axis`."""
    given, own = x.shape[1], weight.shape[axis] * (group if axis else 1)
    if group < 1 or x.ndim != weight.ndim or given != own or weight.shape[0] % group:
        raise ShapeError(
            f"an input of shape {list(x.shape)} does not fit a weight of shape {list(weight.shape)} with "
            f"group={group}"
        )


@operator("Conv")
def _conv(
    x: Any, weight: Any, bias: Any = None, *, auto_pad: AutoPad = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    x, weight = as_tensor(x), as_tensor(weight)
    images, kernels = _as_images(x), _kernel_of(weight, kernel_shape)
    _check_channels(x, weight, group, 1)
    grid = _fitting(images, _grid(x, kernels.shape[2:], strides, dilations, pads, auto_pad))
    found = bind(PRIMITIVES["conv"], (images, kernels), {"groups": group, **grid.where})
    return _biased(_from_images(found, x), bias)


def _biased(x: Any, bias: Any) -> Any:
    if bias is None:
        return x
    if tuple(bias.shape) != (x.shape[1],):
        raise ShapeError(f"a bias of shape {list(bias.shape)} for {x.shape[1]} channels")
    return x + ops.reshape(bias, (-1, *(1,) * (x.ndim - 2)))


@operator("ConvTranspose")
def _conv_transpose(
    x: Any, weight: Any, bias: Any = None, *, auto_pad: Literal["NOTSET", "VALID"] = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, output_padding: Any = None,
    pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    x, weight = as_tensor(x), as_tensor(weight)
    images, kernels = _as_images(x), _kernel_of(weight, kernel_shape)
    _check_channels(x, weight, group, 0)
    grid = _grid(x, kernels.shape[2:], strides, dilations, pads, auto_pad)
    more = _pair("output_padding", output_padding, x.ndim - 2, 0)
    if any(m >= max(s, d) for m, s, d in zip(more, grid.stride, grid.dilation, strict=True)):
        raise LoadError(f"output_padding={output_padding} is not below strides or dilations")
    size = tuple(
        s * (n - 1) + d * (k - 1) + 1 - before - after + extra
        for n, k, s, d, (before, after), extra in zip(images.shape[2:], *grid, more, strict=True)
    )
    if min(size) < 1:
        raise ShapeError(f"pads={pads} remove all of an input of shape {list(x.shape)}")
    params = {"size": size, "groups": group, **grid.where}
    return _biased(_from_images(bind(PRIMITIVES["conv_image"], (images, kernels), params), x), bias)


@operator("MaxPool")
def _max_pool(
    x: Any, *, auto_pad: AutoPad = "NOTSET", ceil_mode: Flag = 0, dilations: Any = None, kernel_shape: Any,
    pads: Any = None, storage_order: Flag = 0, strides: Any = None,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    images, _, grid = _pooled(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if x.dtype.kind != "f":  # padding is minus infinity
        raise LoadError(f"it is not supported for {x.dtype}")
    return _from_images(bind(PRIMITIVES["max_pool"], (images,), {"kernel": grid.kernel, **grid.where}), x)


@operator("AveragePool")
def _average_pool(
    x: Any, *, auto_pad: AutoPad = "NOTSET", ceil_mode: Flag = 0, count_include_pad: Flag = 0,
    dilations: Any = None, kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    images, given, grid = _pooled(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    total = bind(PRIMITIVES["sum_pool"], (images,), {"kernel": grid.kernel, **grid.where})
    rows, columns = _counts(images, given, total.shape[2:], count_include_pad)
    return _from_images(total / (rows[:, None] * columns).astype(x.dtype), x)


def _counts(images: Any, grid: _Grid, counts: tuple[int, ...], include_pad: int) -> list[Any]:
    """Return how many elements the windows hold along each axis, those of the padding only if they count."""
    found = []
    for n, count, k, s, d, (before, after) in zip(images.shape[2:], counts, *grid, strict=True):
        places = np.arange(count)[:, None] * s + np.arange(k) * d - before
        first, last = (-before, n + after) if include_pad else (0, n)
        found.append(((places >= first) & (places < last)).sum(1))
    return found


@operator("GlobalAveragePool")
def _global_average(x: Any) -> Any:
    return ops.mean(as_tensor(x), axis=tuple(range(2, x.ndim)), keepdims=True)


@operator("GlobalMaxPool")
def _global_max(x: Any) -> Any:
    return ops.max(as_tensor(x), axis=tuple(range(2, x.ndim)), keepdims=True)


# -- norms -----------------------------------------------------------------------------------


@operator("BatchNormalization", fixed=(3, 4))
def _batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: Literal[0] = 0, spatial: Literal[1] = 1,
) -> Any:  # fmt: skip
    shape = (-1, *(1,) * (x.ndim - 2))
    scale, bias, mean, variance = (ops.reshape(v, shape) for v in (scale, bias, mean, variance))
    return (as_tensor(x) - mean) / ops.sqrt(variance + epsilon) * scale + bias


@operator("LayerNormalization", outputs=3)
def _layer_norm(
    x: Any, scale: Any, bias: Any = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: Literal[1] = 1, n_outputs: int = 1,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "axis") + x.ndim
    shape = tuple(x.shape[at:])
    if all(v is None or tuple(v.shape) == shape for v in (scale, bias)):
        found = ops.layer_norm(x, shape, scale, bias, epsilon)
    else:  # they broadcast
        found = ops.layer_norm(x, shape, None, None, epsilon) * scale
        found = found if bias is None else found + bias
    if n_outputs == 1:
        return found
    axes = tuple(range(at, x.ndim))
    mean = ops.mean(x, axis=axes, keepdims=True)
    spread = ops.mean(ops.square(x - mean), axis=axes, keepdims=True)
    return found, *(ops.astype(v, np.float32) for v in (mean, 1.0 / ops.sqrt(spread + epsilon)))


@operator("InstanceNormalization")
def _instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    return ops.instance_norm(as_tensor(x), scale, bias, epsilon)


# -- resizing --------------------------------------------------------------------------------


@operator("Resize", since=11, fixed=(1, 2))
def _resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, *,
    mode: Literal["nearest", "linear"] = "nearest",
    antialias: Literal[0] = 0, axes: Any = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: Literal[0] = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Literal["stretch"] = "stretch", nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    corners = coordinate_transformation_mode
    if mode == "nearest" and (corners, nearest_mode) != ("asymmetric", "floor"):
        raise LoadError(f"mode='nearest' with {corners!r} and {nearest_mode!r} is not supported")
    if mode == "linear" and corners not in ("half_pixel", "align_corners"):
        raise LoadError(f"mode='linear' with {corners!r} is not supported")
    if axes is not None:
        raise LoadError(f"axes={axes} is not supported")
    return _resized(as_tensor(x), mode, scales, sizes, corners == "align_corners")


@operator("Resize", until=10, fixed=(1,))
def _resize_by_scales(x: Any, scales: Any, *, mode: Literal["nearest"] = "nearest") -> Any:
    return _resized(as_tensor(x), mode, scales, None, False)


def _resized(x: Any, mode: str, scales: Any, sizes: Any, align_corners: bool) -> Any:
    factors = None if scales is None else known(scales, "a scale").astype(np.float32).reshape(-1)
    if factors is not None and factors.size:
        new = [int(n) for n in np.floor(factors * np.array(x.shape, np.float32))]
    else:
        factors, new = None, ints(sizes, "a size")
    if len(new) != x.ndim or x.ndim not in (3, 4, 5) or list(x.shape[:2]) != new[:2]:
        raise LoadError(
            f"an array of shape {list(x.shape)} cannot be resized to {new}: its last one to three axes can"
        )
    how: dict[str, Any] = {"mode": "nearest", "align_corners": align_corners}
    if mode == "nearest":
        _check_nearest(new, x.shape, factors)
    else:
        how["mode"] = {3: "linear", 4: "bilinear", 5: "trilinear"}[x.ndim]
    if factors is None or _are_ratios(factors, new, x.shape):
        return ops.interpolate(x, new[2:], **how)
    if align_corners:
        raise LoadError(
            f"scales={factors.tolist()} are not supported with 'align_corners': they are no ratios of lengths"
        )
    found = ops.interpolate(x, scale_factor=factors[2:].tolist(), **how)
    if list(found.shape) != new:  # scales in single precision round to another length
        raise LoadError(f"scales={factors.tolist()} are not supported for shape {list(x.shape)}: use sizes")
    return found


def _check_nearest(new: list[int], old: tuple[int, ...], factors: Any) -> None:
    """Check that the nearest elements do not depend on how positions are rounded: runtimes differ there."""
    for axis, (m, n) in enumerate(zip(new, old, strict=True)):
        if not n or m % n == 0:
            continue
        factor = np.float32(m / n) if factors is None else factors[axis]
        step = np.float32(n / m if factors is None or factor == np.float32(m / n) else 1 / float(factor))
        places = np.arange(m)
        exact = places * n // m if factors is None else np.floor(places / float(factor))
        singles = places.astype(np.float32)
        if any(np.any(np.floor(each) != exact) for each in (singles / factor, singles * step)):
            raise LoadError(f"{n} elements cannot be resized to {m} by the nearest ones: runtimes differ")


def _are_ratios(factors: Any, new: list[int], old: tuple[int, ...]) -> bool:
    return bool(np.all(factors == (np.array(new) / np.array(old)).astype(np.float32)))


Direction = Literal["forward", "reverse", "bidirectional"]
WAYS: dict[str, list[bool]] = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@operator("LSTM", outputs=3)
def _lstm(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None,
    cell: Any = None, *, activations: Any = None, direction: Direction = "forward",
    hidden_size: int | None = None, input_forget: Literal[0] = 0, layout: Literal[0] = 0,
) -> Any:  # fmt: skip
    _check(activations, [["Sigmoid", "Tanh", "Tanh"]], direction, hidden_size, recurrent)
    if (hidden is None) != (cell is None):
        raise LoadError("one of initial_h and initial_c without the other is not supported")
    weights = (weight, recurrent, bias)
    return _recurrence("lstm", x, weights, lengths, [hidden, cell], direction)


RESETS_FIRST: Any = 0  # the standard's default, which is refused: sknet's GRU resets after the product


@operator("GRU", outputs=2)
def _gru(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None, *,
    activations: Any = None, direction: Direction = "forward", hidden_size: int | None = None,
    layout: Literal[0] = 0, linear_before_reset: Literal[1] = RESETS_FIRST,
) -> Any:  # fmt: skip
    _check(activations, [["Sigmoid", "Tanh"]], direction, hidden_size, recurrent)
    return _recurrence("gru", x, (weight, recurrent, bias), lengths, [hidden], direction)


@operator("RNN", outputs=2)
def _rnn(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None, *,
    activations: Any = None, direction: Direction = "forward", hidden_size: int | None = None,
    layout: Literal[0] = 0,
) -> Any:  # fmt: skip
    _check(activations, [["Tanh"], ["Relu"]], direction, hidden_size, recurrent)
    name = "tanh" if activations is None else activations[0].lower()
    return _recurrence("rnn", x, (weight, recurrent, bias), lengths, [hidden], direction, activation=name)


def _check(given: Any, known_ones: Any, direction: str, hidden_size: Any, recurrent: Any) -> None:
    if given is not None and given not in [each * len(WAYS[direction]) for each in known_ones]:
        raise LoadError(f"activations={given} is not supported")
    if hidden_size not in (None, recurrent.shape[-1]):
        raise LoadError(f"hidden_size={hidden_size} for recurrent weights of shape {list(recurrent.shape)}")


def _recurrence(
    cell: str, x: Any, weights: Any, lengths: Any, states: list[Any], direction: str, **options: Any
) -> Any:
    runs = [
        _run(cell, x, number, weights, [None if s is None else as_tensor(s)[number] for s in states],
             lengths=lengths, reverse=reverse, **options)
        for number, reverse in enumerate(WAYS[direction])
    ]  # fmt: skip
    outputs = ops.stack([ops.permute_dims(output, (1, 0, 2)) for output, _ in runs], axis=1)
    finals = [ops.stack([final[i] for _, final in runs], axis=0) for i in range(len(states))]
    return (outputs, *finals)


def _run(cell: str, x: Any, number: int, weights: Any, states: Any, **options: Any) -> Any:
    weight, recurrent, bias = weights
    size = recurrent.shape[-1]
    order = np.argsort(GATES["tanh" if cell == "rnn" else cell])
    columns = np.concatenate([np.arange(k * size, (k + 1) * size) for k in order])
    taken = [
        ops.permute_dims(ops.take(as_tensor(m)[number], columns, 0), (1, 0)) for m in (weight, recurrent)
    ]
    if states[0] is not None:
        options["state"] = states[0] if cell != "lstm" else tuple(states)
    output, final = getattr(ops, cell)(
        ops.permute_dims(as_tensor(x), (1, 0, 2)), *taken, _bias(cell, bias, number, columns, size), **options
    )
    finals = final if cell == "lstm" else (final,)
    if options["lengths"] is not None:  # as in other runtimes, an empty sequence has no state
        is_real = ops.expand_dims(ops.greater(as_tensor(options["lengths"]), 0), -1)
        finals = tuple(ops.where(is_real, state, 0.0) for state in finals)
    return output, finals


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
