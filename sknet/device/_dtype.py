"""The dtypes that sknet computes with."""

from typing import Any

import numpy as np

from sknet.exceptions import DtypeError

__all__ = ["check_float_dtype", "is_floating", "result_dtype"]

FLOAT_DTYPES = ("float32", "float64")
SINGLE, DOUBLE = map(np.dtype, FLOAT_DTYPES)


def is_floating(dtype: Any) -> bool:
    """Tell whether gradients can flow through arrays of this dtype."""
    return bool(np.dtype(dtype).kind == "f")


def check_float_dtype(dtype: Any, *, where: str) -> np.dtype[Any]:
    """Return the dtype to compute in.

    Parameters
    ----------
    dtype : str or dtype
        ``"float32"`` or ``"float64"``.
    where : str
        The object whose dtype it is, for messages.

    Returns
    -------
    dtype
        The NumPy dtype.

    Raises
    ------
    DtypeError
        If sknet does not compute in this dtype.
    """
    try:
        found: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
    except TypeError:
        found = None
    if found is SINGLE or found is DOUBLE:  # their names take longer
        return found
    if found is None or found.name not in FLOAT_DTYPES:
        raise DtypeError(f"the dtype of {where} must be one of {list(FLOAT_DTYPES)}, got {dtype!r}")
    return found


def result_dtype(*operands: Any) -> np.dtype[Any]:
    """Return NumPy's result dtype for `operands`: arrays and weakly typed Python scalars."""
    return np.result_type(*(x if isinstance(x, (bool, int, float)) else x.dtype for x in operands))
