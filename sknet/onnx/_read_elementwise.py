"""Elementwise ONNX operators, and reductions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet import ops
from sknet.core import as_tensor
from sknet.exceptions import LoadError
from sknet.onnx._reading import READ, are_known, ints, operator

__all__: list[str] = []

Attributes = dict[str, Any]

# Operators without attributes: the function on tensors, and on known arrays.
PLAIN: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "Abs": (ops.abs, np.abs),
    "Acos": (ops.acos, np.arccos),
    "Acosh": (ops.acosh, np.arccosh),
    "Add": (ops.add, np.add),
    "And": (ops.logical_and, np.logical_and),
    "Asin": (ops.asin, np.arcsin),
    "Asinh": (ops.asinh, np.arcsinh),
    "Atan": (ops.atan, np.arctan),
    "Atanh": (ops.atanh, np.arctanh),
    "BitwiseAnd": (ops.bitwise_and, np.bitwise_and),
    "BitwiseNot": (ops.bitwise_invert, np.invert),
    "BitwiseOr": (ops.bitwise_or, np.bitwise_or),
    "BitwiseXor": (ops.bitwise_xor, np.bitwise_xor),
    "Ceil": (ops.ceil, np.ceil),
    "Cos": (ops.cos, np.cos),
    "Cosh": (ops.cosh, np.cosh),
    "Equal": (ops.equal, np.equal),
    "Erf": (ops.erf, None),
    "Exp": (ops.exp, np.exp),
    "Floor": (ops.floor, np.floor),
    "Greater": (ops.greater, np.greater),
    "GreaterOrEqual": (ops.greater_equal, np.greater_equal),
    "HardSwish": (ops.hardswish, None),
    "Identity": (lambda x: x, lambda x: x),
    "IsNaN": (ops.isnan, np.isnan),
    "Less": (ops.less, np.less),
    "LessOrEqual": (ops.less_equal, np.less_equal),
    "Log": (ops.log, np.log),
    "MatMul": (ops.matmul, np.matmul),
    "Mish": (ops.mish, None),
    "Mul": (ops.multiply, np.multiply),
    "Neg": (ops.negative, np.negative),
    "Not": (ops.logical_not, np.logical_not),
    "Or": (ops.logical_or, np.logical_or),
    "PRelu": (lambda x, slope: ops.where(ops.greater(x, 0), x, slope * x), None),
    "Pow": (lambda x, y: ops.astype(ops.pow(x, y), x.dtype), np.power),
    "Reciprocal": (ops.reciprocal, np.reciprocal),
    "Relu": (ops.relu, None),
    "Round": (ops.round, np.rint),
    "Sigmoid": (ops.sigmoid, None),
    "Sign": (ops.sign, np.sign),
    "Sin": (ops.sin, np.sin),
    "Sinh": (ops.sinh, np.sinh),
    "Softplus": (ops.softplus, None),
    "Softsign": (ops.softsign, None),
    "Sqrt": (ops.sqrt, np.sqrt),
    "Sub": (ops.subtract, np.subtract),
    "Tan": (ops.tan, np.tan),
    "Tanh": (ops.tanh, np.tanh),
    "Where": (ops.where, np.where),
    "Xor": (ops.logical_xor, np.logical_xor),
}


def _plain(function: Callable[..., Any], of_known: Callable[..., Any] | None) -> Callable[..., Any]:
    def compute(attributes: Attributes, *inputs: Any) -> Any:
        if of_known is not None and are_known(*inputs):
            return of_known(*inputs)
        return function(*map(as_tensor, inputs))

    return compute


READ.update({name: _plain(*functions) for name, functions in PLAIN.items()})


@operator("Div")
def _divide(attributes: Attributes, x: Any, y: Any) -> Any:
    if are_known(x, y):
        return np.trunc(x / y).astype(x.dtype) if x.dtype.kind in "iu" else x / y
    x, y = as_tensor(x), as_tensor(y)
    if x.dtype.kind == "f":
        return x / y
    down = x // y  # towards zero, as in C
    return down + ops.astype(ops.logical_and(ops.less(down, 0), ops.not_equal(down * y, x)), x.dtype)


@operator("Mod")
def _modulo(attributes: Attributes, x: Any, y: Any) -> Any:
    if not attributes.get("fmod", 0):
        return np.mod(x, y) if are_known(x, y) else as_tensor(x) % as_tensor(y)
    x, y = as_tensor(x), as_tensor(y)
    rest = ops.abs(x) % ops.abs(y)
    return ops.where(ops.less(x, 0), -rest, rest)


def _fold(function: Callable[..., Any], of_known: Callable[..., Any]) -> Callable[..., Any]:
    def compute(attributes: Attributes, first: Any, *others: Any) -> Any:
        for other in others:
            both = (first, other)
            first = of_known(*both) if are_known(*both) else function(*map(as_tensor, both))
        return first

    return compute


READ["Max"] = _fold(ops.maximum, np.maximum)
READ["Min"] = _fold(ops.minimum, np.minimum)
READ["Sum"] = _fold(ops.add, np.add)


@operator("Mean")
def _mean_of(attributes: Attributes, *inputs: Any) -> Any:
    return READ["Sum"]({}, *inputs) / len(inputs)


@operator("Cast")
def _cast(attributes: Attributes, x: Any) -> Any:
    dtype = attributes["to"]
    return np.asarray(x).astype(dtype) if are_known(x) else ops.astype(x, dtype)


@operator("IsInf")
def _is_infinite(attributes: Attributes, x: Any) -> Any:
    x = as_tensor(x)
    found = ops.isinf(x)
    if not attributes.get("detect_negative", 1):
        found = ops.logical_and(found, ops.greater(x, 0))
    if not attributes.get("detect_positive", 1):
        found = ops.logical_and(found, ops.less(x, 0))
    return found


@operator("Clip")
def _clip(attributes: Attributes, x: Any, low: Any = None, high: Any = None) -> Any:
    x = as_tensor(x)
    bounds = [attributes.get(n) if v is None else v for n, v in (("min", low), ("max", high))]
    for bound, function in zip(bounds, (ops.maximum, ops.minimum), strict=True):
        x = x if bound is None else function(x, ops.astype(as_tensor(bound), x.dtype))
    return x


@operator("LeakyRelu")
def _leaky(attributes: Attributes, x: Any) -> Any:
    return ops.leaky_relu(x, attributes.get("alpha", 0.01))


@operator("Elu")
def _elu(attributes: Attributes, x: Any) -> Any:
    return ops.elu(x, attributes.get("alpha", 1.0))


@operator("Celu")
def _celu(attributes: Attributes, x: Any) -> Any:
    return ops.celu(x, attributes.get("alpha", 1.0))


@operator("Selu")
def _selu(attributes: Attributes, x: Any) -> Any:
    x = as_tensor(x)
    alpha, gamma = attributes.get("alpha", 1.6732631921768188), attributes.get("gamma", 1.0507010221481323)
    return gamma * ops.where(ops.greater(x, 0), x, alpha * ops.expm1(ops.minimum(x, 0)))


@operator("Gelu")
def _gelu(attributes: Attributes, x: Any) -> Any:
    return ops.gelu(x, attributes.get("approximate", "none"))


@operator("HardSigmoid")
def _hard_sigmoid(attributes: Attributes, x: Any) -> Any:
    return ops.clip(attributes.get("alpha", 0.2) * as_tensor(x) + attributes.get("beta", 0.5), 0.0, 1.0)


@operator("Dropout")
def _dropout(attributes: Attributes, x: Any, *_: Any) -> Any:
    return x  # exported networks are in evaluation mode


# -- reductions ------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": lambda x, **how: ops.sum(ops.abs(x), **how),
    "ReduceL2": lambda x, **how: ops.sqrt(ops.sum(x * x, **how)),
    "ReduceLogSum": lambda x, **how: ops.log(ops.sum(x, **how)),
    "ReduceLogSumExp": ops.logsumexp,
    "ReduceMax": ops.max,
    "ReduceMean": ops.mean,
    "ReduceMin": ops.min,
    "ReduceProd": ops.prod,
    "ReduceSum": ops.sum,
    "ReduceSumSquare": lambda x, **how: ops.sum(x * x, **how),
}


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(attributes: Attributes, x: Any, axes: Any = None) -> Any:
        chosen = attributes.get("axes") if axes is None else ints(axes, "an axis")
        if not chosen and attributes.get("noop_with_empty_axes", 0):
            return x
        how = {"axis": tuple(chosen) if chosen else None, "keepdims": bool(attributes.get("keepdims", 1))}
        found = function(as_tensor(x), **how)
        return found.numpy() if are_known(x) else found

    return compute


READ.update({name: _reduction(function) for name, function in REDUCTIONS.items()})


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(attributes: Attributes, x: Any) -> Any:
        if attributes.get("select_last_index", 0):
            raise LoadError("select_last_index of ArgMax and ArgMin is not supported")
        return function(as_tensor(x), attributes.get("axis", 0), bool(attributes.get("keepdims", 1)))

    return compute


READ["ArgMax"], READ["ArgMin"] = _extreme(ops.argmax), _extreme(ops.argmin)


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda attributes, x: function(as_tensor(x), attributes.get("axis", -1))


READ["Softmax"], READ["LogSoftmax"] = _along(ops.softmax), _along(ops.log_softmax)
