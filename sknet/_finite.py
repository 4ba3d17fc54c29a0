"""Tests whether all numbers of an array are finite."""

import math

import numpy as np

__all__ = ["all_finite"]

SMALL = 1 << 16  # numbers of which a mask is faster than a sum, and small


def all_finite(x: np.ndarray) -> bool:
    """Tell whether no number of an array on the host is NaN or infinite."""
    if x.size > SMALL:
        with np.errstate(all="ignore"):
            if math.isfinite(np.add.reduce(x, axis=None)):
                return True  # otherwise, the sum may just have overflowed
    return bool(np.isfinite(x).all())
