"""Trigonometric and hyperbolic functions and their inverses."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor
from sknet.ops._elementwise import equal, sqrt, square, where
from sknet.ops._rules import binary, like, unary, unbroadcast

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "deg2rad", "hypot", "sin",
    "sinh", "tan", "tanh",
]  # fmt: skip


def _defined(name: str, ufunc: np.ufunc, rule: Any, saves: Any = "inputs") -> Primitive:
    return Primitive(name).define(
        forward=ufunc.__name__, shape=like(ufunc, name), vjp=(rule,), saves=saves, expression=f"{name}(x)"
    )


# Quotients and products of two factors, where a square would overflow or lose digits near 1.
_sin = _defined("sin", np.sin, lambda g, _, x: g * cos(x))
_cos = _defined("cos", np.cos, lambda g, _, x: -g * sin(x))
_tan = _defined("tan", np.tan, lambda g, out, x: g * (square(out) + 1.0), "output")
_asin = _defined("asin", np.arcsin, lambda g, _, x: g / sqrt((1.0 - x) * (1.0 + x)))
_acos = _defined("acos", np.arccos, lambda g, _, x: -g / sqrt((1.0 - x) * (1.0 + x)))
_atan = _defined("atan", np.arctan, lambda g, _, x: g / hypot(x, 1.0) / hypot(x, 1.0))
_sinh = _defined("sinh", np.sinh, lambda g, _, x: g * cosh(x))
_cosh = _defined("cosh", np.cosh, lambda g, _, x: g * sinh(x))
_tanh = _defined("tanh", np.tanh, lambda g, out, x: g * (1.0 - out * out), "output")
_asinh = _defined("asinh", np.arcsinh, lambda g, _, x: g / hypot(x, 1.0))
_acosh = _defined("acosh", np.arccosh, lambda g, _, x: g / (sqrt(x - 1.0) * sqrt(x + 1.0)))
_atanh = _defined("atanh", np.arctanh, lambda g, _, x: g / ((1.0 - x) * (1.0 + x)))

_deg2rad = Primitive("deg2rad").define(
    forward="deg2rad",
    shape=like(np.deg2rad, "deg2rad"),
    vjp=(lambda g, _, x: deg2rad(g),),
    saves="nothing",
    expression="x * 0.017453292519943295",
)
_hypot = Primitive("hypot").define(
    forward="hypot",
    shape=like(np.hypot, "hypot"),
    vjp=(
        lambda g, out, x, y: unbroadcast(g * (x / _unless_zero(out)), x),
        lambda g, out, x, y: unbroadcast(g * (y / _unless_zero(out)), y),
    ),
    saves="both",
    expression="hypot(x, y)",
)
_atan2 = Primitive("atan2").define(
    forward="arctan2",
    shape=like(np.arctan2, "atan2"),
    vjp=(
        lambda g, _, x, y: unbroadcast(_angle_slope(g, y, hypot(x, y)), x),
        lambda g, _, x, y: unbroadcast(-_angle_slope(g, x, hypot(x, y)), y),
    ),
    expression="atan2(x, y)",
)


def _unless_zero(radius: Tensor) -> Tensor:
    """Return the radius, but 1 where it is 0: a gradient there is 0, and not 0 / 0."""
    return where(equal(radius, 0), 1.0, radius)


def _angle_slope(g: Tensor, leg: Any, radius: Tensor) -> Any:
    """Return g * leg / radius ** 2, without the square."""
    radius = _unless_zero(radius)
    return g * (leg / radius) / radius


def sin(x: Any) -> Tensor:
    """Return the sine of x in radians."""
    return unary(_sin, x)


def cos(x: Any) -> Tensor:
    """Return the cosine of x in radians."""
    return unary(_cos, x)


def tan(x: Any) -> Tensor:
    """Return the tangent of x in radians."""
    return unary(_tan, x)


def asin(x: Any) -> Tensor:
    """Return the angle in [-pi/2, pi/2] whose sine is x."""
    return unary(_asin, x)


def acos(x: Any) -> Tensor:
    """Return the angle in [0, pi] whose cosine is x."""
    return unary(_acos, x)


def atan(x: Any) -> Tensor:
    """Return the angle in [-pi/2, pi/2] whose tangent is x."""
    return unary(_atan, x)


def atan2(x: Any, y: Any) -> Tensor:
    """Return the angle in [-pi, pi] of the point with the ordinate x and the abscissa y.

    Its gradients at the origin are 0.
    """
    return binary(_atan2, x, y)


def hypot(x: Any, y: Any) -> Tensor:
    """Return sqrt(x * x + y * y), without overflow in between; its gradients at the origin are 0."""
    return binary(_hypot, x, y)


def sinh(x: Any) -> Tensor:
    """Return the hyperbolic sine."""
    return unary(_sinh, x)


def cosh(x: Any) -> Tensor:
    """Return the hyperbolic cosine."""
    return unary(_cosh, x)


def tanh(x: Any) -> Tensor:
    """Return the hyperbolic tangent."""
    return unary(_tanh, x)


def asinh(x: Any) -> Tensor:
    """Return the number whose hyperbolic sine is x."""
    return unary(_asinh, x)


def acosh(x: Any) -> Tensor:
    """Return the non-negative number whose hyperbolic cosine is x."""
    return unary(_acosh, x)


def atanh(x: Any) -> Tensor:
    """Return the number whose hyperbolic tangent is x."""
    return unary(_atanh, x)


def deg2rad(x: Any) -> Tensor:
    """Return the angle x in radians, given in degrees."""
    return unary(_deg2rad, x)
