"""Softmax and its relatives, shifted so that nothing overflows."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axis
from sknet.ops._elementwise import exp
from sknet.ops._reduce import check_not_empty, reduced, spread, sum
from sknet.ops._rules import check_floating

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _logsumexp_forward(xp: Any, x: Any, *, axis: int, keepdims: bool, out: Any = None) -> Any:
    top = xp.max(x, axis=axis, keepdims=True)
    top[~xp.isfinite(top)] = 0  # all -inf: exp(-inf - 0) sums to 0, and its log is -inf again
    shifted = x - top
    total = xp.log(xp.sum(xp.exp(shifted, out=shifted), axis=axis, keepdims=True))
    total += top
    if out is None:
        return total if keepdims else xp.squeeze(total, axis)
    out[...] = total.reshape(out.shape)
    return out


def _softmax_shape(name: str) -> Any:
    def shape(x: Any, axis: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        check_floating(name, x)
        check_not_empty(name, x, (axis,))
        return x.shape, x.dtype

    return shape


def _logsumexp_shape(x: Any, axis: int, keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    check_floating("logsumexp", x)
    check_not_empty("logsumexp", x, (axis,))
    return reduced(x, (axis,), keepdims), x.dtype


_logsumexp = Primitive("logsumexp").define(
    forward=_logsumexp_forward,
    shape=_logsumexp_shape,
    vjp=(
        lambda g, out, x, axis, keepdims: (
            exp(x - spread(out, x, (axis,), keepdims)) * spread(g, x, (axis,), keepdims)
        ),
    ),
    saves="both",
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
    overwrites=(0,),
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
    overwrites=(0,),
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
