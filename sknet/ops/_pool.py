"""Pooling: the largest element of every window, or its mean."""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sknet._constraints import is_integer, shown
from sknet._params import described_by
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core import _primitive as kinds
from sknet.device import Namespace, to_device
from sknet.exceptions import ShapeError
from sknet.ops._products import matmul
from sknet.ops._rules import check_floating
from sknet.ops._shape import foresee
from sknet.ops._windows import MOVES, Pair, Windows, as_image, each_axis, from_image, spatial, windows_on

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "avg_pool1d",
    "avg_pool2d", "max_pool1d", "max_pool2d",
]  # fmt: skip


Shape = tuple[int, ...]
Size = int | tuple[int, ...]
POOLS = {"kernel": kinds.ONES, **MOVES}


def _pooled_shape(x: Any, *others: Any, **where: Any) -> tuple[Shape, np.dtype[Any]]:
    return (*x.shape[:2], *Windows(x.shape[2:], **where).grid), x.dtype


def _padded(xp: Namespace, x: Any, windows: Windows, value: float) -> Any:
    """Return images with `value` around them; the images themselves where nothing is added."""
    if windows.is_whole:
        return x
    image = xp.full((*x.shape[:2], *windows.padded), value, dtype=x.dtype)
    image[windows.inside] = x
    return image


def _reduced(image: Any, windows: Windows, function: Any, out: Any) -> Any:
    """Combine the elements of every window by a function of two arrays: along rows, then along columns."""
    rows = functools.reduce(function, [image[index] for index in windows.along(-2)])
    first, *others = [rows[index] for index in windows.along(-1)]
    if not others:
        out[...] = first
    for other in others:
        first = function(first, other, out=out)
    return out


# -- the largest ------------------------------------------------------------------------------


def _max_forward(xp: Namespace, x: Any, *, out: Any = None, **where: Any) -> Any:
    windows = Windows(x.shape[2:], **where)
    out = xp.empty((*x.shape[:2], *windows.grid), dtype=x.dtype) if out is None else out
    native = xp.native_passes()
    if native is not None and native.largest(windows, x, out):
        return out
    return _reduced(_padded(xp, x, windows, -math.inf), windows, xp.maximum, out)


def _put_forward(xp: Namespace, g: Any, x: Any, top: Any, *, out: Any = None, **where: Any) -> Any:
    """Give each window's gradient to the first of its largest elements."""
    windows = Windows(x.shape[2:], **where)
    out = xp.empty(x.shape, dtype=g.dtype) if out is None else out
    native = xp.native_passes()
    if native is not None and native.put_largest(windows, g, x, top, out):
        return out
    image, left = _padded(xp, x, windows, -math.inf), g.copy()
    hit, share = xp.empty(top.shape, dtype=bool), xp.empty_like(left)

    def shares() -> Iterator[Any]:
        for _, _, index in windows.elements():
            xp.equal(image[index], top, out=hit)
            xp.multiply(left, hit, out=share)
            xp.subtract(left, share, out=left)
            yield index, share

    return _gathered(xp, windows, shares(), g, out)


def _gathered(xp: Namespace, windows: Windows, shares: Iterable[Any], g: Any, out: Any) -> Any:
    """Add the gradients of the elements of all windows up in an image."""
    if out is None:
        out = xp.empty((*g.shape[:2], *windows.size), dtype=g.dtype)
    total = out if windows.is_whole else xp.empty((*g.shape[:2], *windows.padded), dtype=g.dtype)
    if not windows.tile:
        total[...] = 0
    for index, share in shares:
        if windows.are_apart:
            total[index] = share
        else:
            total[index] += share
    if total is not out:
        out[...] = total[windows.inside]
    return out


def _take_forward(xp: Namespace, h: Any, x: Any, top: Any, *, out: Any = None, **where: Any) -> Any:
    """Take the elements of h at the positions of x's first largest elements in each window."""
    windows = Windows(x.shape[2:], **where)
    image, values = _padded(xp, x, windows, -math.inf), _padded(xp, h, windows, 0.0)
    left = xp.ones(top.shape, dtype=h.dtype)
    out = xp.empty(top.shape, dtype=h.dtype) if out is None else out
    out[...] = 0
    for _, _, index in windows.elements():
        share = left * (image[index] == top)
        left -= share
        out += values[index] * share
    return out


largest: Primitive = Primitive("max_pool").define(
    forward=_max_forward,
    shape=_pooled_shape,
    params=POOLS,
    vjp=(lambda g, top, x, **where: bind(_put, (g, x.detach(), top.detach()), where),),
    saves="both",
)
_put: Primitive = Primitive("max_pool_put").define(
    forward=_put_forward,
    shape=lambda g, x, top, **where: (x.shape, g.dtype),
    params=POOLS,
    vjp=(lambda h, _, g, x, top, **where: bind(_take, (h, x, top), where), None, None),
)
_take: Primitive = Primitive("max_pool_take").define(
    forward=_take_forward,
    shape=_pooled_shape,
    params=POOLS,
    vjp=(lambda g, _, h, x, top, **where: bind(_put, (g, x, top), where), None, None),
)


# -- the sum ----------------------------------------------------------------------------------


def _sum_forward(xp: Namespace, x: Any, *, out: Any = None, **where: Any) -> Any:
    windows = Windows(x.shape[2:], **where)
    out = xp.empty((*x.shape[:2], *windows.grid), dtype=x.dtype) if out is None else out
    return _reduced(_padded(xp, x, windows, 0.0), windows, xp.add, out)


def _spread_forward(xp: Namespace, g: Any, *, size: Pair, out: Any = None, **where: Any) -> Any:
    """Give every window's gradient to all of its elements."""
    windows = Windows(size, **where)
    return _gathered(xp, windows, ((index, g) for _, _, index in windows.elements()), g, out)


_sum: Primitive = Primitive("sum_pool").define(
    forward=_sum_forward,
    shape=_pooled_shape,
    params=POOLS,
    vjp=(lambda g, _, x, **where: bind(_spread, (g,), {"size": x.shape[2:], **where}),),
    saves="nothing",
)
_spread: Primitive = Primitive("sum_pool_spread").define(
    forward=_spread_forward,
    shape=lambda g, size, **where: ((*g.shape[:2], *size), g.dtype),
    params={"size": kinds.LENGTHS, **POOLS},
    vjp=(lambda h, _, g, size, **where: bind(_sum, (h,), where),),
    saves="nothing",
)


def enlarged(image: Tensor, times: Pair) -> Tensor:
    """Return images (N, C, H, W) with rows and columns repeated `times` times; the gradient is a sum pool."""
    rows, columns = image.shape[2:]
    windows = Windows((rows * times[0], columns * times[1]), times, times, ((0, 0), (0, 0)), (1, 1))
    return image if times == (1, 1) else bind(_spread, (image,), windows._asdict())


# -- the public functions ---------------------------------------------------------------------


def floating_image(name: str, x: Any, rank: int) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    check_floating(name, x)
    return x, as_image(name, x, rank)


def _windows(
    name: str,
    rank: int,
    size: Pair,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    dilation: Size,
    ceil_mode: bool,
) -> Windows:
    kernel = each_axis(name, "kernel_size", kernel_size, rank)
    strides = kernel if stride is None else each_axis(name, "stride", stride, rank)
    pads = each_axis(name, "padding", padding, rank, least=0, default=0)
    dilations = each_axis(name, "dilation", dilation, rank)
    if any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise ValueError(
            f"{name}: padding must be at most half of the kernel_size {kernel[2 - rank :]}, "
            f"got {shown(padding)}"
        )
    axes = zip(size, kernel, strides, pads, dilations, strict=True)
    rows, columns = ((p, _after(n, d * (k - 1) + 1, s, p) if ceil_mode else p) for n, k, s, p, d in axes)
    return windows_on(name, Windows(size, kernel, strides, (rows, columns), dilations), rank)


def _after(n: int, extent: int, stride: int, padding: int) -> int:
    """Return the padding at the end with which a last window that begins before the end fits."""
    last = -(-(n + 2 * padding - extent) // stride)
    if last * stride >= n + padding:
        last -= 1
    return max(padding, last * stride + extent - n - padding)


def _max_pooled(rank: int, x: Any, *where: Any) -> Tensor:
    name = f"max_pool{rank}d"
    x, image = floating_image(name, x, rank)
    windows = _windows(name, rank, spatial(image), *where)
    return from_image(bind(largest, (image,), params_of(windows)), x, rank)


def params_of(windows: Windows) -> dict[str, Any]:
    return {name: value for name, value in windows._asdict().items() if name != "size"}


def _avg_pooled(
    rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool
) -> Tensor:
    name = f"avg_pool{rank}d"
    x, image = floating_image(name, x, rank)
    windows = _windows(name, rank, spatial(image), kernel_size, stride, padding, 1, ceil_mode)
    rows, columns = (_counts(windows, axis, count_include_pad) for axis in (0, 1))
    counts = np.outer(rows, columns)
    total = bind(_sum, (image,), params_of(windows))
    if counts.min() == counts.max():
        return from_image(total * (1.0 / float(counts[0, 0])), x, rank)
    return from_image(total * constant(1.0 / counts, image), x, rank)


def _counts(windows: Windows, axis: int, count_include_pad: bool) -> np.ndarray:
    """Return how many elements the windows along an axis have; what `ceil_mode` adds never counts."""
    n, (before, _) = windows.size[axis], windows.padding[axis]
    start = np.arange(windows.grid[axis]) * windows.stride[axis] - before
    stop = np.minimum(start + windows.kernel[axis], n + before)
    if count_include_pad:
        return stop - start
    return np.minimum(stop, n) - np.maximum(start, 0)


def constant(values: np.ndarray, like: Tensor) -> Tensor:
    return Tensor(to_device(np.ascontiguousarray(values, like.dtype), like.device))


def max_pool1d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of every window of signals, of shape (..., channels, length).

    `kernel_size`, `stride`, `padding`, `dilation` and `ceil_mode` are those of `max_pool2d`.

    Examples
    --------
    >>> max_pool1d([[1.0, 3.0, 2.0, 0.0]], 2).numpy()
    array([[3., 2.]])
    """
    return _max_pooled(1, x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of every window of signals, of shape (..., channels, length).

    `kernel_size`, `stride`, `padding`, `ceil_mode` and `count_include_pad` are those of `avg_pool2d`.

    Examples
    --------
    >>> avg_pool1d([[1.0, 3.0, 2.0, 0.0]], 2).numpy()
    array([[2., 1.]])
    """
    return _avg_pooled(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def max_pool2d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of every window of images.

    Parameters
    ----------
    x : Tensor or array of shape (..., channels, height, width)
        Images, floating point.
    kernel_size : int or tuple of int
        Rows and columns of a window.
    stride : int or tuple of int, default=None
        Steps from one window to the next; None is `kernel_size`.
    padding : int or tuple of int, default=0
        Padding around the image, at most half a window; it is never the largest.
    dilation : int or tuple of int, default=1
        Steps from one element of a window to the next.
    ceil_mode : bool, default=False
        Whether a last window may reach over the end, if it begins before it.

    Returns
    -------
    Tensor of shape (..., channels, rows, columns)
        The maxima; the gradient goes to the first of equal elements.

    Raises
    ------
    ShapeError, DtypeError, ValueError
        If no window fits on the image, it is not floating, or an option is invalid.

    Examples
    --------
    >>> max_pool2d([[[1.0, 2.0, 5.0], [4.0, 3.0, 6.0]]], 2, stride=1).numpy()
    array([[[4., 6.]]])
    """
    return _max_pooled(2, x, kernel_size, stride, padding, dilation, ceil_mode)


@described_by(max_pool2d)
def avg_pool2d(
    x: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of every window of images.

    Parameters
    ----------
    padding : int or tuple of int, default=0
        Zeros around the image, at most half a window.
    count_include_pad : bool, default=True
        Whether padding counts in the means. Elements that `ceil_mode` adds never do.

    Returns
    -------
    Tensor of shape (..., channels, rows, columns)
        The means.

    Examples
    --------
    >>> avg_pool2d([[[1.0, 2.0, 5.0], [4.0, 3.0, 6.0]]], 2, stride=1).numpy()
    array([[[2.5, 4. ]]])
    """
    return _avg_pooled(2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


# -- adaptive pooling: a given number of windows, whatever the size of the input --------------


def _output_size(name: str, size: Any, image: Tensor, rank: int) -> Pair:
    given = (size,) * rank if size is None or is_integer(size) else tuple(size)
    if len(given) == rank:
        given = tuple(n if m is None else m for m, n in zip(given, image.shape[4 - rank :], strict=True))
    return each_axis(name, "output_size", given[0] if rank == len(given) == 1 else given, rank)


def _bins(n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide n elements among `count` windows, which overlap if n is not a multiple: starts and ends."""
    numbers = np.arange(count)
    return numbers * n // count, -(-(numbers + 1) * n // count)


def _check_any(name: str, x: Tensor, rank: int) -> None:
    if 0 in x.shape[-rank:]:
        raise ShapeError(f"{name}: there is no element in an input of shape {x.shape}")


def _adaptive_avg(rank: int, x: Any, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    x, image = floating_image(name, x, rank)
    _check_any(name, x, rank)
    rows, columns = _output_size(name, output_size, image, rank)
    for count, length in zip((rows, columns), image.shape[2:], strict=True):
        foresee(image, (count, length))
    if columns == 1:
        image = image.mean(-1, keepdims=True)
    elif columns != image.shape[3]:
        image = matmul(image, constant(_averaging(image.shape[3], columns).T, image))
    if rows == 1:
        image = image.mean(-2, keepdims=True)
    elif rows != image.shape[2]:
        image = matmul(constant(_averaging(image.shape[2], rows), image), image)
    return from_image(image, x, rank)


def _averaging(n: int, count: int) -> np.ndarray:
    """Return the matrix that takes the means over windows of n elements."""
    matrix = np.zeros((count, n))
    for row, start, stop in zip(matrix, *_bins(n, count), strict=True):
        row[start:stop] = 1 / (stop - start)
    return matrix


def _adaptive_max(rank: int, x: Any, output_size: Any) -> Tensor:
    name = f"adaptive_max_pool{rank}d"
    x, image = floating_image(name, x, rank)
    _check_any(name, x, rank)
    rows, columns = _output_size(name, output_size, image, rank)
    height, width = image.shape[2:]
    foresee(image, (2, rows + columns + height + width))
    if height % rows == 0 and width % columns == 0:
        kernel = (height // rows, width // columns)
        windows = Windows((height, width), kernel, kernel, ((0, 0), (0, 0)), (1, 1))
        return from_image(bind(largest, (image,), params_of(windows)), x, rank)
    image = image[..., _members(height, rows), :].max(-2)
    return from_image(image[..., _members(width, columns)].max(-1), x, rank)


def _members(n: int, count: int) -> np.ndarray:
    """Return the elements of all windows; a short window repeats its last one."""
    starts, ends = _bins(n, count)
    return np.minimum(starts[:, None] + np.arange((ends - starts).max()), ends[:, None] - 1)


def adaptive_avg_pool1d(x: Any, output_size: Size | None) -> Tensor:
    """Return the means of `output_size` windows of signals, of shape (..., channels, length).

    Examples
    --------
    >>> adaptive_avg_pool1d([[1.0, 3.0, 2.0]], 2).numpy()
    array([[2. , 2.5]])
    """
    return _adaptive_avg(1, x, output_size)


def adaptive_max_pool1d(x: Any, output_size: Size | None) -> Tensor:
    """Return the largest elements of `output_size` windows of signals, of shape (..., channels, length).

    Examples
    --------
    >>> adaptive_max_pool1d([[1.0, 3.0, 2.0]], 2).numpy()
    array([[3., 3.]])
    """
    return _adaptive_max(1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: int | tuple[int | None, ...] | None) -> Tensor:
    """Return the means of a given number of windows, which together cover the images.

    Parameters
    ----------
    x : Tensor or array of shape (..., channels, height, width)
        Images, floating point.
    output_size : int, None or tuple of int or None
        Windows along each axis; None for as many as there are elements.

    Returns
    -------
    Tensor of shape (..., channels, rows, columns)
        Window i of m along an axis of n goes from ``floor(i n / m)`` to ``ceil((i + 1) n / m)``.

    Raises
    ------
    ShapeError, DtypeError, ValueError
        If the images have no elements, are not floating, or the size is invalid.

    Examples
    --------
    >>> adaptive_avg_pool2d([[[1.0, 2.0, 5.0], [4.0, 3.0, 6.0]]], (1, 2)).numpy()
    array([[[2.5, 4. ]]])
    """
    return _adaptive_avg(2, x, output_size)


@described_by(adaptive_avg_pool2d)
def adaptive_max_pool2d(x: Any, output_size: int | tuple[int | None, ...] | None) -> Tensor:
    """Return the largest elements of a given number of windows, which together cover the images.

    Examples
    --------
    >>> adaptive_max_pool2d([[[1.0, 2.0, 5.0], [4.0, 3.0, 6.0]]], (1, 2)).numpy()
    array([[[4., 6.]]])
    """
    return _adaptive_max(2, x, output_size)
