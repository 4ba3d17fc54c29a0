"""Exponentials and logarithms of other bases, of sums and of odds."""

import math
from typing import Any

import numpy as np
from scipy.special import _ufuncs  # see device/_numpy.py

from sknet.core import Primitive, Tensor
from sknet.ops._activation import sigmoid
from sknet.ops._rules import binary, like, unary, unbroadcast

__all__ = ["exp2", "log2", "log10", "logaddexp", "logit"]

_exp2 = Primitive("exp2").define(
    forward="exp2",
    shape=like(np.exp2, "exp2"),
    vjp=(lambda g, out, x: g * out * math.log(2.0),),
    saves="output",
    expression="exp2(x)",
)
_log2 = Primitive("log2").define(
    forward="log2",
    shape=like(np.log2, "log2"),
    vjp=(lambda g, _, x: g / x * (1.0 / math.log(2.0)),),
    expression="log2(x)",
)
_log10 = Primitive("log10").define(
    forward="log10",
    shape=like(np.log10, "log10"),
    vjp=(lambda g, _, x: g / x * (1.0 / math.log(10.0)),),
    expression="log10(x)",
)
_logaddexp = Primitive("logaddexp").define(
    forward="logaddexp",
    shape=like(np.logaddexp, "logaddexp"),
    vjp=(
        lambda g, _, x, y: unbroadcast(g * sigmoid(x - y), x),
        lambda g, _, x, y: unbroadcast(g * sigmoid(y - x), y),
    ),
    expression="max(x, y) + log1p(exp(-abs(x - y)))",
)
_logit = Primitive("logit").define(
    forward="logit",
    shape=like(_ufuncs.logit, "logit"),
    vjp=(lambda g, _, x: g / (x * (1.0 - x)),),
    expression="log(x) - log1p(-x)",
)


def exp2(x: Any) -> Tensor:
    """Return 2 to the power of x."""
    return unary(_exp2, x)


def log2(x: Any) -> Tensor:
    """Return the logarithm to base 2."""
    return unary(_log2, x)


def log10(x: Any) -> Tensor:
    """Return the logarithm to base 10."""
    return unary(_log10, x)


def logaddexp(x: Any, y: Any) -> Tensor:
    """Return log(exp(x) + exp(y)), which does not overflow in between."""
    return binary(_logaddexp, x, y)


def logit(x: Any) -> Tensor:
    """Return log(x / (1 - x)), the inverse of the sigmoid; infinite at 0 and 1."""
    return unary(_logit, x)
