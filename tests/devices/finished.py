"""Products of the fake device with what follows them, as a library has them on a GPU, by NumPy."""

from typing import Any

import numpy as np

from tests.devices.rounding import from_halves, rounded, to_halves

__all__ = ["CHAINS", "WITH_TERM", "finish", "finish_halves"]

CHAINS = ("bias", "relu"), ("relu",), ("bias",), ("sums of y",), ()  # parts of one launch
WITH_TERM = (), ("sums of y",)  # those that a further term can precede


def finish(
    x: Any, y: Any, out: Any, vector: Any, term: Any, parts: Any, factor: float, bits: int | None
) -> None:
    """Compute ``x @ y`` and its ending.

    Factors keep some `bits` of their fractions, or all. Operations are rounded one by one, in the order of
    the kernels that would do it otherwise; but sums are NumPy's.
    """
    factors = (x, y) if bits is None else (rounded(x, bits), rounded(y, bits))
    np.matmul(*factors, out=out)
    if term is not None:
        np.add(out, out.dtype.type(factor) * term, out=out)
    for part in parts:
        PARTS[part](y, out, vector)


def finish_halves(x: Any, y: Any, out: Any, vector: Any, term: Any, parts: Any, factor: float) -> None:
    """Compute the same of arrays of uint16 that hold bfloat16; vector and term are as the result."""
    factors = from_halves(x), from_halves(y)
    if out.dtype == np.float32:
        finish(*factors, out, vector, term, parts, factor, None)
        return
    found = np.empty(out.shape, np.float32)
    others = [each if each is None else from_halves(each) for each in (vector, term)]
    finish(*factors, found, *others, parts, factor, None)
    out[...] = to_halves(found)


def _bias(y: Any, out: Any, vector: Any) -> None:
    np.add(out, vector, out=out)


def _relu(y: Any, out: Any, vector: Any) -> None:
    out[~(out > 0)] = 0  # NaN, too


def _sums_of_y(y: Any, out: Any, vector: Any) -> None:
    np.sum(y, axis=-2, out=vector)


PARTS = {"bias": _bias, "relu": _relu, "sums of y": _sums_of_y}
