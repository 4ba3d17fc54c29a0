"""Adaptive pooling: a given number of windows, whatever the size of the input."""

from typing import Any

import numpy as np

from sknet.core import Tensor, bind
from sknet.exceptions import ShapeError
from sknet.ops._pool import Size, constant, floating_image, largest, params_of
from sknet.ops._products import matmul
from sknet.ops._windows import Pair, Windows, each_axis, from_image

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"]


def _output_size(name: str, size: Any, image: Tensor, rank: int) -> Pair:
    given = (size,) * rank if size is None or isinstance(size, (int, np.integer)) else tuple(size)
    if len(given) == rank:
        given = tuple(n if m is None else m for m, n in zip(given, image.shape[4 - rank :], strict=True))
    return each_axis(name, "output_size", given[0] if rank == len(given) == 1 else given, rank)


def _bins(n: int, count: int) -> list[tuple[int, int]]:
    """Divide n elements among `count` windows, which overlap if n is not a multiple."""
    return [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]


def _check_any(name: str, x: Tensor, rank: int) -> None:
    if 0 in x.shape[-rank:]:
        raise ShapeError(f"{name}: there is no element in an input of shape {x.shape}")


def _adaptive_avg(rank: int, x: Any, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    x, image = floating_image(name, x, rank)
    _check_any(name, x, rank)
    rows, columns = _output_size(name, output_size, image, rank)
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
    for row, (start, stop) in zip(matrix, _bins(n, count), strict=True):
        row[start:stop] = 1 / (stop - start)
    return matrix


def _adaptive_max(rank: int, x: Any, output_size: Any) -> Tensor:
    name = f"adaptive_max_pool{rank}d"
    x, image = floating_image(name, x, rank)
    _check_any(name, x, rank)
    rows, columns = _output_size(name, output_size, image, rank)
    height, width = image.shape[2:]
    if height % rows == 0 and width % columns == 0:
        kernel = (height // rows, width // columns)
        windows = Windows((height, width), kernel, kernel, ((0, 0), (0, 0)), (1, 1))
        return from_image(bind(largest, (image,), params_of(windows)), x, rank)
    image = image[..., _members(height, rows), :].max(-2)
    return from_image(image[..., _members(width, columns)].max(-1), x, rank)


def _members(n: int, count: int) -> np.ndarray:
    """Return the elements of all windows; a short window repeats its last one."""
    bins = _bins(n, count)
    longest = max(stop - start for start, stop in bins)
    return np.array([np.minimum(np.arange(start, start + longest), stop - 1) for start, stop in bins])


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


def adaptive_max_pool2d(x: Any, output_size: int | tuple[int | None, ...] | None) -> Tensor:
    """Return the largest elements of a given number of windows, which together cover the images.

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
    >>> adaptive_max_pool2d([[[1.0, 2.0, 5.0], [4.0, 3.0, 6.0]]], (1, 2)).numpy()
    array([[[4., 6.]]])
    """
    return _adaptive_max(2, x, output_size)
