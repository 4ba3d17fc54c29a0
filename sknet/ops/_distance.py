"""Norms, directions, and distances between points."""

import math
from typing import Any

from sknet.core import Tensor, normalize_axes, normalize_axis
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import abs, equal, maximum, not_equal, sqrt, square, where
from sknet.ops._reduce import Axis, max, min, sum
from sknet.ops._rules import broadcast, floating
from sknet.ops._shape import broadcast_arrays, expand_dims

__all__ = ["cdist", "cosine_similarity", "norm", "normalize"]


def norm(x: Any, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""Return the `ord`-norm of vectors over `axis` (all axes for None).

    Parameters
    ----------
    x : Tensor or array
        Any shape; integers are converted to float64.
    ord : float, default=2
        Which norm: 1 for the sum of absolute values, ``math.inf`` for the largest of them, ``-math.inf``
        for the smallest, 0 for the number of elements that are not 0.
    axis : int, tuple of int or None, default=None
        Along which axes the elements of a vector are.
    keepdims : bool, default=False
        Whether reduced axes are kept with length 1.

    Returns
    -------
    Tensor
        :math:`(\sum |x|^\mathrm{ord})^{1 / \mathrm{ord}}`.

    Notes
    -----
    Elements that are 0 have a gradient of 0, as they have in PyTorch, also where the norm has a kink there.

    Examples
    --------
    >>> norm([[3.0, 4.0], [0.0, -2.0]], axis=-1).numpy()
    array([5., 2.])
    """
    x = floating(x)
    axes = normalize_axes(axis, x.ndim, "norm")
    if ord == 0:
        return sum(not_equal(x, 0), axes, keepdims).astype(x.dtype)
    if ord == 1:
        return sum(abs(x), axes, keepdims)
    if math.isinf(ord):
        return (max if ord > 0 else min)(abs(x), axes, keepdims)
    if ord == 2:
        total = sum(square(x), axes, keepdims)
        is_zero = equal(total, 0)
        return where(is_zero, 0.0, sqrt(where(is_zero, 1.0, total)))
    is_zero = equal(x, 0)
    powers = where(is_zero, 0.0 if ord > 0 else math.inf, abs(where(is_zero, 1.0, x)) ** float(ord))
    total = sum(powers, axes, keepdims)
    is_zero = equal(total, 0 if ord > 0 else math.inf)
    return where(is_zero, 0.0, where(is_zero, 1.0, total) ** (1.0 / ord))


def normalize(x: Any, ord: float = 2, axis: Axis = -1, eps: float = 1e-12) -> Tensor:
    """Return x divided by its `ord`-norm over `axis`, or by `eps` where that is larger.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    ord : float, default=2
        Which norm, as for `norm`.
    axis : int, tuple of int or None, default=-1
        Along which axes the elements of a vector are.
    eps : float, default=1e-12
        The smallest divisor.

    Returns
    -------
    Tensor
        Of x's shape: unit vectors, and zeros where x is 0.

    Examples
    --------
    >>> normalize([[3.0, 4.0], [0.0, 0.0]]).numpy()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    tensor = floating(x)
    return tensor / maximum(norm(tensor, ord, axis, keepdims=True), eps)


def cosine_similarity(x: Any, y: Any, axis: int = -1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along `axis`.

    Parameters
    ----------
    x, y : Tensor or array
        They broadcast.
    axis : int, default=-1
        Along which axis of the broadcast arrays the elements of a vector are.
    eps : float, default=1e-8
        The smallest length by which is divided: the similarity of a vector of zeros is 0.

    Returns
    -------
    Tensor
        Between -1 and 1, without the axis.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast, or there is no such axis.

    Examples
    --------
    >>> cosine_similarity([[1.0, 0.0], [1.0, 1.0]], [2.0, 0.0]).numpy().round(3)
    array([1.   , 0.707])
    """
    x, y = floating(x), floating(y)
    at = normalize_axis(axis, len(broadcast("cosine_similarity", x, y)), "cosine_similarity")
    x, y = broadcast_arrays(x, y)
    return sum(normalize(x, axis=at, eps=eps) * normalize(y, axis=at, eps=eps), at)


def cdist(x: Any, y: Any, ord: float = 2) -> Tensor:
    """Return the distance of every point of x from every point of `y`.

    Parameters
    ----------
    x : Tensor or array of shape (..., n, k)
        Points with k coordinates; axes before those broadcast.
    y : Tensor or array of shape (..., m, k)
        More points.
    ord : float, default=2
        Which `norm` of the difference: 2 is the Euclidean distance, 1 that of city blocks.

    Returns
    -------
    Tensor of shape (..., n, m)
        Where two points are the same, the gradient is 0.

    Raises
    ------
    ShapeError
        If the numbers of coordinates differ.

    Notes
    -----
    Differences are computed one by one, and so exactly, in memory for n * m * k numbers.

    Examples
    --------
    >>> cdist([[0.0, 0.0], [3.0, 4.0]], [[0.0, 1.0], [3.0, 0.0], [0.0, 0.0]]).numpy().round(2)
    array([[1.  , 3.  , 0.  ],
           [4.24, 4.  , 5.  ]])
    """
    x, y = floating(x), floating(y)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ShapeError(
            f"cdist: expected points of shapes (..., n, k) and (..., m, k), got {x.shape} and {y.shape}"
        )
    # Without coordinates all distances are 0, whereas no element has a largest.
    return norm(expand_dims(x, -2) - expand_dims(y, -3), ord if x.shape[-1] else 1, -1)
