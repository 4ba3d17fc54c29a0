"""Exponentials and logarithms of other bases, of sums and of odds; products with a logarithm."""

import math
from typing import Any

import numpy as np

from sknet._scipy import SpecialFunction
from sknet.core import Primitive, Tensor
from sknet.device import Namespace
from sknet.ops._activation import sigmoid
from sknet.ops._elementwise import unless_both_zero
from sknet.ops._rules import binary, broadcast, like, unary, unbroadcast

__all__ = ["exp2", "log2", "log10", "logaddexp", "logit", "xlogy"]

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
    expression="x + 0.6931471805599453 if x == y else (x if x > y else y) + log1p(exp(-abs(x - y)))",
)
_logit = Primitive("logit").define(
    forward="logit",
    shape=like(SpecialFunction("logit"), "logit"),
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
    """Return log(exp(x) + exp(y)), without overflow in between."""
    return binary(_logaddexp, x, y)


def logit(x: Any) -> Tensor:
    """Return log(x / (1 - x)), the inverse of the sigmoid; infinite at 0 and 1."""
    return unary(_logit, x)


# -- a product with a logarithm ---------------------------------------------------------------


def _xlogy_forward(xp: Namespace, x: Any, y: Any, out: Any = None) -> Any:
    # SciPy's functions do not treat Python numbers as weakly typed.
    if isinstance(x, (int, float)):
        x = xp.asarray(x, dtype=y.dtype if y.dtype.kind == "f" else np.float64)
    elif isinstance(y, (int, float)):
        y = xp.asarray(y, dtype=x.dtype if x.dtype.kind == "f" else np.float64)
    return xp.xlogy(x, y, out=out)


def _xlogy_shape(x: Any, y: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    known = [v.dtype for v in (x, y) if hasattr(v, "dtype")]
    if len(known) == 1 and known[0].kind != "f":
        known.append(np.dtype(np.float64))
    return broadcast("xlogy", x, y), SpecialFunction("xlogy").resolve_dtypes((known[0], known[-1], None))[-1]


_xlogy = Primitive("xlogy").define(
    forward=_xlogy_forward,
    shape=_xlogy_shape,
    vjp=(
        lambda g, _, x, y: unbroadcast(xlogy(g, y), x),
        lambda g, _, x, y: unbroadcast(g * _xlogy_slope(x, y), y),
    ),
    expression="0 if x == 0 and y == y else x * log(y)",
)


def _xlogy_slope(x: Any, y: Tensor) -> Any:
    """Return x / y, which is 0 where x is 0 also at y = 0: there, x * log(y) is 0 for all y."""
    if not isinstance(x, Tensor):
        return x / y if x else 0.0
    return x / unless_both_zero(y, x)


def xlogy(x: Any, y: Any) -> Tensor:
    """Return x * log(y), and 0 where x is 0."""
    return binary(_xlogy, x, y)
