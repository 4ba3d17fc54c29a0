"""ONNX operators of networks: products, convolutions, pools, norms, recurrences."""

from typing import Any, Literal, NamedTuple

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind, normalize_axis
from sknet.exceptions import LoadError, ShapeError
from sknet.onnx._reading import Flag, ints, known, operator
from sknet.ops.extend import Windows

__all__: list[str] = []


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
    """Return signals as images of one row."""
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
    """Return the windows, of which there must be one at least."""
    windows = Windows(images.shape[2:], grid.kernel, grid.stride, grid.padding, grid.dilation)
    if min(windows.grid) < 1:
        raise ShapeError(f"no window of {grid.kernel} fits on an input of {list(windows.padded)}")
    return grid


def _pooled(
    x: Any, kernel_shape: Any, strides: Any, dilations: Any, pads: Any, auto_pad: str
) -> tuple[Any, _Grid]:
    """Return images and the windows of a pool, before a padding by `ceil_mode`."""
    images, kernel = _as_images(x), _pair("kernel_shape", kernel_shape, x.ndim - 2)
    grid = _grid(x, kernel, strides, dilations, pads, auto_pad)
    if auto_pad.startswith("SAME") and max(grid.dilation) > 1:
        raise LoadError(f"auto_pad={auto_pad!r} with dilations is not supported: runtimes differ")
    return images, grid


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
    images, given = _pooled(x, kernel_shape, strides, dilations, pads, auto_pad)
    grid = _fitting(images, _ceiled(images, given, ceil_mode))
    if x.dtype.kind != "f":  # padding is minus infinity
        raise LoadError(f"it is not supported for {x.dtype}")
    return _from_images(bind(PRIMITIVES["max_pool"], (images,), {"kernel": grid.kernel, **grid.where}), x)


@operator("AveragePool")
def _average_pool(
    x: Any, *, auto_pad: AutoPad = "NOTSET", ceil_mode: Flag = 0, count_include_pad: Flag = 0,
    dilations: Any = None, kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    x = as_tensor(x)
    images, given = _pooled(x, kernel_shape, strides, dilations, pads, auto_pad)
    grid = _fitting(images, _ceiled(images, given, ceil_mode))
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
