"""Convolutions of signals and images: three primitives, whose gradients are again these three.

A convolution is bilinear in image and weight. So the gradient with respect to the image is one map,
`conv_image` (also known as transposed convolution), that with respect to the weight another,
`conv_weight`, and every derivative of any of the three is one of the others.

Sizes decide which of the algorithms in `_convolution_algorithms` computes them: channel by channel
(`Depthwise`), by tiles of the images (`Winograd`), or by columns (`Columns`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sknet._constraints import is_integer, shown
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core import _primitive as kinds
from sknet.device import Namespace, backend, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._convolution_algorithms import Columns, Depthwise, Winograd
from sknet.ops._rules import check_floating
from sknet.ops._shape import pad, reshape
from sknet.ops._windows import (
    MOVES,
    Pair,
    Pairs,
    Windows,
    as_image,
    each_axis,
    from_image,
    padding_pairs,
    spatial,
    windows_on,
)

__all__ = ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"]


Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]
CONVOLVES = {"groups": kinds.INTEGER, **MOVES}


def _scratch(xp: Namespace, given: Any, arrays: Arrays) -> Any:
    return [xp.empty(shape, dtype=dtype) for shape, dtype in arrays] if given is None else given


# -- the three maps ---------------------------------------------------------------------------


Way = Columns | Depthwise | Winograd


def _task(xp: Namespace, x: Any, w: Any, stride: Pair, padding: Pairs, dilation: Pair, groups: int) -> Way:
    windows = Windows(x.shape[2:], w.shape[2:], stride, padding, dilation)
    return _task_of(xp, x, w.shape[0], groups, windows)


def _task_of(
    xp: Namespace, x: Any, filters: int, groups: int, windows: Windows, of_weight: bool = False
) -> Way:
    """Choose how to convolve: without native code, the sums of tiles take longer than fewer products save."""
    shape, itemsize = x.shape, x.dtype.itemsize
    if Depthwise.fits(shape[1], filters, groups, x.dtype):
        return Depthwise.of(shape, windows, itemsize)
    if xp.may_be_native() and Winograd.fits(shape, filters, groups, windows, x.dtype):
        return Winograd.of(shape, filters, groups, windows, itemsize, of_weight)
    return Columns.of(shape, filters, groups, windows, itemsize, of_weight=of_weight)


def _conv_forward(
    xp: Namespace,
    x: Any,
    w: Any,
    *,
    groups: int,
    bias: Any = None,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    task = _task(xp, x, w, groups=groups, **where)
    scratch = _scratch(xp, scratch, task.scratch(x.dtype))
    if out is None:
        out = xp.empty((x.shape[0], w.shape[0], *task.windows.grid), dtype=x.dtype)
    task.convolved(xp, x, w, out, scratch, bias)
    return out


def _flipped(w: Any, groups: int) -> Any:
    """Return the weight whose convolution is the adjoint of w's: flipped and transposed."""
    filters, channels, *kernel = w.shape
    turned = w[:, :, ::-1, ::-1].reshape(groups, filters // groups, channels, *kernel)
    return turned.transpose(0, 2, 1, 3, 4).reshape(groups * channels, filters // groups, *kernel)


def _adjoint_padding(w: Any, stride: Pair, padding: Pairs, dilation: Pair, groups: int) -> Pairs | None:
    """Return the padding with which convolving with the flipped weight is the adjoint, or None."""
    reaches = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    rows, columns = (
        (reach - before, reach - after) for reach, (before, after) in zip(reaches, padding, strict=True)
    )
    fits = stride == (1, 1) and min(*rows, *columns) >= 0
    return (rows, columns) if fits and w.shape[0] <= 4 * w.shape[1] * groups else None


def _image_task(
    g: Any, w: Any, size: Pair, stride: Pair, padding: Pairs, dilation: Pair, groups: int
) -> Columns:
    windows = Windows(size, w.shape[2:], stride, padding, dilation)
    shape = (g.shape[0], w.shape[1] * groups, *size)
    return Columns.of(shape, w.shape[0], groups, windows, g.dtype.itemsize, adjoint=True)


def _image_forward(
    xp: Namespace,
    g: Any,
    w: Any,
    *,
    size: Pair,
    groups: int,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    padding = _adjoint_padding(w, groups=groups, **where)
    if padding is not None:
        where = where | {"padding": padding}
        return _conv_forward(xp, g, _flipped(w, groups), groups=groups, out=out, scratch=scratch, **where)
    task = _image_task(g, w, size, groups=groups, **where)
    scratch = _scratch(xp, scratch, task.scratch(g.dtype))
    if out is None:
        out = xp.empty((g.shape[0], task.channels, *size), dtype=g.dtype)
    task.image(xp, g, w, out, scratch)
    return out


def _weight_task(xp: Namespace, x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> Way:
    windows = Windows(x.shape[2:], kernel, **where)
    return _task_of(xp, x, g.shape[1], groups, windows, of_weight=True)


def _weight_forward(
    xp: Namespace,
    x: Any,
    g: Any,
    *,
    kernel: Pair,
    groups: int,
    out: Any = None,
    scratch: Any = None,
    **where: Any,
) -> Any:
    task = _weight_task(xp, x, g, kernel, groups, **where)
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    if out is None:
        out = xp.empty(shape, dtype=x.dtype)
    rooms = _scratch(xp, scratch, task.scratch_of_weight(x.dtype))
    out[...] = task.weight(xp, x, g, rooms).reshape(shape)
    return out


# -- their records ----------------------------------------------------------------------------


def _conv_shape(x: Any, w: Any, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    grid = Windows(x.shape[2:], w.shape[2:], **where).grid
    return (x.shape[0], w.shape[0], *grid), result_dtype(x, w)


def _image_shape(g: Any, w: Any, size: Pair, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    return (g.shape[0], w.shape[1] * groups, *size), result_dtype(g, w)


def _weight_shape(x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    return (g.shape[1], x.shape[1] // groups, *kernel), result_dtype(x, g)


def _host() -> Namespace:
    """Plans for devices have memory of their own for columns."""
    return backend("cpu").xp


def _conv_scratch(x: Any, w: Any, **where: Any) -> Arrays:
    return _task(_host(), x, w, **where).scratch(x.dtype)


def _image_scratch(g: Any, w: Any, size: Pair, groups: int, **where: Any) -> Arrays:
    padding = _adjoint_padding(w, groups=groups, **where)
    if padding is None:
        return _image_task(g, w, size, groups=groups, **where).scratch(g.dtype)
    windows = Windows(g.shape[2:], w.shape[2:], where["stride"], padding, where["dilation"])
    return _task_of(_host(), g, w.shape[1] * groups, groups, windows).scratch(g.dtype)


def _weight_scratch(x: Any, g: Any, kernel: Pair, groups: int, **where: Any) -> Arrays:
    return _weight_task(_host(), x, g, kernel, groups, **where).scratch_of_weight(x.dtype)


_conv: Primitive = Primitive("conv").define(
    forward=_conv_forward,
    shape=_conv_shape,
    params=CONVOLVES,
    vjp=(
        lambda g, _, x, w, **where: conv_image(g, w, size=x.shape[2:], **where),
        lambda g, _, x, w, **where: conv_weight(x, g, kernel=w.shape[2:], **where),
    ),
    scratch=_conv_scratch,
)
_image: Primitive = Primitive("conv_image").define(
    forward=_image_forward,
    shape=_image_shape,
    params={"size": kinds.LENGTHS, **CONVOLVES},
    vjp=(
        lambda h, _, g, w, size, **where: conv(h, w, **where),
        lambda h, _, g, w, size, **where: conv_weight(h, g, kernel=w.shape[2:], **where),
    ),
    scratch=_image_scratch,
)
_weight: Primitive = Primitive("conv_weight").define(
    forward=_weight_forward,
    shape=_weight_shape,
    params={"kernel": kinds.LENGTHS, **CONVOLVES},
    vjp=(
        lambda v, _, x, g, kernel, **where: conv_image(g, v, size=x.shape[2:], **where),
        lambda v, _, x, g, kernel, **where: conv(x, v, **where),
    ),
    scratch=_weight_scratch,
)


def conv(x: Tensor, w: Tensor, **where: Any) -> Tensor:
    """Return the cross-correlation of images (N, C, H, W) with kernels (O, C / groups, h, w)."""
    return bind(_conv, (x, w), where)


def conv_image(g: Tensor, w: Tensor, size: Pair, **where: Any) -> Tensor:
    """Return the adjoint of `conv` in the image: the image of `size` that has the gradient g."""
    return bind(_image, (g, w), {"size": size, **where})


def conv_weight(x: Tensor, g: Tensor, kernel: Pair, **where: Any) -> Tensor:
    """Return the adjoint of `conv` in the weight: kernels of size `kernel` that have the gradient g."""
    return bind(_weight, (x, g), {"kernel": kernel, **where})


# Which of operands and result are images of filters, and kernels.
ROLES = {_conv: (2, 1), _image: (0, 1), _weight: (1, 2)}


class Work(NamedTuple):
    """Multiplications of a convolution by columns, in BLAS and in threads."""

    by_blas: int = 0
    in_threads: int = 0


def convolution_work(equation: Any) -> Work:
    """Return how many multiplications a convolution of a plan for the host has."""
    first, second = equation.operands
    images, kernels = ((first, second, equation.output)[i] for i in ROLES[equation.primitive])
    count = math.prod(images.shape) * math.prod(kernels.shape[1:])
    groups = equation.params["groups"]
    if Depthwise.fits(kernels.shape[1] * groups, kernels.shape[0], groups, images.dtype):
        return Work()
    rooms = equation.primitive.scratch(first, second, **equation.params)
    n_rooms = rooms[0][0][0]
    return Work(in_threads=count) if n_rooms > 1 else Work(by_blas=count)


# -- functions --------------------------------------------------------------------------------


def _operands(name: str, x: Any, weight: Any, rank: int) -> tuple[Tensor, Tensor]:
    """Return input and weight as floating tensors of one dtype."""
    x, weight = as_tensor(x), as_tensor(weight)
    check_floating(name, x)
    check_floating(name, weight)
    if weight.ndim != rank + 2:
        raise ShapeError(
            f"{name}: expected a weight of {rank + 2} axes, filters, channels and kernel, got {weight.shape}"
        )
    dtype = result_dtype(x, weight)
    return x.astype(dtype), weight.astype(dtype)


def _groups(name: str, weight: Tensor, groups: Any) -> int:
    if not is_integer(groups) or groups < 1 or weight.shape[0] % groups:
        raise ValueError(
            f"{name}: groups must be an int that divides the weight's first axis, {weight.shape[0]}, "
            f"got {shown(groups)}"
        )
    return int(groups)


def _check_channels(name: str, x: Tensor, weight: Tensor, groups: int, rank: int, expected: int) -> None:
    if x.ndim > rank and x.shape[-rank - 1] != expected:
        raise ShapeError(
            f"{name}: a weight of shape {weight.shape} with groups={groups} needs an input of {expected} "
            f"channels, got shape {x.shape}"
        )


def _check_kernel(name: str, weight: Tensor, rank: int) -> None:
    if 0 in weight.shape[-rank:]:
        raise ShapeError(f"{name}: a kernel needs at least one element, got a weight of shape {weight.shape}")


def _biased(name: str, out: Tensor, bias: Any, rank: int) -> Tensor:
    if bias is None:
        return out
    bias = as_tensor(bias)
    if bias.shape != (out.shape[-rank - 1],):
        raise ShapeError(f"{name}: expected a bias of shape {(out.shape[-rank - 1],)}, got {bias.shape}")
    return out + reshape(bias, (*bias.shape, *(1,) * rank))


def _convolved(
    rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    name = f"conv{rank}d"
    x, weight = _operands(name, x, weight, rank)
    groups = _groups(name, weight, groups)
    _check_channels(name, x, weight, groups, rank, weight.shape[1] * groups)
    image, kernels = as_image(name, x, rank), _as_kernels(weight)
    strides = each_axis(name, "stride", stride, rank)
    dilations = each_axis(name, "dilation", dilation, rank)
    pads = padding_pairs(name, padding, rank, spatial(kernels), strides, dilations)
    _check_kernel(name, weight, rank)
    windows_on(name, Windows(spatial(image), spatial(kernels), strides, pads, dilations), rank)
    where = {"stride": strides, "padding": pads, "dilation": dilations, "groups": groups}
    return _biased(name, from_image(conv(image, kernels, **where), x, rank), bias, rank)


def _as_kernels(weight: Tensor) -> Tensor:
    if weight.ndim == 4:
        return weight
    return reshape(weight, (*weight.shape[:2], 1, *weight.shape[2:]))


def _transposed(
    rank: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    name = f"conv_transpose{rank}d"
    x, weight = _operands(name, x, weight, rank)
    groups = _groups(name, weight, groups)
    _check_channels(name, x, weight, groups, rank, weight.shape[0])
    image, kernels = as_image(name, x, rank), _as_kernels(weight)
    strides = each_axis(name, "stride", stride, rank)
    dilations = each_axis(name, "dilation", dilation, rank)
    pads = each_axis(name, "padding", padding, rank, least=0, default=0)
    more = each_axis(name, "output_padding", output_padding, rank, least=0, default=0)
    if any(m >= max(s, d) for m, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: output_padding must be smaller than the stride {strides[2 - rank :]} or the dilation "
            f"{dilations[2 - rank :]}, got {shown(output_padding)}"
        )
    _check_kernel(name, weight, rank)
    parts = list(zip(image.shape[2:], kernels.shape[2:], strides, pads, dilations, more, strict=True))
    if min(n and (n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in parts) < 1:
        raise ShapeError(f"{name}: an input of shape {x.shape} with padding={padding!r} has an empty result")
    ends = [_end(p, m, s) for _, _, s, p, _, m in parts]
    size = tuple(
        (n - 1) * s - p - after + d * (k - 1) + min(m, s - 1) + 1
        for (n, k, s, p, d, m), (after, _) in zip(parts, ends, strict=True)
    )
    pairs = tuple((p, after) for p, (after, _) in zip(pads, ends, strict=True))
    where = {"stride": strides, "padding": pairs, "dilation": dilations, "groups": groups}
    out = conv_image(image, kernels, size=size, **where)
    if any(zeros for _, zeros in ends):
        out = pad(out, [(0, zeros) for _, zeros in ends])
    return _biased(name, from_image(out, x, rank), bias, rank)


def _end(padding: int, more: int, stride: int) -> tuple[int, int]:
    """Return how many elements are removed at the end of an axis, and how many zeros are appended."""
    further = max(more - stride + 1, 0)
    after = max(padding - further, 0)
    return after, further - (padding - after)


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of signals with kernels.

    `x` is of shape (..., channels, length) and `weight` of (filters, channels / groups, elements);
    `bias`, `stride`, `padding`, `dilation` and `groups` are those of `conv2d`.

    Examples
    --------
    >>> conv1d([[1.0, 2.0, 3.0, 4.0]], [[[1.0, -1.0]]]).numpy()
    array([[-1., -1., -1.]])
    """
    return _convolved(1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    r"""Return the cross-correlation of images with kernels, which is called convolution in networks.

    Parameters
    ----------
    x : Tensor or array of shape (..., channels, height, width)
        Images.
    weight : Tensor or array of shape (filters, channels / groups, rows, columns)
        Kernels.
    bias : Tensor or array of shape (filters,), default=None
        Added to each output of a filter.
    stride : int or tuple of int, default=1
        Steps from one window to the next.
    padding : int, tuple of int, "same" or "valid", default=0
        Zeros around the image; "same" gives the output the image's size (for a stride of 1, with the
        odd zero at the end), "valid" is 0.
    dilation : int or tuple of int, default=1
        Steps from one element of a kernel to the next.
    groups : int, default=1
        Channels and filters are divided into this many independent groups.

    Returns
    -------
    Tensor of shape (..., filters, rows, columns)
        Along each axis ``(n + padding before and after - dilation * (k - 1) - 1) // stride + 1`` long.

    Raises
    ------
    ShapeError
        If channels do not fit, or no window fits on the image.
    DtypeError
        If an operand is not floating.
    ValueError
        If an option has an invalid value.

    Notes
    -----
    .. math:: y_{o,h,w} = b_o + \sum_{c,i,j} W_{o,c,i,j} \, x_{c,\, s h + d i - p,\, s w + d j - p}

    Examples
    --------
    >>> import numpy as np
    >>> conv2d(np.ones((1, 3, 3)), np.ones((1, 1, 2, 2)), padding="same").numpy()
    array([[[4., 4., 2.],
            [4., 4., 2.],
            [2., 2., 1.]]])
    """
    return _convolved(2, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the adjoint of `conv1d` in its first argument: every input element spreads a kernel.

    `x` is of shape (..., channels, length) and `weight` of (channels, filters / groups, elements); `bias`,
    `stride`, `padding`, `output_padding`, `groups` and `dilation` are those of `conv_transpose2d`.

    Examples
    --------
    >>> conv_transpose1d([[1.0, 2.0]], [[[1.0, 10.0]]], stride=2).numpy()
    array([[ 1., 10.,  2., 20.]])
    """
    return _transposed(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Return the adjoint of `conv2d` in its first argument: every input element spreads a kernel.

    Parameters
    ----------
    x : Tensor or array of shape (..., channels, height, width)
        Images.
    weight : Tensor or array of shape (channels, filters / groups, rows, columns)
        Kernels, as those of the `conv2d` that leads from the result's shape to x's.
    bias : Tensor or array of shape (filters,), default=None
        Added to each output of a filter.
    stride, padding : int or tuple of int
        As for this `conv2d`.
    output_padding : int or tuple of int, default=0
        Additional rows and columns at the end, fewer than the stride: a strided convolution maps several
        shapes of inputs to one shape of outputs.
    groups, dilation : int or tuple of int
        As for this `conv2d`.

    Returns
    -------
    Tensor of shape (..., filters, rows, columns)
        Along each axis ``(n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1`` long.

    Raises
    ------
    ShapeError
        If channels do not fit, or the result is empty.
    DtypeError
        If an operand is not floating.
    ValueError
        If an option has an invalid value.

    Examples
    --------
    >>> import numpy as np
    >>> conv_transpose2d(np.ones((1, 2, 2)), np.ones((1, 1, 2, 2))).numpy()
    array([[[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]]])
    """
    return _transposed(2, x, weight, bias, stride, padding, output_padding, groups, dilation)
