"""The table of primitives: each row is a function that writes nodes, or the reason why there is none."""

from collections.abc import Callable
from typing import Any

from sknet.compile import Equation
from sknet.onnx._writer import Value, Writer

__all__ = ["NOT_EXPORTED", "TABLE", "Row", "row"]

Row = Callable[..., Value]
TABLE: dict[str, Row] = {}

_GRADIENT = "it occurs in gradients only"
_TRAINING = "it occurs in training only, by the statistics of a batch"
_NO_OPERATOR = "ONNX has no such operator"

NOT_EXPORTED: dict[str, str] = {
    "carry": "it occurs on the tape only",
    "channel_moments": _TRAINING,
    "channel_norm": _TRAINING,
    "channel_norm_gradient": _GRADIENT,
    "cholesky": _NO_OPERATOR,
    "conv_weight": _GRADIENT,
    "dropout_mask": "ONNX has other random numbers, and predictions draw none",
    "eigh": _NO_OPERATOR,
    "inv": _NO_OPERATOR,
    "layer_norm_gradient": _GRADIENT,
    "max_pool_put": _GRADIENT,
    "max_pool_take": _GRADIENT,
    "nextafter": _NO_OPERATOR,
    "pinv": _NO_OPERATOR,
    "qr": _NO_OPERATOR,
    "recurrence_gradient": _GRADIENT,
    "slogdet": _NO_OPERATOR,
    "solve": _NO_OPERATOR,
    "sparse_matmul": "ONNX has no sparse inputs: export with a dense example",
    "svd": _NO_OPERATOR,
    "uniform_draws": "ONNX has other random numbers, and predictions draw none",
}


def row(*names: str) -> Callable[[Row], Row]:
    """Register a function for these primitives: ``write(w, equation, *operands, **params) -> Value``."""

    def enter(function: Row) -> Row:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def operands_of(w: Writer, equation: Equation) -> list[Any]:
    """Return an equation's operands: values, and numbers unless they depend on the rows."""
    numbers = w.rows.numbers(equation)
    return [
        w.value(x) if number is None else w.number(number, equation.output.dtype)
        for x, number in zip(equation.operands, numbers, strict=True)
    ]
