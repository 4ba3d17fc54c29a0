"""Rows of elementwise functions."""

import math

import numpy as np
import scipy.special
import scipy.stats

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from tests.contracts.table import PAIRS, Case, Row, binary, flags, real, unary

try:
    import torch
    import torch.nn.functional as F  # noqa: N812
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = F = None

APART = {"kind": "apart"}
POSITIVE = {"low": 0.2, "high": 3.0}


def _comparison(name: str) -> Row:
    return Row(
        name,
        getattr(np, name),
        [*binary(), Case((real(3), real(3, low=0.0, high=0.0)))],
        name,
        order=0,
        torch=lambda x, y: getattr(torch, {"not_equal": "ne", "equal": "eq"}.get(name, name))(x, y),
    )


def _softplus(x):
    return np.logaddexp(x, 0.0)


def _selu(x):
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _hardswish(x):
    return x * np.clip(x + 3, 0, 6) / 6


def _halves(x, axis):
    a, b = np.split(x, 2, axis)
    return a, 1 / (1 + np.exp(-b))


def _clamp(x, min=None, max=None):
    if min is None and max is None:
        return x * 1
    if isinstance(min, torch.Tensor):
        x, min, max = torch.broadcast_tensors(x, min.double(), max.double())
    return x.clamp(min, max)


def _gelu(x, approximate="none"):
    if approximate == "none":
        return x * scipy.stats.norm.cdf(x)
    return x * scipy.special.expit(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_tanh_gradient(g, x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return g * (0.5 * (1 + np.tanh(inner)) + 0.5 * x * slope / np.cosh(inner) ** 2)


def _record(name):
    return lambda *operands: bind(PRIMITIVES[name], tuple(map(as_tensor, operands)), {})


ROWS = [
    # -- arithmetic
    Row("add", np.add, binary(), "add", torch=lambda x, y: x + y),
    Row("subtract", np.subtract, binary(), "subtract", torch=lambda x, y: x - y),
    Row("multiply", np.multiply, binary(), "multiply", torch=lambda x, y: x * y),
    Row("divide", np.divide, binary(second=APART), "divide", torch=lambda x, y: x / y),
    Row(
        "pow",
        np.power,
        [*binary(POSITIVE), *(Case((real(3, 4, **APART), n)) for n in (0, 1, 2, 3, -1, 2.0))],
        "pow",
        torch=lambda x, y: x**y,
    ),
    Row("negative", np.negative, unary(), "negative", torch=lambda x: -x),
    Row("positive", np.positive, unary(), "positive", torch=lambda x: +x),
    Row("reciprocal", lambda x: 1 / x, unary(**APART), torch=lambda x: x.reciprocal()),
    Row("abs", np.abs, unary(**APART), "abs", torch=lambda x: x.abs()),
    *map(_comparison, ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")),
    # -- elementary functions
    Row("exp", np.exp, unary(), "exp", torch=lambda x: x.exp()),
    Row("log", np.log, unary(**POSITIVE), "log", torch=lambda x: x.log()),
    Row("sqrt", np.sqrt, unary(**POSITIVE), "sqrt", torch=lambda x: x.sqrt()),
    Row("expm1", np.expm1, unary(), "expm1", torch=lambda x: x.expm1()),
    Row("log1p", np.log1p, unary(low=-0.8), "log1p", torch=lambda x: x.log1p()),
    Row("square", lambda x: x**2, unary(), "square", torch=lambda x: x.square()),
    Row("sign", np.sign, unary(**APART), "sign", torch=lambda x: x.sign()),
    Row(
        "erf",
        lambda x: 2 * scipy.stats.norm.cdf(x * math.sqrt(2)) - 1,
        unary(),
        "erf",
        torch=lambda x: x.erf(),
    ),
    Row("erfc", scipy.special.erfc, unary(), "erfc", torch=lambda x: torch.erfc(x)),
    Row("rsqrt", lambda x: 1 / np.sqrt(x), unary(**POSITIVE), torch=lambda x: x.rsqrt()),
    Row(
        "scaled_quotient",
        lambda scale, x, y: scale * x / y,
        [
            Case((real(), real(3, 4), real(3, 4, **APART))),
            Case((real(3, 1), real(4), real(2, 1, 1, **APART))),
            Case((0.5, real(7), real(7, **APART))),
            Case((real(), real(0, 3), real(3, **APART))),
        ],
        "scaled_quotient",
        torch=lambda scale, x, y: scale * x / y,
    ),
    # -- selection
    Row(
        "where",
        np.where,
        [
            Case((flags(3, 4), real(3, 4), real(3, 4))),
            Case((flags(3, 1), real(4), real(1, 1))),
            Case((flags(4), real(3, 4), 0.5)),
            Case((flags(3, 4), -1.5, real(4))),
            Case((flags(), real(3), real(3))),
            Case((flags(0, 3), real(3), real(1))),
        ],
        "where",
        torch=lambda c, x, y: torch.where(c, x, y),
    ),
    Row(
        "maximum",
        np.maximum,
        binary(),
        "maximum",
        torch=lambda x, y: torch.maximum(*torch.broadcast_tensors(x, y)),
    ),
    Row(
        "minimum",
        np.minimum,
        binary(),
        "minimum",
        torch=lambda x, y: torch.minimum(*torch.broadcast_tensors(x, y)),
    ),
    Row(
        "clip",
        lambda x, min=None, max=None: np.clip(x, min, max),
        [
            Case((real(3, 4), real(4), real(3, 1))),
            Case((real(3, 4),), {"min": -0.5, "max": 0.7}),
            Case((real(7),), {"min": 0.1}),
            Case((real(),), {"max": 0.1}),
            Case((real(0, 2),), {"min": 0, "max": 1}),
            Case((real(4), real(3, 4, low=0.0), 0.5)),
            Case((real(4), -0.5, real(3, 4, high=0.0))),
        ],
        "clip",
        torch=_clamp,
    ),
    Row(
        "xlogy",
        scipy.special.xlogy,
        [*binary(second=POSITIVE), Case((0.0, real(3, **POSITIVE)))],
        "xlogy",
        torch=lambda x, y: torch.xlogy(x, y),
    ),
    Row(
        "astype",
        lambda x, dtype: x.astype(dtype),
        [
            Case((real(3, 4),), {"dtype": "float64"}),
            Case((real(3),), {"dtype": np.dtype("float64")}),
            Case((flags(3),), {"dtype": "float64"}),
            Case((real(0, 3),), {"dtype": "int64"}),
            Case((real(4),), {"dtype": bool}),
        ],
        "astype",
        torch="a cast",
    ),
    # -- activations
    Row("relu6", lambda x: np.clip(x, 0, 6), unary(low=-2, high=9), torch=lambda x: F.relu6(x)),
    Row(
        "hardtanh",
        lambda x, min=-1, max=1: np.clip(x, min, max),
        [*unary(), Case((real(7),), {"min": -0.5, "max": 0.1})],
        torch=lambda x, min=-1, max=1: F.hardtanh(x, min, max),
    ),
    Row(
        "hardsigmoid",
        lambda x: np.clip(x + 3, 0, 6) / 6,
        [*unary(), Case((real(40, low=-5.0, high=5.0),))],
        torch=lambda x: F.relu6(x + 3) / 6,
    ),
    Row("softsign", lambda x: x / (1 + abs(x)), unary(**APART), torch=lambda x: F.softsign(x)),
    Row(
        "celu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        [*unary(**APART), Case((real(3, **APART),), {"alpha": 0.3})],
        torch=lambda x, alpha=1.0: F.elu(x / alpha) * alpha,
    ),
    Row(
        "prelu",
        lambda x, slope: np.where(x > 0, x, slope * x),
        [*binary(APART)[:-1], Case((real(2, 3, 4, **APART), real(3, 1)))],
        torch=lambda x, slope: torch.where(x > 0, x, slope * x),
    ),
    Row(
        "glu",
        lambda x, axis=-1: np.multiply(*_halves(x, axis)),
        [Case((real(3, 4),)), Case((real(2, 4, 3),), {"axis": 1}), Case((real(0, 2),))],
        torch=lambda x, axis=-1: F.glu(x, axis),
    ),
    Row("relu", lambda x: x * (x > 0), unary(**APART), "relu", torch=lambda x: F.relu(x)),
    Row("sigmoid", lambda x: 1 / (1 + np.exp(-x)), unary(), "sigmoid", torch=lambda x: x.sigmoid()),
    Row("log_sigmoid", lambda x: -_softplus(-x), unary(), "log_sigmoid", torch=lambda x: F.logsigmoid(x)),
    Row("softplus", _softplus, unary(), "softplus", torch=lambda x: torch.logaddexp(x, torch.zeros_like(x))),
    Row(
        "leaky_relu",
        lambda x, negative_slope=0.01: np.maximum(x, 0) + negative_slope * np.minimum(x, 0),
        [*unary(**APART), Case((real(3, **APART),), {"negative_slope": 0.3})],
        torch=lambda x, negative_slope=0.01: F.leaky_relu(x, negative_slope),
    ),
    Row(
        "elu",
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)),
        [*unary(**APART), Case((real(3, **APART),), {"alpha": 0.3})],
        torch=lambda x, alpha=1.0: F.elu(x, alpha),
    ),
    Row("selu", _selu, unary(**APART), torch=lambda x: F.selu(x)),
    Row("silu", lambda x: x / (1 + np.exp(-x)), unary(), torch=lambda x: F.silu(x)),
    Row(
        "mish",
        lambda x: x * np.tanh(_softplus(x)),
        unary(),
        torch=lambda x: x * torch.tanh(F.softplus(x, threshold=100)),
    ),
    Row(
        "hardswish",
        _hardswish,
        [*unary(), Case((real(40, low=-5.0, high=5.0),))],
        torch=lambda x: F.hardswish(x),
    ),
    Row(
        "gelu",
        _gelu,
        [*unary(), Case((real(3, 4),), {"approximate": "tanh"})],
        torch=lambda x, approximate="none": F.gelu(x, approximate=approximate),
    ),
    Row(
        "gelu_tanh",
        lambda x: _gelu(x, "tanh"),
        unary(),
        "gelu_tanh",
        torch=lambda x: F.gelu(x, approximate="tanh"),
        call=lambda x: ops.gelu(x, "tanh"),
    ),
    Row(
        "gelu_tanh_gradient",
        _gelu_tanh_gradient,
        [Case((real(*of_g), real(*of_x))) for of_g, of_x in PAIRS],
        "gelu_tanh_gradient",
        integers=False,
        torch="the gradient of gelu_tanh, compared there",
        call=_record("gelu_tanh_gradient"),
    ),
]
