"""float32 numbers with fewer bits, as the factors of products on a GPU may have them."""

import numpy as np

__all__ = ["BITS", "rounded"]

BITS = {"tf32": 10, "bfloat16": 7}  # of the fraction; those of the exponent are float32's


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Return x with so many bits of the fraction, rounded to nearest; ties go to even numbers."""
    if x.dtype != np.float32:
        raise TypeError(f"only float32 is rounded, got {x.dtype}")
    fraction, exponent = np.frexp(x.astype(np.float64))
    with np.errstate(over="ignore"):  # the largest numbers become infinite
        return np.ldexp(np.rint(np.ldexp(fraction, bits + 1)), exponent - bits - 1).astype(np.float32)
