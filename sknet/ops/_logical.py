"""Logic of truth values and of bits, and tests for values that are not finite."""

from typing import Any

import numpy as np

from sknet.core import PRIMITIVES, Primitive, Tensor
from sknet.core.extend import primitives as p
from sknet.ops._rules import binary, like, unary

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "isfinite", "isinf", "isnan", "logical_and", "logical_not", "logical_or", "logical_xor",
]  # fmt: skip

# -- truth values -----------------------------------------------------------------------------

for _name, _expression in {
    "logical_and": "x != 0 and y != 0",
    "logical_or": "x != 0 or y != 0",
    "logical_xor": "(x != 0) != (y != 0)",
    "logical_not": "x == 0",
    "isfinite": "isfinite(x)",
    "isinf": "isinf(x)",
    "isnan": "isnan(x)",
}.items():
    Primitive(_name).define(
        forward=_name, shape=like(getattr(np, _name), _name), vjp=None, expression=_expression
    )


def logical_and(x: Any, y: Any) -> Tensor:
    """Return whether both x and y are true, or not 0."""
    return binary(PRIMITIVES["logical_and"], x, y)


def logical_or(x: Any, y: Any) -> Tensor:
    """Return whether x or y is true, or not 0, or both are."""
    return binary(PRIMITIVES["logical_or"], x, y)


def logical_xor(x: Any, y: Any) -> Tensor:
    """Return whether exactly one of x and y is true, or not 0."""
    return binary(PRIMITIVES["logical_xor"], x, y)


def logical_not(x: Any) -> Tensor:
    """Return whether x is false, or 0."""
    return unary(PRIMITIVES["logical_not"], x)


def isfinite(x: Any) -> Tensor:
    """Return whether x is neither infinite nor NaN."""
    return unary(PRIMITIVES["isfinite"], x)


def isinf(x: Any) -> Tensor:
    """Return whether x is infinite, of either sign."""
    return unary(PRIMITIVES["isinf"], x)


def isnan(x: Any) -> Tensor:
    """Return whether x is NaN."""
    return unary(PRIMITIVES["isnan"], x)


# -- bits of integers, and truth values -------------------------------------------------------

for _primitive, _name, _expression in (
    (p.bitwise_and, "bitwise_and", "x & y"),
    (p.bitwise_or, "bitwise_or", "x | y"),
    (p.bitwise_xor, "bitwise_xor", "x ^ y"),
    (p.bitwise_invert, "invert", "invert(x)"),
    (p.bitwise_left_shift, "left_shift", "left_shift(x, y)"),
    (p.bitwise_right_shift, "right_shift", "right_shift(x, y)"),
):
    _primitive.define(
        forward=_name, shape=like(getattr(np, _name), _primitive.name), vjp=None, expression=_expression
    )


def bitwise_and(x: Any, y: Any) -> Tensor:
    """Return the bits that are set in both x and y, integers or truth values."""
    return binary(p.bitwise_and, x, y)


def bitwise_or(x: Any, y: Any) -> Tensor:
    """Return the bits that are set in x or y, integers or truth values."""
    return binary(p.bitwise_or, x, y)


def bitwise_xor(x: Any, y: Any) -> Tensor:
    """Return the bits that are set in exactly one of x and y, integers or truth values."""
    return binary(p.bitwise_xor, x, y)


def bitwise_invert(x: Any) -> Tensor:
    """Return the bits that are not set in x, integers or truth values."""
    return unary(p.bitwise_invert, x)


def bitwise_left_shift(x: Any, y: Any) -> Tensor:
    """Return the bits of integers x shifted left by y: x * 2 ** y."""
    return binary(p.bitwise_left_shift, x, y)


def bitwise_right_shift(x: Any, y: Any) -> Tensor:
    """Return the bits of integers x shifted right by y: x // 2 ** y."""
    return binary(p.bitwise_right_shift, x, y)
