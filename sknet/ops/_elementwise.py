"""Arithmetic, comparison and elementary functions, one element at a time."""

import math
from typing import Any

import numpy as np

from sknet._scipy import SpecialFunction
from sknet.core import PRIMITIVES, Primitive, Tensor, as_operand, as_tensor, bind
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace, result_dtype
from sknet.ops._logical import logical_and, logical_not, logical_or
from sknet.ops._rules import astype_like, binary, broadcast, flat, like, unary, unbroadcast

__all__ = [
    "abs", "add", "astype", "clip", "divide", "equal", "erf", "erfc", "exp", "expm1", "greater",
    "greater_equal", "less", "less_equal", "log", "log1p", "maximum", "minimum", "multiply", "negative",
    "not_equal", "positive", "pow", "reciprocal", "rsqrt", "sign", "sqrt", "square", "subtract", "where",
]  # fmt: skip


# -- arithmetic -------------------------------------------------------------------------------

p.add.define(
    forward="add",
    shape=like(np.add, "add"),
    vjp=(lambda g, _, x, y: unbroadcast(g, x), lambda g, _, x, y: unbroadcast(g, y)),
    saves="nothing",
    expression="x + y",
)
p.subtract.define(
    forward="subtract",
    shape=like(np.subtract, "subtract"),
    vjp=(lambda g, _, x, y: unbroadcast(g, x), lambda g, _, x, y: unbroadcast(-g, y)),
    saves="nothing",
    expression="x - y",
)
p.multiply.define(
    forward="multiply",
    shape=like(np.multiply, "multiply"),
    vjp=(lambda g, _, x, y: unbroadcast(g * y, x), lambda g, _, x, y: unbroadcast(g * x, y)),
    expression="x * y",
)
p.divide.define(
    forward="divide",
    shape=like(np.divide, "divide"),
    vjp=(
        lambda g, _, x, y: unbroadcast(g / y, x),
        lambda g, _, x, y: unbroadcast(-(g / y) * (x / y), y),  # y * y could overflow
    ),
    expression="x / y",
)
p.power.define(
    forward="power",
    shape=like(np.power, "pow"),
    vjp=(
        lambda g, _, x, y: unbroadcast(g * _power_slope(x, y), x),
        lambda g, _, x, y: unbroadcast(g * x**y * _log_base(x), y),
    ),
    expression="x ** y",
)
p.negative.define(
    forward="negative",
    shape=like(np.negative, "negative"),
    vjp=(lambda g, _, x: -g,),
    saves="nothing",
    expression="-x",
)
p.positive.define(
    forward="positive",
    shape=like(np.positive, "positive"),
    vjp=(lambda g, _, x: g,),
    saves="nothing",
    expression="x",
)
p.absolute.define(
    forward="absolute",
    shape=like(np.absolute, "abs"),
    vjp=(lambda g, _, x: g * sign(x),),
    expression="abs(x)",
)


def _power_slope(x: Any, y: Any) -> Any:
    """Return y * x ** (y - 1), which is 0 where y is 0 also at x = 0 (and not 0 * inf)."""
    if not isinstance(y, Tensor):
        return 0.0 if y == 0 else y * x ** (y - 1)
    return y * unless_both_zero(x, y) ** (y - 1)


def _log_base(x: Any) -> Any:
    """Return log(x), with 0 for log(0): x ** y * log(x) is 0 at x = 0, the limit, and not 0 * -inf."""
    if isinstance(x, Tensor):
        return log(where(equal(x, 0), 1.0, x))
    return math.log(x or 1.0) if x >= 0 else math.nan


def unless_both_zero(x: Tensor, y: Tensor) -> Tensor:
    """Return x, but 1 where both x and y are 0, so that 0 times something computed from it stays 0."""
    return where(equal(x, 0), where(equal(y, 0), 1.0, x), x)


def add(x: Any, y: Any) -> Tensor:
    """Return x + y."""
    return binary(p.add, x, y)


def subtract(x: Any, y: Any) -> Tensor:
    """Return x - y."""
    return binary(p.subtract, x, y)


def multiply(x: Any, y: Any) -> Tensor:
    """Return x * y."""
    return binary(p.multiply, x, y)


def divide(x: Any, y: Any) -> Tensor:
    """Return x / y."""
    return binary(p.divide, x, y)


def pow(x: Any, y: Any) -> Tensor:
    """Return x to the power of y."""
    return binary(p.power, x, y)


def negative(x: Any) -> Tensor:
    """Return -x."""
    return unary(p.negative, x)


def positive(x: Any) -> Tensor:
    """Return +x, which is x."""
    return unary(p.positive, x)


def reciprocal(x: Any) -> Tensor:
    """Return 1 / x."""
    return divide(1.0, x)


def abs(x: Any) -> Tensor:
    """Return the absolute value; its gradient at 0 is 0."""
    return unary(p.absolute, x)


# -- comparison -------------------------------------------------------------------------------

for _ufunc, _symbol in (
    (np.less, "<"), (np.less_equal, "<="), (np.greater, ">"),
    (np.greater_equal, ">="), (np.equal, "=="), (np.not_equal, "!="),
):  # fmt: skip
    _name = _ufunc.__name__
    PRIMITIVES[_name].define(forward=_name, shape=like(_ufunc, _name), vjp=None, expression=f"x {_symbol} y")


def less(x: Any, y: Any) -> Tensor:
    """Return x < y."""
    return binary(p.less, x, y)


def less_equal(x: Any, y: Any) -> Tensor:
    """Return x <= y."""
    return binary(p.less_equal, x, y)


def greater(x: Any, y: Any) -> Tensor:
    """Return x > y."""
    return binary(p.greater, x, y)


def greater_equal(x: Any, y: Any) -> Tensor:
    """Return x >= y."""
    return binary(p.greater_equal, x, y)


def equal(x: Any, y: Any) -> Tensor:
    """Return x == y."""
    return binary(p.equal, x, y)


def not_equal(x: Any, y: Any) -> Tensor:
    """Return x != y."""
    return binary(p.not_equal, x, y)


# -- elementary functions ---------------------------------------------------------------------

p.exp.define(
    forward="exp",
    shape=like(np.exp, "exp"),
    vjp=(lambda g, out, x: g * out,),
    saves="output",
    expression="exp(x)",
)
p.log.define(forward="log", shape=like(np.log, "log"), vjp=(lambda g, _, x: g / x,), expression="log(x)")
p.sqrt.define(
    forward="sqrt",
    shape=like(np.sqrt, "sqrt"),
    vjp=(lambda g, out, x: g * 0.5 / out,),
    saves="output",
    expression="sqrt(x)",
)
_expm1 = Primitive("expm1").define(
    forward="expm1",
    shape=like(np.expm1, "expm1"),
    vjp=(lambda g, out, x: g * (out + 1.0),),
    saves="output",
    expression="expm1(x)",
)
_log1p = Primitive("log1p").define(
    forward="log1p",
    shape=like(np.log1p, "log1p"),
    vjp=(lambda g, _, x: g / (x + 1.0),),
    expression="log1p(x)",
)
_square = Primitive("square").define(
    forward="square",
    shape=like(np.square, "square"),
    vjp=(lambda g, _, x: (g * 2.0) * x,),
    expression="x * x",
)
_sign = Primitive("sign").define(
    forward="sign",
    shape=like(np.sign, "sign"),
    vjp=(lambda g, _, x: flat(g, x),),
    saves="nothing",
    expression="1 if x > 0 else -1 if x < 0 else x + 0",
)
_erf = Primitive("erf").define(
    forward="erf",
    shape=like(SpecialFunction("erf"), "erf"),
    vjp=(lambda g, _, x: (g * (2 / math.sqrt(math.pi))) * exp(-square(x)),),
    expression="erf(x)",
)
_erfc = Primitive("erfc").define(
    forward="erfc",
    shape=like(SpecialFunction("erfc"), "erfc"),
    vjp=(lambda g, _, x: (g * (-2 / math.sqrt(math.pi))) * exp(-square(x)),),
    expression="erfc(x)",
)


def exp(x: Any) -> Tensor:
    """Return the exponential."""
    return unary(p.exp, x)


def log(x: Any) -> Tensor:
    """Return the natural logarithm."""
    return unary(p.log, x)


def sqrt(x: Any) -> Tensor:
    """Return the square root."""
    return unary(p.sqrt, x)


def rsqrt(x: Any) -> Tensor:
    """Return 1 / sqrt(x)."""
    return divide(1.0, sqrt(x))


def expm1(x: Any) -> Tensor:
    """Return exp(x) - 1, accurate also for small x."""
    return unary(_expm1, x)


def log1p(x: Any) -> Tensor:
    """Return log(1 + x), accurate also for small x."""
    return unary(_log1p, x)


def square(x: Any) -> Tensor:
    """Return x * x."""
    return unary(_square, x)


def sign(x: Any) -> Tensor:
    """Return -1, 0 or 1; its gradient is 0."""
    return unary(_sign, x)


def erf(x: Any) -> Tensor:
    """Return the error function."""
    return unary(_erf, x)


def erfc(x: Any) -> Tensor:
    """Return 1 - erf(x), accurate also where erf rounds to 1."""
    return unary(_erfc, x)


# -- selection --------------------------------------------------------------------------------


def _where_shape(condition: Any, x: Any, y: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return broadcast("where", condition, x, y), result_dtype(x, y)


def _where_forward(xp: Namespace, condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    chosen = xp.where(condition, x, y)
    if out is None:
        return chosen
    out[...] = chosen
    return out


_where = Primitive("where").define(
    forward=_where_forward,
    shape=_where_shape,
    vjp=(
        None,
        lambda g, _, condition, x, y: unbroadcast(where(condition, g, 0.0), x),
        lambda g, _, condition, x, y: unbroadcast(where(logical_not(condition), g, 0.0), y),
    ),
    expression="y if x else z",
    condition=0,
    overwrites=(2,),
)


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """Return x where the condition holds and y elsewhere; gradients flow to the chosen side only."""
    return bind(_where, (as_tensor(condition), as_operand(x), as_operand(y)), {})


def _extremum_rules(chosen: Any) -> Any:
    """Rules of maximum and minimum: where both are equal, each operand gets half of the gradient."""

    def share(g: Tensor, mine: Any, other: Any) -> Tensor:
        weight = where(equal(mine, other), 0.5, astype(chosen(mine, other), g.dtype))
        return unbroadcast(g * weight, mine)

    return (lambda g, _, x, y: share(g, x, y), lambda g, _, x, y: share(g, y, x))


_maximum = Primitive("maximum").define(
    forward="maximum",
    shape=like(np.maximum, "maximum"),
    vjp=_extremum_rules(greater),
    expression="x if x > y or x != x else y",
)
_minimum = Primitive("minimum").define(
    forward="minimum",
    shape=like(np.minimum, "minimum"),
    vjp=_extremum_rules(less),
    expression="x if x < y or x != x else y",
)


def maximum(x: Any, y: Any) -> Tensor:
    """Return the larger of x and y; where they are equal, each gets half of the gradient."""
    return binary(_maximum, x, y)


def minimum(x: Any, y: Any) -> Tensor:
    """Return the smaller of x and y; where they are equal, each gets half of the gradient."""
    return binary(_minimum, x, y)


_clip = Primitive("clip").define(
    forward=lambda xp, x, low, high, out=None: xp.clip(x, low, high, out=out),
    shape=lambda x, low, high: (broadcast("clip", x, low, high), result_dtype(x, low, high)),
    vjp=(
        lambda g, _, x, low, high: unbroadcast(where(_is_between(x, low, high), g, 0.0), x),
        lambda g, _, x, low, high: unbroadcast(where(_is_low(x, low, high), g, 0.0), low),
        lambda g, _, x, low, high: unbroadcast(where(_is_high(x, low, high), g, 0.0), high),
    ),
    expression="x + y + z if x != x or y != y or z != z else z if x >= z or y >= z else x if x > y else y",
)


def _is_between(x: Any, low: Any, high: Any) -> Tensor:
    return logical_and(less_equal(low, x), less_equal(x, high))


def _is_low(x: Any, low: Any, high: Any) -> Tensor:
    return logical_and(less(x, low), less_equal(low, high))


def _is_high(x: Any, low: Any, high: Any) -> Tensor:
    return logical_or(greater(x, high), greater(low, high))


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Return x limited to [min, max], numbers or tensors; NaN stays, and where min > max it is max.

    The gradient flows to x where it is within the limits or on them, elsewhere to the limit that is met.
    """
    tensor = as_tensor(x)
    if min is None and max is None:
        return tensor
    least, most = _range(tensor.dtype)
    low, high = least if min is None else min, most if max is None else max
    return bind(_clip, (tensor, as_operand(low), as_operand(high)), {})


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and the largest value of a dtype."""
    if dtype.kind == "f":
        return -math.inf, math.inf
    return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


# -- dtype ------------------------------------------------------------------------------------


def _astype_forward(xp: Namespace, x: Any, *, dtype: Any, out: Any = None) -> Any:
    if out is None:
        return x.astype(dtype)
    xp.copyto(out, x, casting="unsafe")  # CuPy skips `out[...] = x` where both have the same memory
    return out


p.astype.define(
    forward=_astype_forward,
    shape=lambda x, dtype: (x.shape, np.dtype(dtype)),
    params={"dtype": kinds.DTYPE},
    vjp=(lambda g, _, x, dtype: astype_like(g, x),),
    saves="nothing",
    expression="x",
)


def astype(x: Any, dtype: Any) -> Tensor:
    """Return x converted to `dtype`; x itself if that is its dtype."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype == np.dtype(dtype) else tensor.astype(dtype)
