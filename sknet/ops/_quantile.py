"""Quantiles and the median."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Tensor, normalize_axes
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import where
from sknet.ops._join import stack
from sknet.ops._logical import isnan
from sknet.ops._reduce import Axis, reduced
from sknet.ops._rules import floating
from sknet.ops._select import lerp
from sknet.ops._shape import moveaxis, reshape
from sknet.ops._sort import sort

__all__ = ["median", "quantile"]

# The position that a method takes for one between two elements.
METHODS: dict[str, Callable[[float], float]] = {
    "linear": float,
    "lower": math.floor,
    "higher": math.ceil,
    "midpoint": lambda place: (math.floor(place) + math.ceil(place)) / 2,
    "nearest": round,
}


def quantile(
    x: Any,
    q: float | Sequence[float] | Any,
    axis: Axis = None,
    keepdims: bool = False,
    method: str = "linear",
) -> Tensor:
    """Return quantiles: the values below which the fractions `q` of all elements over `axis` are.

    Parameters
    ----------
    x : Tensor or array
        Any shape; integers are converted to float64.
    q : float, or array-like of float
        Fractions between 0 and 1, known before the computation.
    axis : int, tuple of int or None, default=None
        Over which axes; None is all of them.
    keepdims : bool, default=False
        Whether reduced axes are kept with length 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, default="linear"
        What is returned where a quantile is between two elements.

    Returns
    -------
    Tensor
        With the axes of `q` first. NaN where an element is NaN.

    Raises
    ------
    ValueError
        If a fraction is not between 0 and 1, or there is no such method.
    ShapeError
        If there is no element.

    Examples
    --------
    >>> quantile([3.0, 1.0, 2.0, 5.0], [0.0, 0.5, 1.0]).numpy()
    array([1. , 2.5, 5. ])
    """
    if method not in METHODS:
        raise ValueError(f"quantile: method must be one of {list(METHODS)}, got {shown(method)}")
    parts = np.asarray(q.numpy() if isinstance(q, Tensor) else q, np.float64)
    if not ((parts >= 0) & (parts <= 1)).all():
        raise ValueError(f"quantile: q must be between 0 and 1, got {shown(q)}")
    x = floating(x)
    axes = normalize_axes(axis, x.ndim, "quantile")
    left = reduced(x, axes, False)
    n = math.prod(x.shape[a] for a in axes)
    if not n:
        raise ShapeError(f"quantile: there is no element along axis {axes} of shape {x.shape}")
    row = sort(reshape(moveaxis(x, axes, tuple(range(-len(axes), 0))), (*left, n)))
    found = [_element(row, place, METHODS[method]) for place in parts.ravel() * (n - 1)]
    values = where(isnan(row[..., n - 1]), math.nan, stack(found)) if found else row[..., :0]
    return reshape(values, (*parts.shape, *(reduced(x, axes, True) if keepdims else left)))


def _element(row: Tensor, place: float, rule: Callable[[float], float]) -> Tensor:
    """Return the value at a position of the last, sorted axis, which may be between two elements."""
    place = rule(place)
    low = math.floor(place)
    return lerp(row[..., low], row[..., low + 1], place - low) if place > low else row[..., low]


def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the middle element over `axis`, or the mean of the two in the middle.

    PyTorch's function of this name takes the lower of the two. `keepdims` keeps reduced axes with length 1.

    Raises
    ------
    ShapeError
        If there is no element.

    Examples
    --------
    >>> median([[4.0, 1.0, 2.0], [3.0, 3.0, 9.0]], axis=1).numpy()
    array([2., 3.])
    """
    return quantile(x, 0.5, axis, keepdims)
