"""Algebra that changes rounding: the same numbers to the last digits, in fewer passes over memory.

No rule changes whether a result is finite, infinite, NaN or zero. A rule that moves a factor needs to
know that no intermediate product overflows, neither the one that it creates nor the one that it
removes: that is known for numbers, and for the terms of a softmax. Besides rounding, three things may
differ: an intermediate value that underflows (by at most the dtype's smallest normal number, times
what it is multiplied by), a result within rounding of the dtype's largest number (or within a factor
of 2, where a product with a number that is known only at run time is added), and the sign of a zero.
"""

import math

import numpy as np

from sknet.compile import _primitives as own
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of

__all__ = ["RELAXED"]


RELAXED = Rules()
MODERATE = 256.0  # the largest factor that may follow an underflow
NEVER_NEGATIVE = ("abs", "exp", "square")  # primitives whose results are never negative, nor -0.0
BLAS = "fd"  # dtypes of BLAS; NumPy accumulates products of other dtypes in a wider one


# -- softmax, in terms that loss and gradient share -------------------------------------------


@RELAXED.on("log_softmax")
def log_softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Shifted logits minus the logarithm of the sum of their exponentials."""
    if not equation.output.size:
        return None
    shifted, _, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("subtract", shifted, rewriter.emit("log", total))


@RELAXED.on("softmax")
def softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Exponentials of shifted logits, divided by their sum."""
    if not equation.output.size:
        return None
    _, raised, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("divide", raised, total)


def _softmax_parts(rewriter: Rewriter, equation: Equation) -> tuple[Variable, Variable, Variable]:
    [x], axis = equation.operands, (equation.params["axis"],)
    shifted = rewriter.emit("subtract", x, rewriter.emit("max", x, axis=axis, keepdims=True))
    raised = rewriter.emit("exp", shifted)
    return shifted, raised, rewriter.emit("sum", raised, axis=axis, keepdims=True)


def _is_softmax_sum(rewriter: Rewriter, total: Operand, raised: Operand) -> bool:
    """Tell whether `total` is the sum of `raised`, which are exponentials of shifted logits."""
    added = rewriter.definition(total, "sum")
    if added is None or added.operands[0] is not raised or not added.params["keepdims"]:
        return False
    power = rewriter.definition(raised, "exp")
    shifted = rewriter.definition(power.operands[0], "subtract") if power is not None else None
    top = rewriter.definition(shifted.operands[1], "max") if shifted is not None else None
    if shifted is None or top is None or top.params != added.params:
        return False
    return bool(top.operands[0] is shifted.operands[0])


@RELAXED.on("exp")
def exp_of_log_softmax(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """exp(x - log(sum(exp(x)))) is exp(x) / sum(exp(x)), for shifted logits x."""
    [x] = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    shifted, log = difference.operands
    logarithm = rewriter.definition(log, "log")
    if logarithm is None or type(shifted) is not Variable:
        return None
    [total] = logarithm.operands
    added = rewriter.definition(total, "sum")
    if added is None or not _is_softmax_sum(rewriter, total, added.operands[0]):
        return None
    [raised] = added.operands
    if rewriter.definitions[raised].operands[0] is not shifted:
        return None
    return rewriter.emit("divide", raised, total)


@RELAXED.on("multiply")
def softmax_times_row(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A softmax times one number per row is its exponentials times a quotient per row."""
    for x, b in (equation.operands, equation.operands[::-1]):
        quotient = rewriter.definition(x, "divide")
        if quotient is None or not _is_smaller(b, x) or not rewriter.is_used_once(x):
            continue
        raised, total = quotient.operands
        if _is_softmax_sum(rewriter, total, raised):
            return rewriter.emit("multiply", raised, rewriter.emit("divide", b, total))
    return None


@RELAXED.on("take_at")
def take_before(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Elements of x - log(y), with one y per row, are elements of x minus the logarithm of their row's y."""
    x, positions = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    a, b = difference.operands
    if (
        rewriter.definition(b, "log") is None
        or b.shape != (*x.shape[:-1], 1)
        or type(a) is not Variable
        or a.shape != x.shape
    ):
        return None
    rest = rewriter.emit("reshape", b, shape=positions.shape)
    return rewriter.emit("subtract", rewriter.emit(own.take_at, a, positions), rest)


@RELAXED.on("negative")
def negative_log_softmax(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(x - log(total)) is log(total) - x, except for the sign of the zero of a class with probability 1."""
    [difference] = equation.operands
    found = rewriter.definition(difference, "subtract")
    if found is None or not rewriter.is_used_once(difference):
        return None
    x, log = found.operands
    reshaped = rewriter.definition(log, "reshape")
    logarithm = rewriter.definition(log if reshaped is None else reshaped.operands[0], "log")
    added = rewriter.definition(logarithm.operands[0], "sum") if logarithm is not None else None
    if added is None or not _is_softmax_sum(rewriter, added.output, added.operands[0]):
        return None
    return rewriter.emit("subtract", log, x)


# -- numbers are combined before they are applied to an array ---------------------------------


@RELAXED.on("multiply", "divide")
def numbers_first(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """(x * a) * b is x * (a * b), for numbers a and b that keep x in range; quotients alike."""
    x, b = _array_and_number(equation)
    inner = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if b is None or inner is None or not rewriter.is_used_once(x):
        return None
    large, a = _array_and_number(inner)
    if a is None or type(large) is not Variable or large.dtype != equation.output.dtype:
        return None
    names = inner.primitive.name, equation.primitive.name
    first, second = (
        abs(number) if name == "multiply" else 1.0 / abs(number)
        for number, name in zip((a, b), names, strict=True)
    )
    if names == ("divide", "divide") or not _keep_range(first, second, large.dtype):
        return None
    factor = {"multiply multiply": a * b, "multiply divide": a / b, "divide multiply": b / a}[" ".join(names)]
    return rewriter.emit("multiply", large, factor)


def _array_and_number(equation: Equation) -> tuple[Operand, float | None]:
    """Return array and number of a product or quotient; the number is None where there is none."""
    x, y = equation.operands
    if equation.primitive.name == "multiply" and type(x) is not Variable:
        x, y = y, x
    is_one = type(x) is Variable and type(y) is not Variable and y != 0 and math.isfinite(y)
    return (x, float(y)) if is_one and x.dtype.kind == "f" else (x, None)


def _keep_range(first: float, second: float, dtype: np.dtype) -> bool:
    """Tell whether x times `first` times `second` and x times their product are in range for the same x."""
    if not all(_is_normal(number, dtype) for number in (first, second, first * second)):
        return False
    return second >= 1.0 if first > 1.0 else second <= MODERATE and first * second <= 1.0


def _is_normal(number: float, dtype: np.dtype) -> bool:
    limits = np.finfo(dtype)
    return float(limits.smallest_normal) <= number <= float(limits.max)


@RELAXED.on("divide")
def reciprocal(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A scalar divided by a constant is a product, which can be computed in place."""
    x, y = equation.operands
    if type(x) is not Variable or x.shape or type(y) is Variable or x.dtype != equation.output.dtype:
        return None
    if x.dtype.kind != "f" or not all(_is_normal(abs(number), x.dtype) for number in (y, 1.0 / (y or 1.0))):
        return None
    return rewriter.emit("multiply", x, 1.0 / y)


def _is_smaller(x: Operand, than: Operand) -> bool:
    return type(than) is Variable and (type(x) is not Variable or x.size * 2 <= than.size > 0)


@RELAXED.on("scaled_quotient")
def scaled_afterwards(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Scale * x / y is scale * (x / y): the next operation may absorb the number at no cost."""
    x, y, scale = equation.operands
    if type(scale) is Variable and (scale.shape or scale.dtype != equation.output.dtype):
        return None
    if not _same(x, equation.output) or not _same(y, equation.output):
        return None
    return rewriter.emit("multiply", scale, rewriter.emit("divide", x, y))


@RELAXED.on("add", "subtract")
def add_multiple(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """X + c * y takes one pass over flat arrays, or where x is a matrix product."""
    output = equation.output
    if output.dtype.kind != "f" or not output.size:
        return None
    x, y = equation.operands
    for base, other in ((x, y), (y, x))[: 2 if equation.primitive.name == "add" else 1]:
        product = rewriter.definition(other, "multiply")
        if product is None or not rewriter.is_used_once(other) or not _same(base, output):
            continue
        made_of = rewriter.definitions.get(base) if type(base) is Variable else None
        if base is other or (made_of is not None and other in made_of.operands):
            continue  # x - x would leave a rounding error
        c, rest = _number_and_rest(product)
        # BLAS treats 0 times anything as 0; and rounding once keeps finite some products that would overflow.
        if c is None or (
            type(c) is not Variable and not 0 < float(np.array(min(abs(c), 2.0), output.dtype)) <= 1
        ):
            continue
        if not _same(rest, output) or rest is base or scalar_of(rewriter, rest) is not None:
            continue
        if output.ndim != 1 and not (rewriter.definition(base, "matmul") and _is_part(rewriter, rest)):
            continue
        if equation.primitive.name == "subtract":
            c = rewriter.emit("negative", c) if type(c) is Variable else -c
        return rewriter.emit(own.axpy, base, rest, c)
    return None


def _is_part(rewriter: Rewriter, x: Variable) -> bool:
    """Tell whether `x` is a slice of a flat array, or all of an input, in memory order."""
    whole = rewriter.definition(x, "reshape")
    flat = whole.operands[0] if whole is not None else x
    part = rewriter.definition(flat, "getitem")
    return flat not in rewriter.definitions or (part is not None and flat.ndim == part.operands[0].ndim == 1)


def _same(x: Operand, output: Variable) -> bool:
    return type(x) is Variable and x.shape == output.shape and x.dtype == output.dtype


def _number_and_rest(product: Equation) -> tuple[Operand | None, Variable]:
    """Return the factor of a product that is a scalar (None if neither is), and the other factor."""
    a, b = product.operands
    if type(b) is Variable and (type(a) is not Variable or (not a.shape and a.dtype == b.dtype)):
        return a, b
    if type(a) is Variable and (type(b) is not Variable or (not b.shape and a.dtype == b.dtype)):
        return b, a
    return None, product.output


# -- sums of products -------------------------------------------------------------------------


@RELAXED.on("sum")
def sum_of_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of -x is minus that of x, and that of -x * y minus that of x * y, up to the sign of a zero."""
    [x] = equation.operands
    if type(x) is not Variable or x.dtype.kind != "f" or not rewriter.is_used_once(x):
        return None
    positive = _without_sign(rewriter, x)
    if positive is None:
        return None
    return rewriter.emit("negative", rewriter.emit("sum", positive, **equation.params))


def _without_sign(rewriter: Rewriter, x: Variable) -> Variable | None:
    """Return -x if x is computed as minus that, or as a product with a factor that is."""
    negative = rewriter.definition(x, "negative")
    if negative is not None:
        [positive] = negative.operands
        return positive if type(positive) is Variable else None
    product = rewriter.definition(x, "multiply")
    for a, b in (product.operands, product.operands[::-1]) if product is not None else ():
        factor = rewriter.definition(a, "negative")
        if factor is not None and a.shape == x.shape and rewriter.is_used_once(a):
            return rewriter.emit("multiply", factor.operands[0], b)
    return None


@RELAXED.on("sum")
def sum_of_product(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of all elements of a product is an inner product, which needs no temporary array."""
    [x] = equation.operands
    product = rewriter.definition(x, "multiply")
    if product is None or len(equation.params["axis"]) != len(x.shape) or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    if (
        any(type(y) is not Variable or y.shape != x.shape or y.dtype != x.dtype for y in (a, b))
        or x.dtype.char not in BLAS
    ):
        return None
    row = rewriter.emit("reshape", a, shape=(1, x.size))
    column = rewriter.emit("reshape", b, shape=(x.size, 1))
    return rewriter.emit("reshape", rewriter.emit("matmul", row, column), shape=equation.output.shape)


# -- powers -----------------------------------------------------------------------------------


@RELAXED.on("pow")
def simple_power(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Powers of 2, and of 0.5 of what is never negative, have functions of their own."""
    x, exponent = equation.operands
    if type(x) is not Variable or x.dtype.kind != "f" or type(exponent) is Variable:
        return None
    if exponent == 2:
        return rewriter.emit("square", x)
    is_root = exponent == 0.5 and any(rewriter.definition(x, name) for name in NEVER_NEGATIVE)
    return rewriter.emit("sqrt", x) if is_root else None
