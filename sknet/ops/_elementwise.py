"""Functions of one element at a time: arithmetic, comparison, logic, rounding, exponentials, trigonometry."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._late import SpecialFunction
from sknet.core import PRIMITIVES, Primitive, Tensor, as_operand, as_tensor, bind
from sknet.core import _primitive as kinds
from sknet.core import _primitive as p
from sknet.device import MetaArray, Namespace, result_dtype
from sknet.ops._rules import astype_like, binary, broadcast, flat, like, unary, unbroadcast

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
    "clip", "copysign", "cos", "cosh", "deg2rad", "divide", "equal", "erf", "erfc", "exp", "exp2", "expm1",
    "floor", "floor_divide", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "lerp",
    "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logit", "maximum", "minimum", "multiply", "nan_to_num", "negative",
    "nextafter", "not_equal", "positive", "pow", "reciprocal", "remainder", "round", "rsqrt",
    "scaled_quotient", "sigmoid", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan",
    "tanh", "trunc", "where", "xlogy",
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
        lambda g, _, x, y: unbroadcast(-(g * (x / y)) / y, y),  # y * y and 1 / y could overflow
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
    """Return y * x ** (y - 1), which is 0 where y is 0 also where 1 / x is infinite (and not 0 * inf)."""
    if not isinstance(y, Tensor):
        return 0.0 if y == 0 else y * x ** (y - 1)
    no_inverse = less_equal(abs(x), float(np.finfo(x.dtype).tiny) / 4)
    return y * where(logical_and(equal(y, 0), no_inverse), 1.0, x) ** (y - 1)


def _log_base(x: Any) -> Any:
    """Return log(x), with 0 for log(0): x ** y * log(x) is 0 at x = 0, the limit, and not 0 * -inf."""
    if isinstance(x, Tensor):
        return log(where(equal(x, 0), 1.0, x))
    return math.log(x or 1.0) if x >= 0 else math.nan


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
    _comparison = _ufunc.__name__
    PRIMITIVES[_comparison].define(
        forward=_comparison, shape=like(_ufunc, _comparison), vjp=None, expression=f"x {_symbol} y"
    )


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


# -- logic of truth values --------------------------------------------------------------------

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


# -- logic of bits ----------------------------------------------------------------------------

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
_sigmoid = Primitive("sigmoid").define(
    forward="expit",
    shape=like(SpecialFunction("expit"), "sigmoid"),
    vjp=(lambda g, out, x: g * (out * (1.0 - out)),),
    saves="output",
    expression="1 / (1 + exp(-x))",
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


def sigmoid(x: Any) -> Tensor:
    """Return 1 / (1 + exp(-x)), the logistic function; exact in both tails."""
    return unary(_sigmoid, x)


# -- selection and limits ---------------------------------------------------------------------


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
        # Chosen rather than multiplied: an infinite gradient is none of the other's.
        shared = where(equal(mine, other), 0.5 * g, 0.0)
        return unbroadcast(where(chosen(mine, other), g, shared), mine)

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


def astype(x: Any, dtype: DTypeLike) -> Tensor:
    """Return x converted to `dtype`; x itself if that is its dtype."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype == np.dtype(dtype) else tensor.astype(dtype)


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
    vjp=(lambda g, _, x, y: unbroadcast(g, x), lambda g, _, x, y: unbroadcast(-g * floor_divide(x, y), y)),
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


# -- trigonometric and hyperbolic functions ---------------------------------------------------


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


# -- exponentials and logarithms --------------------------------------------------------------

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


# -- products with a logarithm ----------------------------------------------------------------


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
    return x / where(logical_and(equal(x, 0), equal(y, 0)), 1.0, y)


def xlogy(x: Any, y: Any) -> Tensor:
    """Return x * log(y), and 0 where x is 0."""
    return binary(_xlogy, x, y)


# -- scaled quotient --------------------------------------------------------------------------


def _scaled_quotient_shape(x: Any, y: Any, scale: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return p.divide.shape(MetaArray(*p.multiply.shape(scale, x)), y)


_scaled_quotient = Primitive("scaled_quotient").define(
    forward=lambda xp, x, y, scale: xp.divide(xp.multiply(scale, x), y),
    shape=_scaled_quotient_shape,
    vjp=(
        lambda g, _, x, y, scale: unbroadcast(scaled_quotient(scale, g, y), x),
        lambda g, _, x, y, scale: unbroadcast(-scaled_quotient(scale, g * x / y, y), y),
        lambda g, _, x, y, scale: unbroadcast(g * x / y, scale),
    ),
    writes_out=False,
)


def scaled_quotient(scale: Any, x: Any, y: Any) -> Tensor:
    """Return scale * x / y, if it does not matter which of the two is computed first.

    Uncompiled, and compiled with ``exact=True``, it is (scale * x) / y. Otherwise a compiled function may
    compute scale * (x / y), which saves a pass over memory where the scale is one number.

    Parameters
    ----------
    scale, x, y : Tensor, array or number
        Shapes that broadcast together. Neither scale * x nor x / y may leave the dtype's range.

    Returns
    -------
    Tensor
        The result, of the common shape.

    Examples
    --------
    >>> scaled_quotient(0.5, [4.0, 6.0], [1.0, 2.0]).numpy()
    array([2. , 1.5])
    """
    scale, x, y = (as_operand(v) for v in (scale, x, y))
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return bind(_scaled_quotient, (x, y, scale), {})
    return as_tensor(scale * x / y)


# -- interpolation and replacement ------------------------------------------------------------


def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """Return x + weight * (y - x), exactly x for a `weight` of 0 and y for 1.

    Parameters
    ----------
    x, y : Tensor or array
        The ends; they broadcast.
    weight : float, Tensor or array
        Position from x (0) to y (1); below 0 and above 1 it extrapolates.

    Returns
    -------
    Tensor
        ``x + weight * (y - x)``, computed from the nearer end.

    Examples
    --------
    >>> lerp([0.0, 10.0], [1.0, 20.0], 0.25).numpy()
    array([ 0.25, 12.5 ])
    """
    start, end, weight = as_tensor(x), as_tensor(y), as_operand(weight)
    way = end - start
    if not isinstance(weight, Tensor):
        part = float(weight)
        return start + way * part if part < 0.5 else end - way * (1.0 - part)
    return where(less(weight, 0.5), start + way * weight, end - way * (1.0 - weight))


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return x with numbers instead of NaN and the infinities; no gradient flows to those elements.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    nan : float, default=0.0
        Replaces NaN.
    posinf, neginf : float or None, default=None
        Replace the infinities; None takes the largest and the smallest finite number of the dtype.

    Returns
    -------
    Tensor
        Same shape and dtype as x.

    Examples
    --------
    >>> nan_to_num([1.0, float("nan"), float("-inf")], neginf=-9.0).numpy()
    array([ 1.,  0., -9.])
    """
    tensor = as_tensor(x)
    if tensor.dtype.kind != "f":
        return tensor
    limits = np.finfo(tensor.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = where(equal(tensor, math.inf), high, where(equal(tensor, -math.inf), low, tensor))
    return where(isnan(tensor), nan, finite)
