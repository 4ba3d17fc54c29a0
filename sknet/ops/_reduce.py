"""Reductions over axes, cumulative sums and products, norms and distances."""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as kinds
from sknet.core import _primitive as p
from sknet.device import Namespace, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import abs, equal, maximum, not_equal, sqrt, square, where
from sknet.ops._rules import EveryOperand, astype_like, broadcast, floating
from sknet.ops._shape import (
    broadcast_arrays,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    full,
    moveaxis,
    ones_like,
    reshape,
    take_slice,
    zeros_like,
)

__all__ = [
    "all", "any", "argmax", "argmin", "cdist", "cosine_similarity", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "diff", "max", "mean", "min", "norm", "normalize", "prod", "std", "sum", "sum_squares",
    "var",
]  # fmt: skip


Axis = int | tuple[int, ...] | None
REDUCES = {"axis": kinds.AXES, "keepdims": kinds.FLAG}


def reduced(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a reduction of x over some (negative) axes."""
    gone = {a % len(x.shape) for a in axis}
    if keepdims:
        return tuple(1 if i in gone else n for i, n in enumerate(x.shape))
    return tuple(n for i, n in enumerate(x.shape) if i not in gone)


def spread(g: Tensor, x: Any, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Give `g`, the gradient of a reduction of x, x's number of axes back, so that it broadcasts."""
    return g if keepdims or not axis else reshape(g, reduced(x, axis, keepdims=True))


# -- sums -------------------------------------------------------------------------------------


def _sum_shape(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return reduced(x, axis, keepdims), np.add.reduce(np.empty(0, x.dtype)).dtype


p.total.define(
    forward="sum",
    shape=_sum_shape,
    params=REDUCES,
    vjp=(lambda g, _, x, axis, keepdims: broadcast_to(spread(g, x, axis, keepdims), x.shape),),
    saves="nothing",
)


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis` (all axes for None).

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return as_tensor(x).sum(axis, keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis` (all axes for None).

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return as_tensor(x).mean(axis, keepdims)


def var(x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the variance over `axis`: the sum of squared deviations over n - correction (NaN if that is 0).

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    tensor = as_tensor(x)
    axes = normalize_axes(axis, tensor.ndim, "var")
    deviation = tensor - tensor.mean(axes, keepdims=True)
    freedom = math.prod(tensor.shape[a] for a in axes) - correction
    total = sum(square(deviation), axes, keepdims)
    return total / freedom if freedom > 0 else total * math.nan


def std(x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation over `axis`: the root of the variance with the same `correction`.

    Where it is 0 its gradient is 0. If `keepdims` is true, reduced axes are kept with length 1.
    """
    tensor = as_tensor(x)
    variance = var(tensor, normalize_axes(axis, tensor.ndim, "std"), correction, keepdims)
    constant = equal(variance, 0)
    return where(constant, 0.0, sqrt(where(constant, 1.0, variance)))


def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the number of elements over `axis` that are not 0.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    flags = not_equal(x, 0)
    return sum(flags, normalize_axes(axis, flags.ndim, "count_nonzero"), keepdims)


def _sum_squares_forward(xp: Namespace, x: Any, *others: Any, out: Any = None) -> Any:
    total = xp.vdot(x, x)
    for other in others:
        total = total + xp.vdot(other, other)
    if out is None:
        return total
    out[...] = total
    return out


_sum_squares = Primitive("sum_squares").define(
    forward=_sum_squares_forward,
    shape=lambda *xs: ((), result_dtype(*xs)),
    vjp=EveryOperand(lambda g, xs, i: astype_like(xs[i] * (g * 2.0), xs[i])),
)


def sum_squares(*xs: Any) -> Tensor:
    """Return the sum of the squares of all elements of all `xs`, in one pass over memory."""
    if not xs:
        raise ShapeError("sum_squares: expected at least one tensor, got none")
    return bind(_sum_squares, tuple([as_tensor(x) for x in xs]), {})


# -- products ---------------------------------------------------------------------------------


def _products_of_others(x: Tensor) -> Tensor:
    """Return for every element along the last axis the product of all others, in log(n) passes."""
    n = x.shape[-1]
    if n == 1:
        return ones_like(x)
    half = n // 2
    low, high = take_slice(x, -1, 0, half), take_slice(x, -1, half, 2 * half)
    left = [take_slice(x, -1, 2 * half)] if n % 2 else []
    others = _products_of_others(concat([low * high, *left], -1))  # each lacks an element and its partner
    mine = take_slice(others, -1, 0, half)
    return concat([mine * high, mine * low, *([take_slice(others, -1, half)] if left else [])], -1)


def _prod_vjp(g: Tensor, _: Any, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    if not x.size or not axis:
        return zeros_like(x) if axis else g
    last = tuple(range(-len(axis), 0))
    moved = moveaxis(x, axis, last)
    flat = reshape(moved, (*moved.shape[: x.ndim - len(axis)], -1))
    others = moveaxis(reshape(_products_of_others(flat), moved.shape), last, axis)
    return others * spread(g, x, axis, keepdims)


_prod = Primitive("prod").define(
    forward="prod",
    shape=lambda x, axis, keepdims: (
        reduced(x, axis, keepdims),
        np.multiply.reduce(np.empty(0, x.dtype)).dtype,
    ),
    params=REDUCES,
    vjp=(_prod_vjp,),
)


def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the product over `axis` (all axes for None); elements may be 0, also for the gradient.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    x = as_tensor(x)
    return bind(_prod, (x,), {"axis": normalize_axes(axis, x.ndim, "prod"), "keepdims": keepdims})


# -- truth ------------------------------------------------------------------------------------


def _truth(name: str) -> Primitive:
    return Primitive(name).define(
        forward=name,
        shape=lambda x, axis, keepdims: (reduced(x, axis, keepdims), np.dtype(bool)),
        params=REDUCES,
        vjp=None,
    )


_any, _all = _truth("any"), _truth("all")


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether any element over `axis` (all axes for None) is true, or not 0.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    x = as_tensor(x)
    return bind(_any, (x,), {"axis": normalize_axes(axis, x.ndim, "any"), "keepdims": keepdims})


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over `axis` (all axes for None) are true, or not 0.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    x = as_tensor(x)
    return bind(_all, (x,), {"axis": normalize_axes(axis, x.ndim, "all"), "keepdims": keepdims})


# -- extrema ----------------------------------------------------------------------------------


def _extremum_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Share the gradient equally among all elements that attain the extremum."""
    attained = equal(x, spread(out, x, axis, keepdims))
    count = sum(attained.astype(g.dtype), axis, keepdims=True)
    return where(attained, spread(g, x, axis, keepdims) / count, 0.0)


def check_not_empty(name: str, x: Any, axis: tuple[int, ...]) -> None:
    """Raise if an operation would have to choose among no elements."""
    if 0 in [x.shape[a] for a in axis]:
        raise ShapeError(f"{name}: there is no element along axis {axis} of shape {tuple(x.shape)}")


def _extremum_shape(name: str) -> Any:
    def rule(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
        check_not_empty(name, x, axis)
        return reduced(x, axis, keepdims), x.dtype

    return rule


for _primitive in (p.maximum_of, p.minimum_of):
    _primitive.define(
        forward=_primitive.name,
        shape=_extremum_shape(_primitive.name),
        params=REDUCES,
        vjp=(_extremum_vjp,),
        saves="both",
    )


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over `axis`; equal ones share the gradient.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return as_tensor(x).max(axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over `axis`; equal ones share the gradient.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return as_tensor(x).min(axis, keepdims)


def _place(name: str) -> Primitive:
    return Primitive(name).define(
        forward=name,
        shape=lambda x, axis: (_extremum_shape(name)(x, (axis,), False)[0], np.dtype(np.intp)),
        params={"axis": kinds.AXIS},
        vjp=None,
    )


_argmax, _argmin = _place("argmax"), _place("argmin")


def _place_of(primitive: Primitive, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    if axis is None:
        found = bind(primitive, (reshape(x, (-1,)),), {"axis": -1})
        return reshape(found, (1,) * x.ndim) if keepdims else found
    at = normalize_axis(axis, x.ndim, primitive.name)
    return spread(bind(primitive, (x,), {"axis": at}), x, (at,) if keepdims else (), False)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest element along `axis`; for None, in x flattened.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return _place_of(_argmax, x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest element along `axis`; for None, in x flattened.

    If `keepdims` is true, reduced axes are kept with length 1.
    """
    return _place_of(_argmin, x, axis, keepdims)


# -- sums, products and differences along an axis ---------------------------------------------


def _dtype_of(ufunc: np.ufunc) -> Any:
    return lambda x, axis: (x.shape, ufunc.reduce(np.empty(0, x.dtype)).dtype)


_cumsum = Primitive("cumulative_sum").define(
    forward="cumsum",
    shape=_dtype_of(np.add),
    params={"axis": kinds.AXIS},
    vjp=(lambda g, _, x, axis: flip(cumulative_sum(flip(g, axis), axis), axis),),
    saves="nothing",
)


def _cumprod_vjp(g: Tensor, _: Any, x: Tensor, axis: int) -> Tensor:
    """Return the product of what came before, times r where r[i] = g[i] + x[i + 1] * r[i + 1]."""
    n = x.shape[axis]
    if n < 2:
        return g
    one = full((*x.shape[: x.ndim + axis], 1, *x.shape[x.ndim + axis + 1 :]), 1, x.dtype, x.device)
    rest, factor, reach = g, take_slice(x, axis, 1), 1
    while reach < n:
        ahead = take_slice(rest, axis, reach)
        rest = concat(
            [take_slice(rest, axis, 0, n - reach) + factor * ahead, take_slice(rest, axis, n - reach)], axis
        )
        if 2 * reach < n:
            factor = take_slice(factor, axis, 0, n - 2 * reach) * take_slice(factor, axis, reach)
        reach *= 2
    before = cumulative_prod(concat([one, take_slice(x, axis, 0, n - 1)], axis), axis)
    return before * rest


_cumprod = Primitive("cumulative_prod").define(
    forward="cumprod", shape=_dtype_of(np.multiply), params={"axis": kinds.AXIS}, vjp=(_cumprod_vjp,)
)


def _scan(primitive: Primitive, x: Any, axis: int | None, start: int | None) -> Tensor:
    x, name = as_tensor(x), primitive.name
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{name}: of shape {x.shape}, give the axis")
    at = normalize_axis(-1 if axis is None else axis, x.ndim, name)
    out = bind(primitive, (x,), {"axis": at})
    if start is None:
        return out
    first = full((*x.shape[: x.ndim + at], 1, *x.shape[x.ndim + at + 1 :]), start, out.dtype, out.device)
    return concat([first, out], at)


def cumulative_sum(x: Any, axis: int | None = None, include_initial: bool = False) -> Tensor:
    """Return the cumulative sums along `axis`, which may be omitted if x has only one.

    `include_initial` puts the sum of no elements, 0, in front.
    """
    return _scan(_cumsum, x, axis, 0 if include_initial else None)


def cumulative_prod(x: Any, axis: int | None = None, include_initial: bool = False) -> Tensor:
    """Return the cumulative products along `axis`, which may be omitted if x has only one.

    Elements may be 0, also for the gradient. `include_initial` puts the product of no elements, 1, in front.
    """
    return _scan(_cumprod, x, axis, 1 if include_initial else None)


def _end(x: Any, like: Tensor, axis: int) -> Tensor:
    """Return what is joined to a tensor along an axis; a number is broadcast to one step along it."""
    x = as_tensor(x)
    shape = list(like.shape)
    shape[axis] = 1
    return x if x.ndim else broadcast_to(x, tuple(shape))


def diff(x: Any, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Return x[i + 1] - x[i] along `axis`, repeated `n` times; for booleans, whether neighbours differ.

    `prepend` and `append`, of x's shape outside the axis or single numbers, are joined to x first, unless
    n is 0: then the result is x itself.
    """
    out = as_tensor(x)
    at = normalize_axis(axis, out.ndim, "diff")
    if n < 0:
        raise ValueError(f"diff: n must not be negative, got {n}")
    if n == 0:
        return out
    before, after = [[] if x is None else [_end(x, out, at)] for x in (prepend, append)]
    if before or after:
        out = concat([*before, out, *after], at)
    length = out.shape[at]
    for _ in range(n if n < length else length):  # then nothing is left
        later, earlier = take_slice(out, at, 1), take_slice(out, at, 0, -1)
        out = not_equal(later, earlier) if out.dtype == bool else later - earlier
    return out


# -- norms and distances ----------------------------------------------------------------------


def norm(x: Any, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    r"""Return the `ord`-norm of vectors over `axis` (all axes for None).

    Parameters
    ----------
    x : Tensor or array
        Any shape; integers are converted to float64.
    ord : float, default=2
        Order of the norm: 1 for the sum of absolute values, ``math.inf`` for the largest of them,
        ``-math.inf`` for the smallest, 0 for the number of elements that are not 0.
    axis : int, tuple of int or None, default=None
        Axis or axes along which the elements of a vector are.
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
        Order of the norm, as for `norm`.
    axis : int, tuple of int or None, default=-1
        Axis or axes along which the elements of a vector are.
    eps : float, default=1e-12
        The smallest divisor.

    Returns
    -------
    Tensor
        Same shape as x: unit vectors, and zeros where x is 0.

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
        Axis of the broadcast arrays along which the elements of a vector are.
    eps : float, default=1e-8
        The smallest divisor for a length, so that the similarity of a vector of zeros is 0.

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
        Order of the `norm` of differences: 2 is the Euclidean distance, 1 the Manhattan distance.

    Returns
    -------
    Tensor of shape (..., n, m)
        The distances; for equal points the gradient is 0.

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
