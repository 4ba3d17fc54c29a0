"""Rounding, division with a remainder, signs and neighbours of floating-point numbers."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor
from sknet.core.extend import primitives as p
from sknet.ops._elementwise import sign
from sknet.ops._rules import binary, flat, like, unary, unbroadcast

__all__ = [
    "ceil", "copysign", "floor", "floor_divide", "nextafter", "remainder", "round", "signbit", "trunc",
]  # fmt: skip

# -- rounding ---------------------------------------------------------------------------------


def _rounding(ufunc: np.ufunc, name: str) -> Primitive:
    return Primitive(name).define(
        forward=ufunc.__name__,
        shape=like(ufunc, name),
        vjp=(lambda g, _, x: flat(g, x),),
        saves="nothing",
        expression=f"{ufunc.__name__}(x)",
    )


_floor, _ceil = _rounding(np.floor, "floor"), _rounding(np.ceil, "ceil")
_trunc, _round = _rounding(np.trunc, "trunc"), _rounding(np.rint, "round")


def _rounded(primitive: Primitive, x: Any) -> Tensor:
    """Apply a rounding; integers are returned as they are."""
    tensor = as_tensor(x)
    return unary(primitive, tensor) if tensor.dtype.kind == "f" else tensor


def floor(x: Any) -> Tensor:
    """Return the largest integer that is not above x; its gradient is 0."""
    return _rounded(_floor, x)


def ceil(x: Any) -> Tensor:
    """Return the smallest integer that is not below x; its gradient is 0."""
    return _rounded(_ceil, x)


def trunc(x: Any) -> Tensor:
    """Return x without its fraction, rounded towards 0; its gradient is 0."""
    return _rounded(_trunc, x)


def round(x: Any) -> Tensor:
    """Return the nearest integer, the even one of two equally near; its gradient is 0."""
    return _rounded(_round, x)


# -- division with a remainder ----------------------------------------------------------------

p.floor_divide.define(
    forward="floor_divide",
    shape=like(np.floor_divide, "floor_divide"),
    vjp=(lambda g, _, x, y: flat(g, x), lambda g, _, x, y: flat(g, y)),
    saves="nothing",
    expression="x // y",
)
p.remainder.define(
    forward="remainder",
    shape=like(np.remainder, "remainder"),
    vjp=(
        lambda g, _, x, y: unbroadcast(g, x),
        lambda g, _, x, y: unbroadcast(-g * floor_divide(x, y), y),
    ),
    expression="x % y",
)


def floor_divide(x: Any, y: Any) -> Tensor:
    """Return x / y rounded down to an integer; its gradient is 0."""
    return binary(p.floor_divide, x, y)


def remainder(x: Any, y: Any) -> Tensor:
    """Return x - floor(x / y) * y, with y's sign; between jumps its gradients are 1 and -floor(x / y)."""
    return binary(p.remainder, x, y)


# -- signs and neighbours ---------------------------------------------------------------------

_signbit = Primitive("signbit").define(
    forward="signbit", shape=like(np.signbit, "signbit"), vjp=None, expression="signbit(x)"
)
_copysign = Primitive("copysign").define(
    forward="copysign",
    shape=like(np.copysign, "copysign"),
    vjp=(
        lambda g, _, x, y: unbroadcast(g * (sign(x) * sign(copysign(x, y))), x),
        lambda g, _, x, y: flat(g, y),
    ),
    expression="copysign(x, y)",
)
_nextafter = Primitive("nextafter").define(
    forward="nextafter", shape=like(np.nextafter, "nextafter"), vjp=None, expression="nextafter(x, y)"
)


def signbit(x: Any) -> Tensor:
    """Return whether the sign bit is set: x < 0, or x is -0.0."""
    return unary(_signbit, x)


def copysign(x: Any, y: Any) -> Tensor:
    """Return the absolute value of x with the sign of y; its gradient at x = 0 and that of y are 0."""
    return binary(_copysign, x, y)


def nextafter(x: Any, y: Any) -> Tensor:
    """Return the next number after x in the direction of y that the dtype can hold; it has no gradient."""
    return binary(_nextafter, x, y)
