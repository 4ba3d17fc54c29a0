"""Softmax and its relatives, shifted so that nothing overflows."""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace
from sknet.ops._elementwise import exp
from sknet.ops._reduce import reduced, spread, sum
from sknet.ops._rules import check_floating

__all__ = ["log_softmax", "logsumexp", "softmax"]

Axes = tuple[int, ...]


def _difference(xp: Namespace, x: Any, top: Any, out: Any) -> Any:
    """Return ``x - top``, C-contiguous whatever x is: sums over another layout round differently."""
    return xp.subtract(x, top, out=xp.empty(x.shape, dtype=x.dtype) if out is None else out)


def _logsumexp_forward(xp: Namespace, x: Any, *, axis: Axes, keepdims: bool, out: Any = None) -> Any:
    if not x.size:  # the sum of no elements is 0
        check_floating("logsumexp", x)
        out = xp.empty(reduced(x, axis, keepdims), dtype=x.dtype) if out is None else out
        out.fill(-math.inf)
        return out
    top = xp.asarray(xp.max(x, axis=axis, keepdims=True))
    top[~xp.isfinite(top)] = 0  # all -inf: exp(-inf - 0) sums to 0, and its log is -inf again
    shifted = _difference(xp, x, top, None)
    total = xp.log(xp.sum(xp.exp(shifted, out=shifted), axis=axis, keepdims=True))
    total += top
    if out is None:
        return total if keepdims else xp.squeeze(total, axis)
    out[...] = total.reshape(out.shape)
    return out


def _softmax_shape(name: str) -> Any:
    def shape(x: Any, axis: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        check_floating(name, x)
        return x.shape, x.dtype

    return shape


def _logsumexp_shape(x: Any, axis: Axes, keepdims: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    check_floating("logsumexp", x)
    return reduced(x, axis, keepdims), x.dtype


_logsumexp = Primitive("logsumexp").define(
    forward=_logsumexp_forward,
    shape=_logsumexp_shape,
    params={"axis": kinds.AXES, "keepdims": kinds.FLAG},
    vjp=(
        lambda g, out, x, axis, keepdims: (
            exp(x - spread(out, x, axis, keepdims)) * spread(g, x, axis, keepdims)
        ),
    ),
    saves="both",
)


def _nothing(name: str, x: Any, out: Any) -> Any:
    """Return an array without elements."""
    check_floating(name, x)
    return x.copy() if out is None else out


def _softmax_forward(xp: Namespace, x: Any, *, axis: int, out: Any = None) -> Any:
    if not x.size:
        return _nothing("softmax", x, out)
    out = _difference(xp, x, xp.max(x, axis=axis, keepdims=True), out)
    xp.exp(out, out=out)
    out /= xp.sum(out, axis=axis, keepdims=True)
    return out


_softmax = Primitive("softmax").define(
    forward=_softmax_forward,
    shape=_softmax_shape("softmax"),
    params={"axis": kinds.AXIS},
    vjp=(lambda g, out, x, axis: out * (g - sum(g * out, axis, keepdims=True)),),
    saves="output",
    overwrites=(0,),
)


def _log_softmax_forward(xp: Namespace, x: Any, *, axis: int, out: Any = None) -> Any:
    if not x.size:
        return _nothing("log_softmax", x, out)
    out = _difference(xp, x, xp.max(x, axis=axis, keepdims=True), out)
    out -= xp.log(xp.sum(xp.exp(out), axis=axis, keepdims=True))
    return out


_log_softmax = Primitive("log_softmax").define(
    forward=_log_softmax_forward,
    shape=_softmax_shape("log_softmax"),
    params={"axis": kinds.AXIS},
    vjp=(lambda g, out, x, axis: g - exp(out) * sum(g, axis, keepdims=True),),
    saves="output",
    overwrites=(0,),
)


def logsumexp(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over `axis`, shifted by the largest element so that nothing overflows.

    `axis` is one axis, several, or None for all; `keepdims` keeps them with length 1. For no elements the
    result is -inf.
    """
    x = as_tensor(x)
    axes = normalize_axes(axis, x.ndim, "logsumexp")
    return bind(_logsumexp, (x,), {"axis": axes, "keepdims": keepdims})


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along `axis`, shifted by the largest element so that nothing overflows."""
    x = as_tensor(x)
    return bind(_softmax, (x,), {"axis": normalize_axis(axis, x.ndim, "softmax")})


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """Return log(softmax(x)) along `axis`, finite where the softmax underflows."""
    x = as_tensor(x)
    return bind(_log_softmax, (x,), {"axis": normalize_axis(axis, x.ndim, "log_softmax")})
