"""Convolutions: three primitives, whose gradients are again these three.

A convolution is bilinear in image and weight. So the gradient with respect to the image is one map,
`conv_image` (also known as transposed convolution), that with respect to the weight another,
`conv_weight`, and every derivative of any of the three is one of the others.

How they are computed is chosen by sizes: channel by channel (`_depthwise`), by tiles of the images
(`_winograd`), or by columns (`_columns`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace, backend, result_dtype
from sknet.ops._columns import Columns
from sknet.ops._depthwise import Depthwise
from sknet.ops._windows import MOVES, Pair, Pairs, Windows
from sknet.ops._winograd import Winograd

__all__ = ["Work", "conv", "conv_image", "conv_weight", "convolution_work"]

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
    """How many multiplications a convolution has, as if it were by columns, and where they are made."""

    by_blas: int = 0
    in_threads: int = 0


def convolution_work(equation: Any) -> Work | None:
    """Return how many multiplications a convolution of a plan for the host has; None for other primitives."""
    roles = ROLES.get(equation.primitive)
    if roles is None:
        return None
    first, second = equation.operands
    images, kernels = ((first, second, equation.output)[i] for i in roles)
    count = math.prod(images.shape) * math.prod(kernels.shape[1:])
    groups = equation.params["groups"]
    if Depthwise.fits(kernels.shape[1] * groups, kernels.shape[0], groups, images.dtype):
        return Work()
    rooms = equation.primitive.scratch(first, second, **equation.params)
    n_rooms = rooms[0][0][0]
    return Work(in_threads=count) if n_rooms > 1 else Work(by_blas=count)
