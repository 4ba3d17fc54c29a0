"""Rows of trigonometric functions, logarithms, rounding and logic."""

import numpy as np
import scipy.special

from tests.contracts.table import Case, Row, binary, flags, indices, unary

try:
    import torch
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = None

APART = {"kind": "apart"}
POSITIVE = {"low": 0.2, "high": 3.0}
INSIDE = {"low": -0.9, "high": 0.9}
TRUTHS = [*binary(), Case((flags(3), flags(3)))]


def _plain(name, cases=None, numpy=None, torch_name=None, order=2) -> Row:
    """Return the row of a function that NumPy and PyTorch have as well."""
    return Row(
        name,
        getattr(np, numpy or name),
        cases or unary(),
        name,
        order=order,
        torch=lambda *operands: getattr(torch, torch_name or name)(*operands),
    )


def _same_dtype(name, order=2) -> Row:
    """Return the row of a function for which PyTorch requires operands of one dtype."""
    return Row(
        name,
        getattr(np, name),
        binary(second=APART),
        name,
        order=order,
        torch=lambda x, y: getattr(torch, name)(x.double(), y.double()),
    )


def _on_bits(name, numpy=None) -> Row:
    shapes = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (3,)), ((0, 3), (3,))]
    pairs = [Case((indices(*a, below=6), indices(*b, below=6))) for a, b in shapes]
    numbers = [Case((indices(3, below=6), 2)), Case((5, indices(3, below=6)))]
    truths = [] if "shift" in name else [Case((flags(3, 4), flags(4)))]
    return Row(
        name,
        getattr(np, numpy or name),
        [*pairs, *numbers, *truths],
        name,
        order=0,
        torch=lambda x, y: getattr(torch, name)(x, y),
    )


ROWS = [
    # -- trigonometric and hyperbolic
    _plain("sin"),
    _plain("cos"),
    _plain("tan", unary(low=-1.2, high=1.2)),
    _plain("asin", unary(**INSIDE), "arcsin"),
    _plain("acos", unary(**INSIDE), "arccos"),
    _plain("atan", numpy="arctan"),
    _plain("atan2", binary(APART, APART), "arctan2"),
    _plain("hypot", binary(APART, APART)),
    _plain("deg2rad"),
    _plain("sinh"),
    _plain("cosh"),
    Row("tanh", lambda x: 1 - 2 / (np.exp(2.0 * x) + 1), unary(), "tanh", torch=lambda x: x.tanh()),
    _plain("asinh", numpy="arcsinh"),
    _plain("acosh", unary(low=1.2, high=4.0), "arccosh"),
    _plain("atanh", unary(**INSIDE), "arctanh"),
    # -- exponentials and logarithms
    _plain("exp2"),
    _plain("log2", unary(**POSITIVE)),
    _plain("log10", unary(**POSITIVE)),
    _plain("logaddexp", binary()),
    Row(
        "logit",
        lambda x: scipy.special.logit(x),
        unary(low=0.1, high=0.9),
        "logit",
        torch=lambda x: torch.logit(x),
    ),
    # -- rounding
    _plain("floor"),
    _plain("ceil"),
    _plain("trunc"),
    _plain("round", numpy="rint"),
    Row(
        "floor_divide",
        np.floor_divide,
        binary(second=APART),
        "floor_divide",
        torch=lambda x, y: torch.div(x, y, rounding_mode="floor"),
    ),
    _plain("remainder", binary(second=APART)),
    # -- signs and neighbours
    _plain("signbit", order=0),
    _plain("copysign", binary(APART, APART)),
    _same_dtype("nextafter", order=0),
    # -- logic
    *(_plain(f"logical_{name}", TRUTHS, order=0) for name in ("and", "or", "xor")),
    _plain("logical_not", [*unary(), Case((flags(3),))], order=0),
    _plain("isfinite", order=0),
    _plain("isinf", order=0),
    _plain("isnan", order=0),
    _on_bits("bitwise_and"),
    _on_bits("bitwise_or"),
    _on_bits("bitwise_xor"),
    _on_bits("bitwise_left_shift", "left_shift"),
    _on_bits("bitwise_right_shift", "right_shift"),
    _plain("bitwise_invert", [Case((indices(3, below=6),)), Case((flags(5),))], "invert", "bitwise_not", 0),
]  # fmt: skip
