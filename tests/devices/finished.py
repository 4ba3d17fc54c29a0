"""Products of the fake device with what follows them, as a library has them on a GPU, by NumPy."""

from typing import Any

import numpy as np

from tests.devices.rounding import rounded

__all__ = ["finish"]

SCALE = 0.7978845608028654  # sqrt(2 / pi)


def finish(
    x: Any,
    y: Any,
    out: Any,
    vector: Any,
    auxiliary: Any,
    term: Any,
    parts: Any,
    factor: float,
    bits: int | None,
) -> None:
    """Compute ``x @ y`` and its ending; here a mask is an array of bool.

    Factors keep some `bits` of their fractions, or all. Operations are rounded one by one, in the order of
    the kernels that would do it otherwise; but sums are NumPy's.
    """
    if bits is not None:
        x, y = rounded(x, bits), rounded(y, bits)
    np.matmul(x, y, out=out)
    if term is not None:
        np.add(out, out.dtype.type(factor) * term, out=out)
    for part in parts:
        PARTS[part](y, out, vector, auxiliary)


def _bias(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    np.add(out, vector, out=out)


def _relu(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    out[~(out > 0)] = 0  # NaN, too


def _mask(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    np.greater(out, 0, out=auxiliary)


def _masked(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    out[~auxiliary] = 0


def _input(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    auxiliary[...] = out


def _gelu(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    out *= (np.tanh(SCALE * (out + 0.044715 * out**3)) + 1) / 2


def _gelu_gradient(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    x = auxiliary
    t = np.tanh(SCALE * (x + 0.044715 * x**3))
    out *= (t + 1) / 2 + x * (1 - t * t) / 2 * SCALE * (1 + 3 * 0.044715 * x * x)


def _sums(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    np.sum(out, axis=-2, out=vector)


def _sums_of_y(y: Any, out: Any, vector: Any, auxiliary: Any) -> None:
    np.sum(y, axis=-2, out=vector)


PARTS = {
    "bias": _bias, "relu": _relu, "mask": _mask, "masked": _masked, "input": _input, "gelu": _gelu,
    "gelu gradient": _gelu_gradient, "sums": _sums, "sums of y": _sums_of_y,
}  # fmt: skip
