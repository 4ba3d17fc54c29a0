"""Sorting, searching and quantiles."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, TracedArray, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as kinds
from sknet.device import Namespace, backend_of, device_of
from sknet.exceptions import CaptureError, ShapeError
from sknet.ops._elementwise import isnan, lerp, where
from sknet.ops._indexing import put_along_axis, take_along_axis
from sknet.ops._reduce import Axis, reduced
from sknet.ops._rules import floating
from sknet.ops._shape import flip, moveaxis, reshape, stack

__all__ = ["argsort", "median", "nonzero", "quantile", "searchsorted", "sort", "topk", "unique_values"]


FEW = 64  # up to this many elements, all are sorted to find the largest


# -- sorting ----------------------------------------------------------------------------------


def _sort_forward(xp: Namespace, x: Any, *, axis: int, out: Any = None) -> Any:
    if out is None:
        return xp.sort(x, axis)
    out[...] = x
    out.sort(axis)
    return out


_sort = Primitive("sort").define(
    forward=_sort_forward,
    shape=lambda x, axis: (x.shape, x.dtype),
    params={"axis": kinds.AXIS},
    # The order is computed again, so that a sort that is not differentiated need not compute it.
    vjp=(lambda g, _, x, axis: put_along_axis(g, argsort(x, axis), x.shape[axis], axis),),
)


def _argsort_forward(xp: Namespace, x: Any, *, axis: int, descending: bool) -> Any:
    if not descending:
        return xp.argsort(x, axis, kind="stable")
    # Reversed twice, so that equal elements keep their order.
    order = xp.flip(xp.argsort(xp.flip(x, axis), axis, kind="stable"), axis)
    return x.shape[axis] - 1 - order


_argsort = Primitive("argsort").define(
    forward=_argsort_forward,
    shape=lambda x, axis, descending: (x.shape, np.dtype(np.intp)),
    params={"axis": kinds.AXIS, "descending": kinds.FLAG},
    vjp=None,
    writes_out=False,
)


def sort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """Return x with its elements along `axis` in ascending or `descending` order; NaN counts as largest."""
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "sort")
    out = bind(_sort, (x,), {"axis": at})
    return flip(out, at) if descending else out


def argsort(x: Any, axis: int = -1, descending: bool = False) -> Tensor:
    """Return the indices that sort x along `axis`, `descending` or not; equal elements keep their order."""
    x = as_tensor(x)
    return bind(_argsort, (x,), {"axis": normalize_axis(axis, x.ndim, "argsort"), "descending": descending})


def _topk_forward(xp: Namespace, x: Any, *, k: int, axis: int, largest: bool) -> Any:
    x = xp.moveaxis(x, axis, -1)
    if x.shape[-1] <= FEW or not k:
        order = _argsort_forward(xp, x, axis=-1, descending=largest)
        return xp.moveaxis(order[..., :k], -1, axis)
    is_nan = x != x
    last = _element_of_order(xp, x, is_nan, x.shape[-1] - k if largest else k - 1)
    last_is_nan = last != last
    # All that come before the last one chosen, and of its equals the first, as many as are missing.
    before = (x > last) | (is_nan & ~last_is_nan) if largest else (x < last) | (last_is_nan & ~is_nan)
    equals = (x == last) | (is_nan & last_is_nan)
    places = k - xp.sum(before, axis=-1, keepdims=True)
    chosen = before | (equals & (xp.cumsum(equals, axis=-1) <= places))
    found = xp.argsort(~chosen, -1, kind="stable")[..., :k]  # nonzero would synchronise a GPU
    values = xp.take_along_axis(x, found, -1)
    order = _argsort_forward(xp, values, axis=-1, descending=largest)
    return xp.moveaxis(xp.take_along_axis(found, order, -1), -1, axis)


def _element_of_order(xp: Namespace, x: Any, is_nan: Any, at: int) -> Any:
    """Return the element that would be at `at` on the last axis if x were sorted."""
    if x.dtype.kind != "f":
        return xp.partition(x, at, -1)[..., at : at + 1]
    # CuPy's partition does not order NaN: it is replaced by infinity, which sorts last but for NaN.
    found = xp.partition(xp.where(is_nan, math.inf, x), at, -1)[..., at : at + 1]
    n_real = x.shape[-1] - xp.sum(is_nan, axis=-1, keepdims=True)
    return xp.where(at < n_real, found, math.nan)


def _topk_shape(x: Any, k: int, axis: int, largest: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape = list(x.shape)
    shape[axis] = k
    return tuple(shape), np.dtype(np.intp)


_topk = Primitive("topk").define(
    forward=_topk_forward,
    shape=_topk_shape,
    params={"k": kinds.LENGTH, "axis": kinds.AXIS, "largest": kinds.FLAG},
    vjp=None,
    writes_out=False,
)


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """Return the k largest elements along an axis in descending order, and their indices.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    k : int
        Number of elements.
    axis : int, default=-1
        Axis along which to search.
    largest : bool, default=True
        Whether to return the largest, or the smallest in ascending order.

    Returns
    -------
    values, indices : Tensor
        Shape of x, with length k along the axis. Of equal elements the first are taken.

    Raises
    ------
    ShapeError
        If there are fewer than k elements.

    Examples
    --------
    >>> values, indices = topk([0.2, 0.7, 0.1, 0.7], 2)
    >>> values.numpy(), indices.numpy()
    (array([0.7, 0.7]), array([1, 3]))
    """
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "topk")
    if not 0 <= k <= x.shape[at]:
        raise ShapeError(f"topk: k is {k}, and axis {axis} of shape {x.shape} has {x.shape[at]} elements")
    indices = bind(_topk, (x,), {"k": k, "axis": at, "largest": largest})
    return take_along_axis(x, indices, at), indices


# -- searching --------------------------------------------------------------------------------


def _search_shape(x: Any, values: Any, side: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if len(x.shape) != 1:
        raise ShapeError(f"searchsorted: expected a sorted array of one axis, got shape {tuple(x.shape)}")
    return tuple(values.shape), np.dtype(np.intp)


def _search_forward(xp: Namespace, x: Any, values: Any, *, side: str) -> Any:
    return xp.searchsorted(x, values, side)


_searchsorted = Primitive("searchsorted").define(
    forward=_search_forward,
    shape=_search_shape,
    params={"side": kinds.one_of("left", "right")},
    vjp=None,
    writes_out=False,
)


def searchsorted(x: Any, values: Any, side: str = "left") -> Tensor:
    """Return the indices at which to insert `values` into the sorted x to keep it sorted.

    Parameters
    ----------
    x : Tensor or array of shape (n,)
        In ascending order.
    values : Tensor or array
        Any shape.
    side : {"left", "right"}, default="left"
        Whether before or after elements that are equal.

    Returns
    -------
    Tensor of int
        Indices between 0 and n, with the shape of `values`.

    Raises
    ------
    ShapeError, ValueError
        If x does not have exactly one axis, or `side` is neither.

    Examples
    --------
    >>> searchsorted([1.0, 2.0, 2.0, 3.0], [2.0, 0.5]).numpy()
    array([1, 0])
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {shown(side)}")
    return bind(_searchsorted, (as_tensor(x), as_tensor(values)), {"side": side})


# -- where values decide the shape ------------------------------------------------------------


def _values_of(name: str, x: Any) -> Any:
    array = as_tensor(x).data
    if isinstance(array, TracedArray):
        raise CaptureError(
            f"{name}: the shape of the result depends on values, which a captured function does not have: "
            "use ops.where with a condition, or call it outside and pass the result"
        )
    return array


def nonzero(x: Any) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not 0, one array for each axis.

    The shape of the result depends on the values, so a captured function cannot call it.

    Parameters
    ----------
    x : Tensor or array
        An array with at least one axis.

    Returns
    -------
    tuple of Tensor of shape (n,)
        In the order of x in memory.

    Raises
    ------
    CaptureError
        In a captured function.
    ShapeError
        If x has no axis.

    Examples
    --------
    >>> [places.numpy().tolist() for places in nonzero([[0, 3], [1, 0]])]
    [[0, 1], [1, 0]]
    """
    array = _values_of("nonzero", x)
    if not array.shape:
        raise ShapeError("nonzero: expected at least 1 axis, got shape ()")
    owner = backend_of(array)
    with owner.activate(device_of(array)):
        return tuple([Tensor(places) for places in owner.xp.nonzero(array)])


def unique_values(x: Any) -> Tensor:
    """Return the distinct elements of x, in ascending order.

    The shape of the result depends on the values, so a captured function cannot call it.

    Parameters
    ----------
    x : Tensor or array
        Any shape.

    Returns
    -------
    Tensor of shape (n,)
        Same dtype as x.

    Raises
    ------
    CaptureError
        In a captured function.

    Examples
    --------
    >>> unique_values([[3, 1], [1, 2]]).numpy()
    array([1, 2, 3])
    """
    array = _values_of("unique_values", x)
    owner = backend_of(array)
    with owner.activate(device_of(array)):
        return Tensor(owner.xp.unique(array))


# -- quantiles --------------------------------------------------------------------------------

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
    q: float | Sequence[float] | Tensor,
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
        Axes over which to compute; None for all of them.
    keepdims : bool, default=False
        Whether reduced axes are kept with length 1.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}, default="linear"
        Interpolation of a quantile between two elements.

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
