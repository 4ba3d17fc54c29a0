"""Random operands of elementwise ONNX operators, and of reductions."""

from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.operands import FLOATS, INTS, Draw, Drawn, draws, inputs, many


@draws(
    *(
        "Asinh",
        "Atan",
        "Ceil",
        "Cos",
        "Cosh",
        "Erf",
        "Exp",
        "Floor",
        "HardSwish",
        "Mish",
        "Reciprocal",
        "Round",
    ),
    *("Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Tanh", "IsNaN"),
)
def _unary(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype())
    if x.size and d.chance(0.2):
        x.flat[0] = d.one([np.nan, np.inf, -np.inf, 0.5, 2.5, -0.0])
    return Drawn(inputs(x))


@draws("Acos", "Asin", "Atanh", "Tan")
def _within_one(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape(), d.dtype(), -0.99, 0.99)))


@draws("Acosh", "Log", "Sqrt")
def _positive(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape(), d.dtype(), 1.0, 9.0)))


@draws("Abs", "Neg", "Sign", "Identity", "Relu")
def _unary_of_all(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape(), d.dtype(*INTS))))


@draws("Not")
def _not(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape(), "bool")))


@draws("BitwiseNot")
def _invert(d: Draw) -> Drawn:
    return Drawn(inputs(d.array(d.shape(), d.one(INTS))))


def _two(d: Draw, dtype: str, *ranges: Any) -> list[np.ndarray]:
    shape = d.shape()
    pair = [d.array(s, dtype, *ranges) for s in (shape, d.like(shape))]
    return pair[::-1] if d.chance(0.3) else pair


@draws("Add", "Sub", "Mul", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")
def _binary(d: Draw) -> Drawn:
    return Drawn(inputs(*_two(d, d.dtype(*INTS))))


@draws("Div")
def _divide(d: Draw) -> Drawn:
    x, y = _two(d, d.dtype(*INTS), -9, 9)
    return Drawn(inputs(x, np.where(y == 0, np.ones_like(y), y)))


@draws("Mod")
def _mod(d: Draw) -> Drawn:
    x, y = _two(d, d.dtype(*INTS), -9, 9)
    fmod = 1 if x.dtype.kind == "f" else d.flag()
    return Drawn({**inputs(x, np.where(y == 0, np.ones_like(y), y)), "fmod": fmod})


@draws("Pow")
def _pow(d: Draw) -> Drawn:
    x, y = _two(d, d.dtype("int64", "int32"), 0.0, 3.0)
    return Drawn(inputs(x, y.astype(d.one([x.dtype, "float32", "int64", "int32"]))))


@draws("And", "Or", "Xor")
def _logical(d: Draw) -> Drawn:
    return Drawn(inputs(*_two(d, "bool")))


@draws("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def _bitwise(d: Draw) -> Drawn:
    return Drawn(inputs(*_two(d, d.one(INTS))))


@draws("PRelu")
def _prelu(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype("int32", "int64")
    return Drawn(inputs(d.array(shape, dtype), d.array(d.like(shape), dtype)))


@draws("Where")
def _where(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype(*INTS)
    arrays = [d.array(d.like(shape), kind) for kind in ("bool", dtype, dtype)]
    return Drawn(inputs(*arrays))


@draws("Max", "Min", "Sum", "Mean")
def _fold(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype("int32", "int64", "uint64")
    return Drawn(many(*(d.array(d.like(shape), dtype) for _ in range(d.int(1, 3)))))


@draws("Cast")
def _cast(d: Draw) -> Drawn:
    to = d.one((*FLOATS, *INTS, "bool"))
    x = d.array(d.shape(), d.dtype(*INTS, "bool"), 0.0, 100.0)
    return Drawn({**inputs(x), "to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


@draws("IsInf")
def _isinf(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.one(["float32", "float64"]))
    x.flat[: d.int(0, 2)] = d.one([np.inf, -np.inf, np.nan])
    return Drawn({**inputs(x), "detect_negative": d.flag(), "detect_positive": d.flag()})


@draws("Clip")
def _clip(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype(*INTS[:4]))
    low, high = (d.maybe(d.array((), str(x.dtype)), 0.7) for _ in range(2))
    if d.opset < 11:
        low, high = (None if v is None else float(v) for v in (low, high))
    return Drawn({"#0": x, "min": low, "max": high}, ("min", "max"))


@draws("LeakyRelu", "Elu", "Celu")
def _alpha(d: Draw) -> Drawn:
    alpha = d.maybe(float(d.rng.uniform(0.1, 2.0)))
    return Drawn({**inputs(d.array(d.shape(), d.dtype())), "alpha": alpha})


@draws("Selu", "HardSigmoid")
def _two_numbers(d: Draw) -> Drawn:
    alpha, other = (d.maybe(float(d.rng.uniform(0.1, 2.0))) for _ in range(2))
    return Drawn({**inputs(d.array(d.shape(), d.dtype())), "alpha": alpha, "gamma": other, "beta": other})


@draws("Gelu")
def _gelu(d: Draw) -> Drawn:
    return Drawn({**inputs(d.array(d.shape(), d.dtype())), "approximate": d.one([None, "none", "tanh"])})


@draws("Dropout")
def _dropout(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype())
    ratio = 0.3 if d.opset < 12 else d.maybe(np.float32(0.3))
    training = d.maybe(np.array(d.chance(0.1)))
    return Drawn({"#0": x, "ratio": ratio, "training_mode": training}, ("ratio", "training_mode"))


# -- reductions -------------------------------------------------------------------------------


@draws(
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
def _reduce(d: Draw) -> Drawn:
    dtype = d.one(
        ["float32", "float32", "float64", "int32", "int64", *(["uint8", "int8"] if d.opset > 11 else [])]
    )
    x = d.array(d.shape(1, empty=0), dtype, 0.5, 3.0)  # of no elements, runtimes differ
    values = {"#0": x, "axes": d.maybe(d.axes(x.ndim), 0.8), "keepdims": d.maybe(d.flag())}
    return Drawn({**values, "noop_with_empty_axes": d.maybe(d.flag())}, ("axes",))


@draws("ArgMax", "ArgMin")
def _extreme(d: Draw) -> Drawn:
    x = d.array(d.shape(1, empty=0), d.one(["float32", "float64", "int32", "int8", "uint8"]))
    values = {"#0": x, "axis": d.maybe(d.axis(x.ndim)), "keepdims": d.maybe(d.flag())}
    return Drawn({**values, "select_last_index": d.maybe(d.flag())})


@draws("Softmax", "LogSoftmax")
def _softmax(d: Draw) -> Drawn:
    x = d.array(d.shape(1), d.dtype())
    low = 0 if d.opset < 11 else -x.ndim
    return Drawn({"#0": x, "axis": d.maybe(d.int(low, x.ndim - 1), 0.8)})
