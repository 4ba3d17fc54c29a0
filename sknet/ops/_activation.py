"""Activation functions, written so that no argument overflows."""

from typing import Any

import numpy as np

from sknet._scipy import SpecialFunction
from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axis
from sknet.device import Namespace
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import abs, add, clip, divide, expm1, greater, multiply, where
from sknet.ops._join import take_slice
from sknet.ops._rules import check_floating, floating, like, unary
from sknet.ops._trigonometric import tanh

__all__ = [
    "celu", "elu", "glu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "mish",
    "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softsign",
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
_sigmoid = Primitive("sigmoid").define(
    forward="expit",
    shape=like(SpecialFunction("expit"), "sigmoid"),
    vjp=(lambda g, out, x: g * (out * (1.0 - out)),),
    saves="output",
    expression="1 / (1 + exp(-x))",
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


def sigmoid(x: Any) -> Tensor:
    """Return 1 / (1 + exp(-x)), the logistic function; exact in both tails."""
    return unary(_sigmoid, x)


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
    return multiply(x, hardsigmoid(x))


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
