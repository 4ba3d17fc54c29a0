"""Rows of elementwise operations: an ONNX operator if there is one, else the primitive's expression."""

from typing import Any

import numpy as np

import sknet.ops  # noqa: F401  attaches the primitives' rules
from sknet.compile import Equation
from sknet.core import PRIMITIVES, Primitive
from sknet.device import result_dtype
from sknet.onnx._expressions import broadcast_shape, expression
from sknet.onnx._writer import NOT_EXPORTED, TABLE, Value, Writer, row

__all__: list[str] = []

# Operators for floating-point numbers; all else is written as expressions.
OPERATORS = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
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
    operator = OPERATORS.get(primitive.name)
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
