"""The data between steps: arrays, CSR matrices and data frames, converted as scikit-learn does."""

import math
from typing import Any

import numpy as np

from sknet._frames import FLOATS, Frame, with_columns
from sknet._scipy import issparse

__all__ = ["as_array", "as_floats", "as_plain", "check_finite"]


def as_floats(X: Any) -> Any:
    """Return a table as real numbers; NaN is allowed."""
    if issparse(X):
        X = X.tocsr()
        X = X if X.dtype in FLOATS else X.astype(FLOATS[0])
        check_finite(X.data)
        return X
    try:
        if type(X) is Frame:
            X = X.array(FLOATS)
        elif X.dtype not in FLOATS:
            X = np.asarray(X, dtype=FLOATS[0])
    except (ValueError, TypeError) as error:
        raise with_columns(error, X) from None
    check_finite(X)
    return X


def as_array(X: Any, dtype: Any = None) -> Any:
    """Return a dense table as an array, optionally of a given dtype."""
    if issparse(X):
        raise TypeError("this pipeline takes no sparse X: use X.toarray()")
    return X.array(dtype) if type(X) is Frame else np.asarray(X, dtype=dtype)


def as_plain(X: Any) -> Any:
    """Return a table as NumPy converts it."""
    return X.plain() if type(X) is Frame else X


def check_finite(values: Any) -> None:
    """Raise a ValueError if a value is infinite; NaN is allowed."""
    # A sum is finite unless an element is not, or it overflows; NaN alone is allowed.
    if not math.isfinite(np.add.reduce(values, axis=None)) and np.isinf(values).any():
        raise ValueError("Input X contains infinity or a value too large for its dtype")
