"""Activation functions, softmax and its relatives, written so that no argument overflows."""

import math
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as kinds
from sknet.device import Namespace
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import (
    abs,
    add,
    clip,
    divide,
    erfc,
    exp,
    expm1,
    greater,
    less,
    multiply,
    sigmoid,
    square,
    tanh,
    where,
)
from sknet.ops._reduce import reduced, spread, sum
from sknet.ops._rules import ShapeRule, check_floating, floating, like, unary, unbroadcast
from sknet.ops._shape import take_slice

__all__ = [
    "celu", "elu", "gelu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid",
    "log_softmax", "logsumexp", "mish", "prelu", "relu", "relu6", "selu", "silu", "softmax", "softplus",
    "softsign",
]  # fmt: skip


SELU_ALPHA, SELU_SCALE = (
    1.6732632423543772,
    1.0507009873554805,
)  # Klambauer et al., 2017, fixed point of (0, 1)

_relu = Primitive("relu").define(
    forward=lambda xp, x, out=None: xp.maximum(x, 0, out=out),
    shape=like(np.maximum, "relu", 0),
    vjp=(lambda g, out, x: where(greater(out, 0), g, 0.0),),
    saves="output",
    expression="0 if x <= 0 else x",
)


def _tail(xp: Namespace, x: Any) -> Any:
    """Return log(1 + exp(-|x|)), what softplus adds to max(x, 0): between 0 and log(2)."""
    tail = xp.absolute(x, out=xp.empty_like(x))
    xp.negative(tail, out=tail)
    xp.exp(tail, out=tail)
    return xp.log1p(tail, out=tail)


def _floating_shape(name: str) -> Any:
    def rule(x: Any) -> tuple[tuple[int, ...], Any]:
        check_floating(name, x)
        return x.shape, x.dtype

    return rule


_log_sigmoid = Primitive("log_sigmoid").define(
    forward=lambda xp, x, out=None: xp.subtract(xp.minimum(x, 0), _tail(xp, x), out=out),
    shape=_floating_shape("log_sigmoid"),
    vjp=(lambda g, _, x: g * sigmoid(-x),),
    expression="(x if x < 0 else 0) - log1p(exp(-abs(x)))",
)
_softplus = Primitive("softplus").define(
    forward=lambda xp, x, out=None: xp.add(xp.maximum(x, 0), _tail(xp, x), out=out),
    shape=_floating_shape("softplus"),
    vjp=(lambda g, _, x: g * sigmoid(x),),
    expression="(x if x > 0 else 0) + log1p(exp(-abs(x)))",
)


def relu(x: Any) -> Tensor:
    """Return max(x, 0); its gradient at 0 is 0 (Nair & Hinton, 2010)."""
    return unary(_relu, x)


def relu6(x: Any) -> Tensor:
    """Return x limited to [0, 6] (Krizhevsky, 2010)."""
    return clip(x, 0.0, 6.0)


def hardtanh(x: Any, min: float = -1.0, max: float = 1.0) -> Tensor:
    """Return x limited to [min, max], a piecewise tanh (Collobert, 2004)."""
    return clip(x, min, max)


def hardsigmoid(x: Any) -> Tensor:
    """Return clip(x + 3, 0, 6) / 6, a piecewise sigmoid (Courbariaux et al., 2015; this slope: PyTorch)."""
    return clip(add(x, 3.0), 0.0, 6.0) * (1 / 6)


def log_sigmoid(x: Any) -> Tensor:
    """Return log(sigmoid(x)), finite where the sigmoid underflows."""
    return bind(_log_sigmoid, (floating(x),), {})


def softplus(x: Any) -> Tensor:
    """Return log(1 + exp(x)), which does not overflow (Dugas et al., 2001)."""
    return bind(_softplus, (floating(x),), {})


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive and negative_slope * x elsewhere (Maas et al., 2013)."""
    return prelu(x, negative_slope)


def prelu(x: Any, negative_slope: Any) -> Tensor:
    """Return x where it is positive and negative_slope * x elsewhere (He et al., 2015).

    The slope is a tensor that broadcasts against x, and has a gradient.
    """
    x = as_tensor(x)
    return where(greater(x, 0), x, x * negative_slope)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive and alpha * (exp(x) - 1) elsewhere (Clevert et al., 2016)."""
    x = as_tensor(x)
    positive = greater(x, 0)
    # The exponential sees no positive x: where it is not chosen, it must not overflow.
    return where(positive, x, expm1(where(positive, 0.0, x)) * alpha)


def celu(x: Any, alpha: float = 1.0) -> Tensor:
    """Return the ELU of x / alpha times alpha, whose slope is continuous for every alpha (Barron, 2017)."""
    return elu(divide(x, alpha)) * alpha


def selu(x: Any) -> Tensor:
    """Return the scaled ELU that keeps activations at mean 0 and variance 1 (Klambauer et al., 2017)."""
    return elu(x, SELU_ALPHA) * SELU_SCALE


def silu(x: Any) -> Tensor:
    """Return x * sigmoid(x), also called swish (Elfwing et al., 2018)."""
    return multiply(x, sigmoid(x))


def mish(x: Any) -> Tensor:
    """Return x * tanh(softplus(x)) (Misra, 2019)."""
    return multiply(x, tanh(softplus(x)))


def hardswish(x: Any) -> Tensor:
    """Return x * clip(x + 3, 0, 6) / 6, a piecewise swish (Howard et al., 2019)."""
    x = as_tensor(x)
    return where(less(x, -3.0), 0.0, multiply(x, hardsigmoid(x)))


def softsign(x: Any) -> Tensor:
    """Return x / (1 + |x|), which reaches its limits slower than tanh (Bergstra et al., 2009)."""
    return divide(x, abs(x) + 1.0)


def glu(x: Any, axis: int = -1) -> Tensor:
    """Return a * sigmoid(b) for the two halves a and b of x along `axis` (Dauphin et al., 2017)."""
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim, "glu")
    length = x.shape[at]
    if length % 2:
        raise ShapeError(f"glu: expected an even length of axis {axis}, got shape {x.shape}")
    half = length // 2
    return take_slice(x, at, 0, half) * sigmoid(take_slice(x, at, half, length))


# -- GELU -------------------------------------------------------------------------------------

# It is x * (1 + tanh(u)) / 2 = x * sigmoid(2 u), where 2 u = x * (LINEAR + CUBIC * x**2). The sigmoid is
# exact where 1 + tanh(u) loses digits.
GELU_LINEAR = 2 * math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715 * GELU_LINEAR


def _share_of(x: str) -> str:
    """Return the expression of what x is multiplied by."""
    return f"(1 / (1 + exp(-({x} * ({x} * {x} * {GELU_CUBIC!r} + {GELU_LINEAR!r})))))"


def _slope_of(x: str) -> str:
    """Return the expression of the derivative: where the last factor is infinite, those before it are 0."""
    share = _share_of(x)
    return f"({share} + {share} * (1 - {share}) * {x} * ({x} * ({x} * {3 * GELU_CUBIC!r}) + {GELU_LINEAR!r}))"


def _share(xp: Namespace, x: Any) -> Any:
    share = xp.expit(x * (x * x * GELU_CUBIC + GELU_LINEAR))
    return share.astype(x.dtype, copy=False)  # SciPy has none in half precision


def _check_gelu(*operands: Any) -> None:
    for x in operands:
        if not isinstance(x, (int, float)):  # as which a graph holds a gradient that is the same everywhere
            check_floating("gelu", x)


def _forward(xp: Namespace, x: Any) -> Any:
    return x * _share(xp, x)


def _gradient_forward(xp: Namespace, g: Any, x: Any) -> Any:
    _check_gelu(g, x)
    share = _share(xp, x)
    return g * (share + share * (1 - share) * x * (x * (x * (3 * GELU_CUBIC)) + GELU_LINEAR))


def _shape_of(ufunc: np.ufunc) -> ShapeRule:
    rule = like(ufunc, "gelu")

    def checked(*operands: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        _check_gelu(*operands)
        return rule(*operands)

    return checked


def _second(x: Tensor) -> Tensor:
    share = sigmoid(multiply(x, square(x) * GELU_CUBIC + GELU_LINEAR))
    spread = share * (share * -1.0 + 1.0)  # it goes first: it is 0 long before others are infinite
    inner = square(x) * (3 * GELU_CUBIC) + GELU_LINEAR
    bent = multiply(spread, x)
    return spread * inner * 2.0 + bent * x * (6 * GELU_CUBIC) + bent * inner * inner * (share * -2.0 + 1.0)


_gelu_tanh_gradient: Primitive = Primitive("gelu_tanh_gradient").define(
    forward=_gradient_forward,
    shape=_shape_of(np.multiply),
    vjp=(
        lambda h, _, g, x: unbroadcast(bind(_gelu_tanh_gradient, (h, x), {}), g),
        lambda h, _, g, x: unbroadcast(multiply(h, g) * _second(x), x),
    ),
    expression=f"x * {_slope_of('y')}",
    writes_out=False,
)
_gelu_tanh = Primitive("gelu_tanh").define(
    forward=_forward,
    shape=_shape_of(np.absolute),
    vjp=(lambda g, _, x: bind(_gelu_tanh_gradient, (g, x), {}),),
    expression=f"x * {_share_of('x')}",
    writes_out=False,
)


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """Return x * Phi(x) with the normal distribution function Phi (Hendrycks & Gimpel, 2016).

    Parameters
    ----------
    x : Tensor or array
        Any shape, floating point.
    approximate : {"none", "tanh"}, default="none"
        Exact, or the paper's formula with a hyperbolic tangent.

    Returns
    -------
    Tensor
        Same shape as x.

    Raises
    ------
    ValueError
        If `approximate` is neither.

    Examples
    --------
    >>> gelu([1.0]).numpy()
    array([0.84134475])
    """
    if approximate == "none":
        # Phi by erfc and not by 1 + erf, which rounds to 0 for x below -8.
        return multiply(x, erfc(multiply(x, -math.sqrt(0.5))) * 0.5)
    if approximate == "tanh":
        return bind(_gelu_tanh, (floating(x),), {})
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {shown(approximate)}")


# -- softmax and its relatives ----------------------------------------------------------------

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
