"""Elementwise ONNX operators, and reductions."""

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sknet import ops
from sknet.core import as_tensor
from sknet.exceptions import LoadError
from sknet.onnx._reading import Flag, ints, known, operator

# Operators without attributes.
PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Add": ops.add,
    "And": ops.logical_and,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "BitwiseAnd": ops.bitwise_and,
    "BitwiseNot": ops.bitwise_invert,
    "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Equal": ops.equal,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "Greater": ops.greater,
    "GreaterOrEqual": ops.greater_equal,
    "HardSwish": lambda x: ops.multiply(x, ops.hardsigmoid(x)),  # NaN for -inf, as ONNX defines it
    "Identity": as_tensor,
    "IsNaN": ops.isnan,
    "Less": ops.less,
    "LessOrEqual": ops.less_equal,
    "Log": ops.log,
    "MatMul": ops.matmul,
    "Mish": ops.mish,
    "Mul": ops.multiply,
    "Neg": ops.negative,
    "Not": ops.logical_not,
    "Or": ops.logical_or,
    "Reciprocal": ops.reciprocal,
    "Relu": ops.relu,
    "Round": ops.round,
    "Sigmoid": ops.sigmoid,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Softplus": ops.softplus,
    "Softsign": ops.softsign,
    "Sqrt": ops.sqrt,
    "Sub": ops.subtract,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
    "Where": ops.where,
    "Xor": ops.logical_xor,
}


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*inputs: Any) -> Any:
        return function(*map(as_tensor, inputs))

    return compute


def _of_its_type(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result in half precision is computed in a wider type, and rounded."""

    def compute(x: Any) -> Any:
        x = as_tensor(x)
        return ops.astype(function(x), x.dtype)

    return compute


for _name, _function in PLAIN.items():
    operator(_name)(_of_its_type(_function) if _name in ("Erf", "Sigmoid") else _plain(_function))


@operator("PRelu")
def _prelu(x: Any, slope: Any) -> Any:
    x = as_tensor(x)
    return ops.where(ops.greater(x, 0), x, as_tensor(slope) * x)


@operator("Pow")
def _power(x: Any, y: Any) -> Any:
    x = as_tensor(x)
    return ops.astype(ops.pow(x, as_tensor(y)), x.dtype)


@operator("Div")
def _divide(x: Any, y: Any) -> Any:
    x, y = as_tensor(x), as_tensor(y)
    if x.dtype.kind == "f":
        return x / y
    down = x // y  # towards zero, as in C
    return down + ops.astype(ops.logical_and(ops.less(down, 0), ops.not_equal(down * y, x)), x.dtype)


@operator("Mod")
def _modulo(x: Any, y: Any, *, fmod: Flag = 0) -> Any:
    x, y = as_tensor(x), as_tensor(y)
    if not fmod or x.dtype.kind == "u":
        return x % y
    rest = ops.abs(x) % ops.abs(y)
    return ops.where(ops.less(x, 0), -rest, rest)


def _fold(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*inputs: Any) -> Any:
        return functools.reduce(function, map(as_tensor, inputs))

    return compute


for _name, _function in {"Max": ops.maximum, "Min": ops.minimum, "Sum": ops.add}.items():
    operator(_name)(_fold(_function))


@operator("Mean")
def _mean_of(*inputs: Any) -> Any:
    return functools.reduce(ops.add, map(as_tensor, inputs)) / len(inputs)


@operator("Cast")
def _cast(x: Any, *, to: Any, saturate: Flag = 1, round_mode: str = "up") -> Any:
    return ops.astype(as_tensor(x), to)  # the others are about types of eight bits, which are refused


@operator("IsInf")
def _is_infinite(x: Any, *, detect_negative: Flag = 1, detect_positive: Flag = 1) -> Any:
    x = as_tensor(x)
    found = ops.isinf(x)
    if not detect_negative:
        found = ops.logical_and(found, ops.greater(x, 0))
    if not detect_positive:
        found = ops.logical_and(found, ops.less(x, 0))
    return found


def _within(x: Any, low: Any, high: Any) -> Any:
    x = as_tensor(x)
    for bound, function in ((low, ops.maximum), (high, ops.minimum)):
        x = x if bound is None else function(x, ops.astype(as_tensor(bound), x.dtype))
    return x


@operator("Clip", since=11, fixed=(1, 2))
def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    return _within(x, low, high)


SINGLE = np.finfo(np.float32)


@operator("Clip", until=10)
def _clip_to_numbers(x: Any, *, min: float = float(SINGLE.min), max: float = float(SINGLE.max)) -> Any:
    with np.errstate(over="ignore"):  # half precision
        return _within(x, np.float64(min), np.float64(max))


@operator("LeakyRelu")
def _leaky(x: Any, *, alpha: float = 0.01) -> Any:
    return ops.leaky_relu(x, alpha)


@operator("Elu")
def _elu(x: Any, *, alpha: float = 1.0) -> Any:
    return ops.elu(x, alpha)


@operator("Celu")
def _celu(x: Any, *, alpha: float = 1.0) -> Any:
    x = as_tensor(x)  # not by `ops.celu`, which takes other signs for a negative alpha
    return ops.maximum(x, 0) + ops.minimum(alpha * ops.expm1(x / alpha), 0)


@operator("Selu")
def _selu(x: Any, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Any:
    x = as_tensor(x)
    return gamma * ops.where(ops.greater(x, 0), x, alpha * ops.expm1(ops.minimum(x, 0)))


@operator("Gelu")
def _gelu(x: Any, *, approximate: Literal["none", "tanh"] = "none") -> Any:
    x = as_tensor(x)
    return ops.astype(ops.gelu(x, approximate), x.dtype)


@operator("HardSigmoid")
def _hard_sigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return ops.clip(alpha * as_tensor(x) + beta, 0.0, 1.0)


@operator("Dropout", since=12)
def _dropout(x: Any, ratio: Any = None, training_mode: Any = None, *, seed: int = 0) -> Any:
    if training_mode is not None and known(training_mode, "training_mode").any():
        raise LoadError("training_mode=True is not supported")
    return as_tensor(x)


@operator("Dropout", until=11)
def _no_dropout(x: Any, *, ratio: float = 0.5) -> Any:
    return as_tensor(x)


# -- reductions ------------------------------------------------------------------------------


def _of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, **how: Any) -> Any:
        if x.dtype.kind != "f":
            raise LoadError(f"it is not supported for {x.dtype}")
        return function(x, **how)

    return reduce


def _extremum(function: Callable[..., Any], is_largest: bool) -> Callable[..., Any]:
    def reduce(x: Any, **how: Any) -> Any:
        shape = np.empty(x.shape, bool).any(**how).shape
        if x.size or 0 in shape:
            return function(x, **how)
        return ops.full(shape, _worst(x.dtype, is_largest), x.dtype)  # of no elements

    return reduce


def _worst(dtype: Any, is_largest: bool) -> Any:
    if dtype.kind == "f":
        return -np.inf if is_largest else np.inf
    if dtype.kind == "b":
        return not is_largest
    return np.iinfo(dtype).min if is_largest else np.iinfo(dtype).max


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **how: ops.sum(ops.abs(x), **how),
    "ReduceL2": _of_floats(lambda x, **how: ops.sqrt(ops.sum(x * x, **how))),
    "ReduceLogSum": _of_floats(lambda x, **how: ops.log(ops.sum(x, **how))),
    "ReduceLogSumExp": _of_floats(ops.logsumexp),
    "ReduceMax": _extremum(ops.max, True),
    "ReduceMean": _of_floats(ops.mean),
    "ReduceMin": _extremum(ops.min, False),
    "ReduceProd": ops.prod,
    "ReduceSum": ops.sum,
    "ReduceSumSquare": lambda x, **how: ops.sum(x * x, **how),
}
# What is the same with and without a reduction over no axis: for the others, runtimes differ.
UNCHANGED = {"ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}


def _reduced(name: str, x: Any, axes: list[int] | None, keepdims: int) -> Any:
    x = as_tensor(x)
    how = {"axis": tuple(axes) if axes else None, "keepdims": bool(keepdims)}
    return ops.astype(REDUCTIONS[name](x, **how), x.dtype)  # sums of short integers are long


def _reduction(name: str) -> Callable[..., Any]:
    def compute(x: Any, axes: Any = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0) -> Any:
        chosen = None if axes is None else ints(axes, "an axis")
        if chosen or not noop_with_empty_axes:
            return _reduced(name, x, chosen, keepdims)
        if name not in UNCHANGED:
            raise LoadError("noop_with_empty_axes=1 without axes is not supported")
        return as_tensor(x)

    return compute


def _older_reduction(name: str) -> Callable[..., Any]:
    def compute(x: Any, *, axes: Any = None, keepdims: Flag = 1) -> Any:
        return _reduced(name, x, axes, keepdims)

    return compute


for _name in REDUCTIONS:
    _first = 13 if _name == "ReduceSum" else 18  # the first version whose axes are an input
    operator(_name, since=_first)(_reduction(_name))
    operator(_name, until=_first - 1)(_older_reduction(_name))


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Any, *, axis: int = 0, keepdims: Flag = 1, select_last_index: Flag = 0) -> Any:
        x = as_tensor(x)
        if not select_last_index:
            return function(x, axis, bool(keepdims))
        return x.shape[axis] - 1 - function(ops.flip(x, axis), axis, bool(keepdims))

    return compute


for _name, _function in {"ArgMax": ops.argmax, "ArgMin": ops.argmin}.items():
    operator(_name)(_extreme(_function))


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(x: Any, *, axis: int = -1) -> Any:
        return function(as_tensor(x), axis)

    return compute


def _of_rest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function over all axes from one on, as before version 13."""

    def compute(x: Any, *, axis: int = 1) -> Any:
        x = as_tensor(x)
        return ops.reshape(function(flattened(x, axis), -1), x.shape)

    return compute


def flattened(x: Any, axis: int) -> Any:
    """Return x as a matrix: axes before `axis` become its rows, all others its columns."""
    if not -x.ndim <= axis <= x.ndim:
        raise LoadError(f"axis={axis} is out of bounds for an array of {x.ndim} axes")
    at = axis % x.ndim if axis < 0 else axis
    rows, columns = (int(np.prod(part, dtype=np.int64)) for part in (x.shape[:at], x.shape[at:]))
    return ops.reshape(x, (rows, columns))


for _name, _function in {"Softmax": ops.softmax, "LogSoftmax": ops.log_softmax}.items():
    operator(_name, since=13)(_along(_function))
    operator(_name, until=12)(_of_rest(_function))
