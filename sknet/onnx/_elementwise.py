"""Rows of elementwise operations, reductions, scans, sorting and searching."""

import ast
import functools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import sknet.ops  # noqa: F401  attaches the primitives' rules
from sknet.compile import Equation
from sknet.core import PRIMITIVES, Primitive
from sknet.device import result_dtype
from sknet.onnx._writer import NOT_EXPORTED, TABLE, Value, Writer, row

Operation = Callable[..., Value]

BINARY = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul"}
COMPARISONS = {ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual"}
# For booleans, and for integers.
BITWISE = {
    ast.BitAnd: ("And", "BitwiseAnd"),
    ast.BitOr: ("Or", "BitwiseOr"),
    ast.BitXor: ("Xor", "BitwiseXor"),
}


def broadcast_shape(*values: Value) -> tuple[Any, ...]:
    ndim = max(v.ndim for v in values)
    padded = [(1,) * (ndim - v.ndim) + v.shape for v in values]
    return tuple(next((n for n in lengths if n != 1), 1) for lengths in zip(*padded, strict=True))


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def expression(w: Writer, text: str, operands: dict[str, Value], dtype: np.dtype[Any]) -> Value:
    return _Elements(w, operands, dtype).of(_parsed(text))


class _Elements:
    """Translates the parts of one expression."""

    def __init__(self, w: Writer, operands: dict[str, Value], dtype: np.dtype[Any]) -> None:
        self.w, self.operands, self.dtype = w, operands, dtype
        self._done: dict[str, Value] = {}

    def of(self, node: ast.expr) -> Value:
        """Return the value of a subexpression, which is written once however often it occurs."""
        text = ast.dump(node)
        if text not in self._done:
            self._done[text] = PARTS[type(node)](self, node)
        return self._done[text]

    def number(self, value: float) -> Value:
        return self.w.constant(value, self.dtype)

    def add(self, op: str, *values: Value, dtype: Any = None) -> Value:
        return self.w.add(op, *values, shape=broadcast_shape(*values), dtype=dtype)

    def name(self, node: ast.Name) -> Value:
        return self.operands[node.id]

    def constant(self, node: ast.Constant) -> Value:
        return self.number(node.value)  # type: ignore[arg-type]

    def binary(self, node: ast.BinOp) -> Value:
        x, y = self.of(node.left), self.of(node.right)
        kind = type(node.op)
        if kind in BINARY:
            return self.add(BINARY[kind], x, y)
        if kind in BITWISE:
            return self.add(BITWISE[kind][x.dtype != np.dtype(bool)], x, y)
        return OPERATORS[kind](self, x, y)

    def unary(self, node: ast.UnaryOp) -> Value:
        x = self.of(node.operand)
        if isinstance(node.op, ast.Not):
            return self.add("Not", x)
        return self.add("Sub", self.number(0), x) if self.dtype.kind == "u" else self.add("Neg", x)

    def compare(self, node: ast.Compare) -> Value:
        [kind], x, y = [type(op) for op in node.ops], self.of(node.left), self.of(node.comparators[0])
        if kind in COMPARISONS:
            return self.add(COMPARISONS[kind], *self._ordered(x, y), dtype=bool)
        equal = self.add("Equal", x, y, dtype=bool)
        return equal if kind is ast.Eq else self.add("Not", equal)

    def _ordered(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Return truth values as numbers, which have an order."""
        return (self.w.cast(x, np.int32), self.w.cast(y, np.int32)) if x.dtype.kind == "b" else (x, y)

    def boolean(self, node: ast.BoolOp) -> Value:
        op = "And" if isinstance(node.op, ast.And) else "Or"
        first, *others = [self.of(value) for value in node.values]
        for other in others:
            first = self.add(op, first, other)
        return first

    def choice(self, node: ast.IfExp) -> Value:
        condition, x, y = self.of(node.test), self.of(node.body), self.of(node.orelse)
        shape = broadcast_shape(condition, x, y)
        return self.w.add("Where", self.w.cast(condition, bool), x, y, dtype=x.dtype, shape=shape)

    def call(self, node: ast.Call) -> Value:
        name = node.func.id  # type: ignore[attr-defined]
        values = [self.of(argument) for argument in node.args]
        found = FUNCTIONS[name]
        if isinstance(found, str):
            return self.w.add(found, *values)
        if isinstance(found, tuple):
            return self.formula(*found, *values)
        return found(self, *values)

    def formula(self, text: str, *operands: Value) -> Value:
        return expression(self.w, text, dict(zip("xyz", operands, strict=False)), self.dtype)


PARTS: dict[type, Callable[[_Elements, Any], Value]] = {
    ast.BinOp: _Elements.binary,
    ast.BoolOp: _Elements.boolean,
    ast.Call: _Elements.call,
    ast.Compare: _Elements.compare,
    ast.Constant: _Elements.constant,
    ast.IfExp: _Elements.choice,
    ast.Name: _Elements.name,
    ast.UnaryOp: _Elements.unary,
}


# -- operators that differ between ONNX and Python -------------------------------------------


def _divided(e: _Elements, x: Value, y: Value) -> Value:
    return e.add("Div", x, y)


def _floor_divided(e: _Elements, x: Value, y: Value) -> Value:
    if e.dtype.kind == "f":
        # As Python and NumPy: the exact quotient of what the remainder leaves.
        rest = _remainder(e, x, y)
        quotient = e.add("Div", e.add("Sub", x, rest), y)
        rounded = e.w.add("Round", quotient)
        return e.w.add("Where", e.w.cast(_is_finite(e, quotient), bool), rounded, quotient, dtype=e.dtype)
    quotient = e.add("Div", x, y)  # rounded towards zero
    if e.dtype.kind == "u":
        return quotient
    lower = _differ_in_sign(e, e.add("Sub", x, e.add("Mul", quotient, y)), y)
    return e.add("Sub", quotient, e.w.cast(lower, e.dtype))


def _differ_in_sign(e: _Elements, rest: Value, y: Value) -> Value:
    zero = e.number(0)
    differ = e.add("Xor", e.add("Less", rest, zero, dtype=bool), e.add("Less", y, zero, dtype=bool))
    return e.add("And", differ, e.w.add("Not", e.add("Equal", rest, zero, dtype=bool)))


def _remainder(e: _Elements, x: Value, y: Value) -> Value:
    shape = broadcast_shape(x, y)
    if e.dtype.kind != "f":
        return e.w.add("Mod", x, y, shape=shape, fmod=0)
    rest = e.w.add("Mod", x, y, shape=shape, fmod=1)  # has the sign of x
    add = _differ_in_sign(e, rest, y)
    return e.w.add("Where", add, e.add("Add", rest, y), rest, dtype=e.dtype, shape=shape)


def _power(e: _Elements, x: Value, y: Value) -> Value:
    return e.add("Pow", x, y)


OPERATORS: dict[type, Operation] = {
    ast.Div: _divided,
    ast.FloorDiv: _floor_divided,
    ast.Mod: _remainder,
    ast.Pow: _power,
}


# -- functions -------------------------------------------------------------------------------


def _is_infinite(e: _Elements, x: Value) -> Value:
    return e.w.add("IsInf", x, dtype=bool) if e.dtype.kind == "f" else e.w.cast(e.add("Sub", x, x), bool)


def _is_nan(e: _Elements, x: Value) -> Value:
    return e.w.add("IsNaN", x, dtype=bool) if e.dtype.kind == "f" else e.w.cast(e.add("Sub", x, x), bool)


def _is_finite(e: _Elements, x: Value) -> Value:
    return e.w.add("Not", e.add("Or", _is_infinite(e, x), _is_nan(e, x)))


def _sign_bit(e: _Elements, x: Value) -> Value:
    """Tell whether the sign is negative, also for zeros; undefined for NaN."""
    zero = e.number(0)
    if e.dtype.kind != "f":
        return e.add("Less", x, zero, dtype=bool)
    reciprocal = e.add("Div", e.number(1), x)
    return e.add("Or", e.add("Less", x, zero, dtype=bool), e.add("Less", reciprocal, zero, dtype=bool))


def _copy_sign(e: _Elements, x: Value, y: Value) -> Value:
    size = e.add("Abs", x)
    shape = broadcast_shape(x, y)
    return e.w.add("Where", _sign_bit(e, y), e.add("Neg", size), size, dtype=e.dtype, shape=shape)


def _inverted(e: _Elements, x: Value) -> Value:
    return e.w.add("Not" if x.dtype.kind == "b" else "BitwiseNot", x)


def _power_of_two(e: _Elements, y: Value) -> Value:
    return e.w.cast(e.add("Pow", e.number(2), y), e.dtype)


def _shifted_left(e: _Elements, x: Value, y: Value) -> Value:
    return e.add("Mul", x, _power_of_two(e, y))  # ONNX shifts unsigned numbers only


def _shifted_right(e: _Elements, x: Value, y: Value) -> Value:
    return _floor_divided(e, x, _power_of_two(e, y))


# Accurate for small x: the rounding error of 1 + x, or of exp(x), cancels (W. Kahan).
# Branches that are not chosen must not divide by zero either, so that gradients of loaded models are finite.
LOG1P = ("x if 1 + x == 1 or isinf(x) and x > 0 else log(1 + x) * (x / ((1 + x) - 1 if 1 + x != 1 else 1))",)
EXPM1 = (
    "x if exp(x) == 1 else exp(x) - 1 if exp(x) - 1 == -1 or exp(x) > 1e4 else "
    "(exp(x) - 1) * (x / (log(exp(x) if exp(x) > 0 else 2) if exp(x) != 1 else 1))",
)
HYPOT = (
    "abs(x) + abs(y) if abs(x) == 0 or abs(y) == 0 or isinf(x) or isinf(y) else "
    "(abs(x) if abs(x) > abs(y) else abs(y)) * sqrt(1 + "
    "((abs(y) if abs(x) > abs(y) else abs(x)) / (abs(x) if abs(x) > abs(y) else abs(y))) ** 2)",
)
PI = math.pi
ATAN2 = (
    f"x + y if x != x or y != y else atan(x / y) if y > 0 and not (isinf(x) and isinf(y)) else "
    f"copysign({PI / 4} if y > 0 else {3 * PI / 4}, x) if isinf(x) and isinf(y) else "
    f"atan(x / y) + copysign({PI}, x) if y < 0 else "
    f"copysign({PI / 2}, x) if x != 0 else copysign({PI} if signbit(y) else 0, x)",
)
ATANH = ("copysign(0.5 * log1p(2 * abs(x) / (1 - abs(x))), x)",)
ASINH = (
    f"x if isinf(x) else copysign(log(abs(x)) + {math.log(2.0)!r} if abs(x) > 1e8 else "
    "log1p(abs(x) + x * x / (1 + sqrt(x * x + 1))), x)",
)

ACOSH = (f"log(x) + {math.log(2.0)!r} if x > 1e8 else log1p(x - 1 + sqrt(x - 1) * sqrt(x + 1))",)
SINH = (
    f"copysign(exp(abs(x) - {math.log(2.0)!r}) if abs(x) > 20 else "
    "0.5 * (expm1(abs(x)) + expm1(abs(x)) / (expm1(abs(x)) + 1)), x)",
)
COSH = (f"exp(abs(x) - {math.log(2.0)!r}) if abs(x) > 20 else 0.5 * (exp(x) + exp(-x))",)
# W. H. Press et al., "Numerical Recipes in C", second edition (1992), section 6.2: an error of 1.2e-7 at
# most, relative to the value, which is all that single precision can hold.
CHEBYSHEV = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
    -0.82215223, 0.17087277,
)  # fmt: skip


def _complementary_error(e: _Elements, x: Value) -> Value:
    size = e.add("Abs", x)
    t = e.formula("1 / (1 + 0.5 * x)", size)
    power = e.number(CHEBYSHEV[-1])
    for coefficient in CHEBYSHEV[-2::-1]:
        power = e.add("Add", e.add("Mul", power, t), e.number(coefficient))
    above = e.formula("x * exp(y - z * z)", t, power, size)
    return e.formula("y if x >= 0 else 2 - y", x, above)


FUNCTIONS: dict[str, str | tuple[str] | Operation] = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": ACOSH,
    "asin": "Asin",
    "asinh": ASINH,
    "atan": "Atan",
    "atan2": ATAN2,
    "atanh": ATANH,
    "ceil": "Ceil",
    "copysign": _copy_sign,
    "cos": "Cos",
    "cosh": COSH,
    "erf": "Erf",
    "erfc": _complementary_error,
    "exp": "Exp",
    "exp2": ("2 ** x",),
    "expm1": EXPM1,
    "floor": "Floor",
    "hypot": HYPOT,
    "invert": _inverted,
    "isfinite": _is_finite,
    "isinf": _is_infinite,
    "isnan": _is_nan,
    "left_shift": _shifted_left,
    "log": "Log",
    "log10": (f"log(x) * {1 / math.log(10.0)!r}",),
    "log1p": LOG1P,
    "log2": (f"log(x) * {1 / math.log(2.0)!r}",),
    "pow": _power,
    "right_shift": _shifted_right,
    "rint": "Round",
    "signbit": _sign_bit,
    "sin": "Sin",
    "sinh": SINH,
    "softplus": "Softplus",  # in what is exported only
    "sqrt": "Sqrt",
    "tan": ("sin(x) / cos(x)",),
    "tanh": "Tanh",
    "trunc": ("ceil(x) if x < 0 else floor(x)",),
}


# Operators for floating-point numbers; all else is written as expressions.
OF_FLOATS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
ROUNDING = ("ceil", "floor", "round", "trunc")  # do nothing to integers
TRUTHS = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}


def common(w: Writer, equation: Equation, operands: list[Any], dtype: Any = None) -> list[Value]:
    """Return operands as values of one dtype, in which the operation is computed."""
    if dtype is None:
        dtype = result_dtype(*equation.primitive.values(equation.operands))
    return [w.cast(x, dtype) if isinstance(x, Value) else w.constant(x, dtype) for x in operands]


def _elementwise(w: Writer, equation: Equation, *operands: Any, **params: Any) -> Value:
    primitive = equation.primitive
    inputs, output = list(operands), equation.output.dtype
    dtype = _computed_in(primitive, result_dtype(*primitive.values(equation.operands)), output)
    if primitive.name in ROUNDING and dtype.kind != "f":
        return w.cast(operands[0], output)
    condition = primitive.condition
    chosen = [] if condition is None else common(w, equation, [inputs.pop(condition)], bool)
    values = common(w, equation, inputs, dtype)
    operator = OF_FLOATS.get(primitive.name)
    if operator is not None and dtype.kind == "f":
        return w.cast(w.add(operator, *values), output)
    if condition is not None:
        values[condition:condition] = chosen
    names = dict(zip("xyz", values, strict=False))
    found = expression(w, str(primitive.expression), names, dtype)
    return w.cast(w.expanded(found, w.rows.shape(equation.output)), output)


def _computed_in(primitive: Primitive, dtype: np.dtype[Any], output: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to compute in: onnxruntime supports few integer dtypes."""
    if output.kind == "f" and dtype.kind != "f":
        return output  # a quotient or a logarithm of integers
    if dtype.kind == "f" or primitive.name.startswith("bitwise"):
        return dtype
    return dtype if dtype in (np.int32, np.int64) else np.dtype(np.int64)


for _name, _primitive in PRIMITIVES.items():
    if _primitive.expression is not None and _name not in NOT_EXPORTED:
        TABLE[_name] = _elementwise


@row(*TRUTHS)
def _truth(w: Writer, equation: Equation, *operands: Any) -> Value:
    x, y = common(w, equation, list(operands), bool)
    return w.add(TRUTHS[equation.primitive.name], x, y, shape=broadcast_shape(x, y))


@row("logical_not")
def _not(w: Writer, equation: Equation, x: Value) -> Value:
    return w.add("Not", w.cast(x, bool))


@row("astype", "positive")
def _astype(w: Writer, equation: Equation, x: Value, **_: Any) -> Value:
    return w.cast(x, equation.output.dtype)


# Instead of their expressions, whose two halves have no gradient where they meet.
SMOOTH = {"softplus": "x if x > 40 else softplus(x)", "log_sigmoid": "x if x < -40 else -softplus(-x)"}


@row(*SMOOTH)
def _smooth(w: Writer, equation: Equation, x: Value) -> Value:
    dtype = equation.output.dtype
    return expression(w, SMOOTH[equation.primitive.name], {"x": w.cast(x, dtype)}, dtype)


@row("zeros_like", "ones_like")
def _filled(w: Writer, equation: Equation, x: Any) -> Value:
    number = w.constant(equation.primitive.name == "ones_like", equation.output.dtype)
    return w.expanded(number, w.rows.shape(equation.output))


@row("scaled_quotient")
def _scaled_quotient(w: Writer, equation: Equation, *operands: Any) -> Value:
    dtype = equation.output.dtype
    x, y, scale = common(w, equation, list(operands), dtype)
    return expression(w, "z * x / y", {"x": x, "y": y, "z": scale}, dtype)


REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}


def _reduced(w: Writer, op: str, x: Value, axis: Any, keepdims: bool) -> Value:
    axes = sorted(a % x.ndim for a in axis)
    if not axes:
        return x
    shape = [(1 if i in axes else n) for i, n in enumerate(x.shape) if keepdims or i not in axes]
    return w.add(op, x, w.constant(axes, np.int64), shape=shape, keepdims=int(keepdims))


@row(*REDUCTIONS)
def _reduction(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    dtype = equation.output.dtype
    computed = x.dtype if x.dtype.kind == dtype.kind else dtype
    if computed.kind in "bu" or (computed.itemsize < 4 and computed.kind == "i"):
        computed = np.dtype(np.int64)  # few runtimes reduce other integer dtypes
    found = _reduced(w, REDUCTIONS[equation.primitive.name], w.cast(x, computed), axis, keepdims)
    return w.cast(found, dtype)


@row("any", "all")
def _truths(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    op = "ReduceMax" if equation.primitive.name == "any" else "ReduceMin"
    return w.cast(_reduced(w, op, w.cast(w.cast(x, bool), np.int32), axis, keepdims), bool)


@row("argmax", "argmin")
def _place(w: Writer, equation: Equation, x: Value, axis: int, keepdims: bool = False) -> Value:
    """NaN counts as both largest and smallest, as in NumPy."""
    op = "ArgMax" if equation.primitive.name == "argmax" else "ArgMin"
    if x.dtype.kind == "f":
        extreme = w.constant(np.inf if op == "ArgMax" else -np.inf, x.dtype)
        is_nan = w.add("IsNaN", x, dtype=bool)
        x = w.add("Where", is_nan, extreme, x, dtype=x.dtype, shape=x.shape)
    else:
        x = w.cast(x, np.int64 if x.dtype.itemsize > 4 or x.dtype.kind == "u" else np.int32)
    at = axis % x.ndim
    shape = [1 if i == at else n for i, n in enumerate(x.shape) if keepdims or i != at]
    found = w.add(op, x, dtype=np.int64, shape=shape, axis=at, keepdims=int(keepdims))
    return w.cast(found, equation.output.dtype)


@row("sum_squares")
def _sum_squares(w: Writer, equation: Equation, *arrays: Value) -> Value:
    parts = []
    for array in arrays:
        x = w.cast(array, equation.output.dtype)
        parts.append(_reduced(w, "ReduceSum", w.add("Mul", x, x), range(x.ndim), False))
    return functools.reduce(lambda total, part: w.add("Add", total, part), parts)


@row("logsumexp")
def _logsumexp(w: Writer, equation: Equation, x: Value, axis: Any, keepdims: bool) -> Value:
    dtype = equation.output.dtype
    x = w.cast(x, dtype)
    top = _reduced(w, "ReduceMax", x, axis, True)
    top = expression(w, "x if isfinite(x) else 0", {"x": top}, dtype)
    total = _reduced(w, "ReduceSum", expression(w, "exp(x - y)", {"x": x, "y": top}, dtype), axis, True)
    found = expression(w, "log(x) + y", {"x": total, "y": top}, dtype)
    return w.reshaped(found, w.rows.shape(equation.output))


@row("softmax", "log_softmax")
def _softmax(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    op = "Softmax" if equation.primitive.name == "softmax" else "LogSoftmax"
    return w.add(op, w.cast(x, equation.output.dtype), axis=axis % x.ndim)


@row("cumulative_sum")
def _cumulative_sum(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    at = w.constant(axis % x.ndim, np.int64)
    return w.add("CumSum", w.cast(x, equation.output.dtype), at)


@row("cumulative_prod")
def _cumulative_prod(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    """The partial products of 1, 2, 4, ... elements, each from two of the step before."""
    x = w.cast(x, equation.output.dtype)
    at = axis % x.ndim
    length = x.known(at)
    apart = 1
    while apart < length:
        first = sliced(w, x, at, 0, apart)
        product = w.add("Mul", sliced(w, x, at, apart, length), sliced(w, x, at, 0, length - apart))
        x = w.add("Concat", first, product, shape=x.shape, axis=at)
        apart *= 2
    return x


def sliced(w: Writer, x: Value, axis: int, start: int, stop: int) -> Value:
    bounds = [w.constant([n], np.int64) for n in (start, stop, axis)]
    shape = [stop - start if i == axis else n for i, n in enumerate(x.shape)]
    return w.add("Slice", x, *bounds, shape=shape)


# -- sorting and searching -------------------------------------------------------------------


def _sorted(w: Writer, x: Value, axis: int, k: Any, largest: bool) -> tuple[Value, Value]:
    """Return the first k elements in order and their indices; the sort is stable."""
    shape = [k if i == axis else n for i, n in enumerate(x.shape)]
    outputs = [(None, shape), (np.int64, shape)]
    values, places = w.add_several(
        "TopK", (x, w.lengths([k])), outputs, axis=axis, largest=int(largest), sorted=1
    )
    return values, places


def _ordered(w: Writer, x: Value) -> Value:
    """Return x in a dtype that can be sorted, with infinity for NaN, which sorts last."""
    if x.dtype.kind == "f":
        is_nan = w.add("IsNaN", x, dtype=bool)
        return w.add("Where", is_nan, w.constant(np.inf, x.dtype), x, dtype=x.dtype, shape=x.shape)
    return w.cast(x, np.int64)


@row("sort")
def _sort(w: Writer, equation: Equation, x: Value, axis: int) -> Value:
    at = axis % x.ndim
    _, places = _sorted(w, _ordered(w, x), at, x.shape[at], largest=False)
    return w.add("GatherElements", x, places, axis=at)


@row("argsort")
def _argsort(w: Writer, equation: Equation, x: Value, axis: int, descending: bool) -> Value:
    at = axis % x.ndim
    return _sorted(w, _ordered(w, x), at, x.shape[at], descending)[1]


@row("topk")
def _topk(w: Writer, equation: Equation, x: Value, k: int, axis: int, largest: bool) -> Value:
    return _sorted(w, _ordered(w, x), axis % x.ndim, k, largest)[1]


@row("searchsorted")
def _searchsorted(w: Writer, equation: Equation, x: Value, values: Value, side: str) -> Value:
    """Count the elements before each value, by comparing it with all."""
    dtype = result_dtype(*equation.operands)
    x, values = w.cast(x, dtype), w.cast(values, dtype)
    column = w.reshaped(values, (*values.shape, 1))
    op = "x < y" if side == "left" else "x <= y"
    before = expression(w, op, {"x": x, "y": column}, dtype)
    counted = w.cast(w.expanded(before, broadcast_shape(x, column)), np.int64)
    return _reduced(w, "ReduceSum", counted, (-1,), False)
