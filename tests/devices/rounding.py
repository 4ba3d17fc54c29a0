"""float32 numbers with fewer bits, as the factors of products on a GPU may have them."""

import numpy as np

__all__ = ["BITS", "from_halves", "rounded", "to_halves"]

BITS = {"tf32": 10, "bfloat16": 7}  # of the fraction; those of the exponent are float32's


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Return x with so many bits of the fraction, rounded to nearest; ties go to even numbers."""
    if x.dtype != np.float32:
        raise TypeError(f"only float32 is rounded, got {x.dtype}")
    fraction, exponent = np.frexp(x.astype(np.float64))
    with np.errstate(over="ignore"):  # the largest numbers become infinite
        return np.ldexp(np.rint(np.ldexp(fraction, bits + 1)), exponent - bits - 1).astype(np.float32)


def to_halves(x: np.ndarray) -> np.ndarray:
    """Return float32 numbers as bfloat16, in arrays of uint16; numbers below 2**-126 have fewer bits."""
    exponent = np.maximum(np.frexp(x)[1], -125) - 8
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.ldexp(np.rint(np.ldexp(x.astype(np.float64), -exponent)), exponent).astype(np.float32)
    return (found.view(np.uint32) >> 16).astype(np.uint16)


def from_halves(x: np.ndarray) -> np.ndarray:
    """Return bfloat16 numbers, in arrays of uint16, as float32."""
    return (x.astype(np.uint32) << 16).view(np.float32)
