"""Reductions over axes."""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as p
from sknet.device import result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import equal, exp, square
from sknet.ops._rules import EveryOperand, astype_like, check_floating
from sknet.ops._shape import broadcast_to, reshape

__all__ = ["argmax", "log_softmax", "logsumexp", "max", "mean", "min", "softmax", "sum", "sum_squares", "var"]

Axis = int | tuple[int, ...] | None


def _reduced(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    gone = {a % len(x.shape) for a in axis}
    if keepdims:
        return tuple(1 if i in gone else n for i, n in enumerate(x.shape))
    return tuple(n for i, n in enumerate(x.shape) if i not in gone)


def _spread(g: Tensor, x: Any, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Give `g`, the gradient of a reduction of x, x's number of axes back, so that it broadcasts."""
    return g if keepdims or not axis else reshape(g, _reduced(x, axis, keepdims=True))


# -- sums -------------------------------------------------------------------------------------


def _sum_shape(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return _reduced(x, axis, keepdims), np.add.reduce(np.empty(0, x.dtype)).dtype


p.total.define(
    forward="sum",
    shape=_sum_shape,
    vjp=(lambda g, _, x, axis, keepdims: broadcast_to(_spread(g, x, axis, keepdims), x.shape),),
    saves="nothing",
)


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum over `axis` (all axes for None).

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    return as_tensor(x).sum(axis, keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the mean over `axis` (all axes for None).

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    return as_tensor(x).mean(axis, keepdims)


def var(x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """Return the variance over `axis`: the sum of squared deviations over n - correction (NaN if that is 0).

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    tensor = as_tensor(x)
    axes = normalize_axes(axis, tensor.ndim, "var")
    deviation = tensor - tensor.mean(axes, keepdims=True)
    freedom = math.prod(tensor.shape[a] for a in axes) - correction
    total = sum(square(deviation), axes, keepdims)
    return total / freedom if freedom > 0 else total * math.nan


def _sum_squares_forward(xp: Any, x: Any, *others: Any) -> Any:
    total = xp.vdot(x, x)
    for other in others:
        total = total + xp.vdot(other, other)
    return total


_sum_squares = Primitive("sum_squares").define(
    forward=_sum_squares_forward,
    shape=lambda *xs: ((), result_dtype(*xs)),
    vjp=EveryOperand(lambda g, xs, i: astype_like(xs[i] * (g * 2.0), xs[i])),
    writes_out=False,
)


def sum_squares(*xs: Any) -> Tensor:
    """Return the sum of the squares of all elements of all `xs`, in one pass over memory."""
    if not xs:
        raise ShapeError("sum_squares: expected at least one tensor, got none")
    return bind(_sum_squares, tuple([as_tensor(x) for x in xs]), {})


# -- extrema ----------------------------------------------------------------------------------


def _extremum_vjp(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Share the gradient equally among all elements that attain the extremum."""
    attained = equal(x, _spread(out, x, axis, keepdims)).astype(g.dtype)
    return attained * (_spread(g, x, axis, keepdims) / sum(attained, axis, keepdims=True))


def check_not_empty(name: str, x: Any, axis: tuple[int, ...]) -> None:
    """Raise where an operation would have to choose among no elements."""
    if any(x.shape[a] == 0 for a in axis):
        raise ShapeError(f"{name}: there is no element along axis {axis} of shape {tuple(x.shape)}")


def _extremum_shape(name: str) -> Any:
    def rule(x: Any, axis: tuple[int, ...], keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
        check_not_empty(name, x, axis)
        return _reduced(x, axis, keepdims), x.dtype

    return rule


for _primitive in (p.maximum_of, p.minimum_of):
    _primitive.define(
        forward=_primitive.name,
        shape=_extremum_shape(_primitive.name),
        vjp=(_extremum_vjp,),
        saves="both",
    )


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the largest element over `axis`; equal ones share the gradient.

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    return as_tensor(x).max(axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the smallest element over `axis`; equal ones share the gradient.

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    return as_tensor(x).min(axis, keepdims)


_argmax = Primitive("argmax").define(
    forward="argmax",
    shape=lambda x, axis: (_extremum_shape("argmax")(x, (axis,), False)[0], np.dtype(np.intp)),
    vjp=None,
)


def argmax(x: Any, axis: int = -1) -> Tensor:
    """Return the index of the first largest element along `axis`."""
    x = as_tensor(x)
    return bind(_argmax, (x,), {"axis": normalize_axis(axis, x.ndim, "argmax")})


# -- softmax and its relatives ----------------------------------------------------------------


def _logsumexp_forward(xp: Any, x: Any, *, axis: int, keepdims: bool) -> Any:
    top = xp.max(x, axis=axis, keepdims=True)
    top[~xp.isfinite(top)] = 0  # all -inf: exp(-inf - 0) sums to 0, and its log is -inf again
    shifted = x - top
    out = xp.log(xp.sum(xp.exp(shifted, out=shifted), axis=axis, keepdims=True))
    out += top
    return out if keepdims else xp.squeeze(out, axis)


def _softmax_shape(name: str) -> Any:
    def shape(x: Any, axis: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        check_floating(name, x)
        check_not_empty(name, x, (axis,))
        return x.shape, x.dtype

    return shape


def _logsumexp_shape(x: Any, axis: int, keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    check_floating("logsumexp", x)
    check_not_empty("logsumexp", x, (axis,))
    return _reduced(x, (axis,), keepdims), x.dtype


_logsumexp = Primitive("logsumexp").define(
    forward=_logsumexp_forward,
    shape=_logsumexp_shape,
    vjp=(
        lambda g, out, x, axis, keepdims: (
            exp(x - _spread(out, x, (axis,), keepdims)) * _spread(g, x, (axis,), keepdims)
        ),
    ),
    saves="both",
    writes_out=False,
)


def _softmax_forward(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    out = xp.subtract(x, xp.max(x, axis=axis, keepdims=True), out=out)
    xp.exp(out, out=out)
    out /= xp.sum(out, axis=axis, keepdims=True)
    return out


_softmax = Primitive("softmax").define(
    forward=_softmax_forward,
    shape=_softmax_shape("softmax"),
    vjp=(lambda g, out, x, axis: out * (g - sum(g * out, axis, keepdims=True)),),
    saves="output",
)


def _log_softmax_forward(xp: Any, x: Any, *, axis: int, out: Any = None) -> Any:
    out = xp.subtract(x, xp.max(x, axis=axis, keepdims=True), out=out)
    out -= xp.log(xp.sum(xp.exp(out), axis=axis, keepdims=True))
    return out


_log_softmax = Primitive("log_softmax").define(
    forward=_log_softmax_forward,
    shape=_softmax_shape("log_softmax"),
    vjp=(lambda g, out, x, axis: g - exp(out) * sum(g, axis, keepdims=True),),
    saves="output",
)


def logsumexp(x: Any, axis: int = -1, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) along `axis`, shifted by the largest element so that nothing overflows.

    `keepdims` leaves in the axes that are gone over, with length 1.
    """
    x = as_tensor(x)
    return bind(_logsumexp, (x,), {"axis": normalize_axis(axis, x.ndim, "logsumexp"), "keepdims": keepdims})


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along `axis`, shifted by the largest element so that nothing overflows."""
    x = as_tensor(x)
    return bind(_softmax, (x,), {"axis": normalize_axis(axis, x.ndim, "softmax")})


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """Return log(softmax(x)) along `axis`, finite where the softmax underflows."""
    x = as_tensor(x)
    return bind(_log_softmax, (x,), {"axis": normalize_axis(axis, x.ndim, "log_softmax")})
