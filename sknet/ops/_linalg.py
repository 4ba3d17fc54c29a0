"""Products of vectors and tensors, and diagonals."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.core import Tensor, as_tensor, bind, normalize_axes
from sknet.core.extend import primitives as p
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import multiply
from sknet.ops._matmul import matmul
from sknet.ops._reduce import sum
from sknet.ops._shape import expand_dims, flatten, moveaxis, reshape

__all__ = ["diagonal", "outer", "tensordot", "trace", "vecdot"]


def outer(x: Any, y: Any) -> Tensor:
    """Return the outer product of the vectors x and y: the products of all pairs of their elements."""
    x, y = as_tensor(x), as_tensor(y)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"outer: expected two vectors, got shapes {x.shape} and {y.shape}")
    return multiply(expand_dims(x, -1), y)


def vecdot(x: Any, y: Any, axis: int = -1) -> Tensor:
    """Return the sum of x * `y` over an `axis`, counted from the end; the other axes broadcast."""
    x, y = as_tensor(x), as_tensor(y)
    if axis >= 0 or axis < -min(x.ndim, y.ndim) or x.shape[axis] != y.shape[axis]:
        raise ShapeError(
            f"vecdot: shapes {x.shape} and {y.shape} do not have an axis {axis} of one length: expected one "
            "that both have, as a negative number"
        )
    return sum(x * y, axis)


def tensordot(x: Any, y: Any, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over several axes at once, as one matrix product.

    Parameters
    ----------
    x, y : Tensor or array
        Any shapes.
    axes : int or pair of sequences of int, default=2
        A number n sums over the last n axes of x and the first n of y; a pair names the axes of x and,
        in the same order, those of y.

    Returns
    -------
    Tensor
        With the other axes of x, then those of y.

    Raises
    ------
    ShapeError
        If the axes do not exist, or differ in number or length.

    Examples
    --------
    >>> tensordot([[1.0, 2.0]], [[3.0, 4.0]], ((1,), (1,))).numpy()
    array([[11.]])
    """
    x, y = as_tensor(x), as_tensor(y)
    if isinstance(axes, (int, np.integer)):
        axes = range(-int(axes), 0), range(int(axes))
    mine, theirs = axes
    mine = normalize_axes(tuple(mine), x.ndim, "tensordot")
    theirs = normalize_axes(tuple(theirs), y.ndim, "tensordot")
    inner = [x.shape[a] for a in mine]
    if inner != [y.shape[a] for a in theirs]:
        raise ShapeError(
            f"tensordot: axes {mine} of shape {x.shape} and {theirs} of shape {y.shape} differ in length"
        )
    n = len(mine)
    x = moveaxis(x, mine, tuple(range(-n, 0)))
    y = moveaxis(y, theirs, tuple(range(n)))
    rows, columns = x.shape[: x.ndim - n], y.shape[n:]
    size = math.prod(inner)
    product = matmul(reshape(x, (math.prod(rows), size)), reshape(y, (size, math.prod(columns))))
    return reshape(product, (*rows, *columns))


def diagonal(x: Any, offset: int = 0) -> Tensor:
    """Return the elements on a diagonal of the last two axes: the `offset`-th above the main one."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: expected at least 2 axes, got shape {x.shape}")
    n, m = x.shape[-2:]
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    start = max(offset, 0) + max(-offset, 0) * m
    # In the flat matrix they are at equal distances.
    places = slice(start, start + count * (m + 1), m + 1) if count else slice(0, 0)
    return bind(p.getitem, (flatten(x, -2),), {"index": (Ellipsis, places)})


def trace(x: Any, offset: int = 0) -> Tensor:
    """Return the sum of a diagonal of the last two axes: the `offset`-th above the main one."""
    return sum(diagonal(x, offset), -1)
