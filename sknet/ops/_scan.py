"""Sums, products and differences along an axis, element after element."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axis
from sknet.core.extend import param_kinds as kinds
from sknet.exceptions import ShapeError
from sknet.ops._create import full
from sknet.ops._elementwise import not_equal
from sknet.ops._join import concat, flip, take_slice
from sknet.ops._shape import broadcast_to

__all__ = ["cumulative_prod", "cumulative_sum", "diff"]


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
    for _ in range(n):
        later, earlier = take_slice(out, at, 1), take_slice(out, at, 0, -1)
        out = not_equal(later, earlier) if out.dtype == bool else later - earlier
    return out
