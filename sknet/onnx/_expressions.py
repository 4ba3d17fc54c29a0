"""Elementwise operations: the scalar expression of a primitive, written as nodes."""

import ast
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sknet.compile.extend import Length
from sknet.onnx._writer import Value, Writer

__all__ = ["broadcast_shape", "expression"]

Operation = Callable[..., Value]

BINARY = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul"}
COMPARISONS = {ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual"}
# For booleans, and for integers.
BITWISE = {
    ast.BitAnd: ("And", "BitwiseAnd"),
    ast.BitOr: ("Or", "BitwiseOr"),
    ast.BitXor: ("Xor", "BitwiseXor"),
}


def broadcast_shape(*values: Value) -> tuple[int | Length, ...]:
    """Return the shape that values broadcast to."""
    ndim = max(v.ndim for v in values)
    padded = [(1,) * (ndim - v.ndim) + v.shape for v in values]
    return tuple(next((n for n in lengths if n != 1), 1) for lengths in zip(*padded, strict=True))


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def expression(w: Writer, text: str, operands: dict[str, Value], dtype: np.dtype[Any]) -> Value:
    """Write an expression of the elements of some operands."""
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
        """Write another expression, of these operands."""
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
    rest = e.add("Sub", x, e.add("Mul", quotient, y))
    zero = e.number(0)
    is_below = e.add("Xor", e.add("Less", rest, zero, dtype=bool), e.add("Less", y, zero, dtype=bool))
    lower = e.add("And", is_below, e.w.add("Not", e.add("Equal", rest, zero, dtype=bool)))
    return e.add("Sub", quotient, e.w.cast(lower, e.dtype))


def _remainder(e: _Elements, x: Value, y: Value) -> Value:
    shape = broadcast_shape(x, y)
    if e.dtype.kind != "f":
        return e.w.add("Mod", x, y, shape=shape, fmod=0)
    rest = e.w.add("Mod", x, y, shape=shape, fmod=1)  # has the sign of x
    zero = e.number(0)
    differ = e.add("Xor", e.add("Less", rest, zero, dtype=bool), e.add("Less", y, zero, dtype=bool))
    add = e.add("And", differ, e.w.add("Not", e.add("Equal", rest, zero, dtype=bool)))
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
