"""GELU: exact, or by the formula with a hyperbolic tangent, whose gradient is finite far from 0, too."""

import math
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, bind
from sknet.device import Namespace
from sknet.ops._activation import sigmoid
from sknet.ops._elementwise import erfc, multiply, square
from sknet.ops._rules import ShapeRule, check_floating, floating, like, unbroadcast

__all__ = ["gelu"]

# It is x * (1 + tanh(u)) / 2 = x * sigmoid(2 u), where 2 u = x * (LINEAR + CUBIC * x**2). The sigmoid is
# exact where 1 + tanh(u) loses digits.
LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR


def _share_of(x: str) -> str:
    """Return the expression of what x is multiplied by."""
    return f"(1 / (1 + exp(-({x} * ({x} * {x} * {CUBIC!r} + {LINEAR!r})))))"


def _slope_of(x: str) -> str:
    """Return the expression of the derivative: where the last factor is infinite, those before it are 0."""
    share = _share_of(x)
    return f"({share} + {share} * (1 - {share}) * {x} * ({x} * ({x} * {3 * CUBIC!r}) + {LINEAR!r}))"


def _share(xp: Namespace, x: Any) -> Any:
    share = xp.expit(x * (x * x * CUBIC + LINEAR))
    return share.astype(x.dtype, copy=False)  # SciPy has none in half precision


def _check(*operands: Any) -> None:
    for x in operands:
        if not isinstance(x, (int, float)):  # as which a graph holds a gradient that is the same everywhere
            check_floating("gelu", x)


def _forward(xp: Namespace, x: Any) -> Any:
    return x * _share(xp, x)


def _gradient_forward(xp: Namespace, g: Any, x: Any) -> Any:
    _check(g, x)
    share = _share(xp, x)
    return g * (share + share * (1 - share) * x * (x * (x * (3 * CUBIC)) + LINEAR))


def _shape_of(ufunc: np.ufunc) -> ShapeRule:
    rule = like(ufunc, "gelu")

    def checked(*operands: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        _check(*operands)
        return rule(*operands)

    return checked


def _second(x: Tensor) -> Tensor:
    """Return the second derivative."""
    share = sigmoid(multiply(x, square(x) * CUBIC + LINEAR))
    spread = share * (share * -1.0 + 1.0)  # it goes first: it is 0 long before others are infinite
    inner = square(x) * (3 * CUBIC) + LINEAR
    bent = multiply(spread, x)
    return spread * inner * 2.0 + bent * x * (6 * CUBIC) + bent * inner * inner * (share * -2.0 + 1.0)


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
        Of x's shape.

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
