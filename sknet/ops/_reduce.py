"""Reductions over axes."""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._create import ones_like, zeros_like
from sknet.ops._elementwise import equal, not_equal, sqrt, square, where
from sknet.ops._join import concat, take_slice
from sknet.ops._rules import EveryOperand, astype_like
from sknet.ops._shape import broadcast_to, moveaxis, reshape

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std", "sum",
    "sum_squares", "var",
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
    """Return how many elements over `axis` are not 0.

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
    attained = equal(x, spread(out, x, axis, keepdims)).astype(g.dtype)
    return attained * (spread(g, x, axis, keepdims) / sum(attained, axis, keepdims=True))


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
