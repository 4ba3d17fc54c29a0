"""The dtypes that sknet computes with."""

from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.exceptions import DtypeError

__all__ = ["check_float_dtype", "is_floating", "result_dtype"]

FLOAT_DTYPES = ("float32", "float64")
SINGLE, DOUBLE = map(np.dtype, FLOAT_DTYPES)


def is_floating(dtype: Any) -> bool:
    """Tell whether gradients can flow through arrays of this dtype.

    Parameters
    ----------
    dtype : str or dtype
        Any dtype.

    Returns
    -------
    bool
        True for real floating-point numbers of any precision.

    Examples
    --------
    >>> from sknet.device import is_floating
    >>> is_floating("float32"), is_floating("int64")
    (True, False)
    """
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

    Examples
    --------
    >>> from sknet.device import check_float_dtype
    >>> check_float_dtype("float32", where="the model")
    dtype('float32')
    >>> check_float_dtype("float16", where="the model")
    Traceback (most recent call last):
        ...
    sknet.exceptions.DtypeError: the dtype of the model must be one of ['float32', 'float64'], got 'float16'
    """
    try:
        found: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
    except TypeError:
        found = None
    if found is SINGLE or found is DOUBLE:  # their names take longer
        return found
    if found is None or found.name not in FLOAT_DTYPES:
        raise DtypeError(f"the dtype of {where} must be one of {list(FLOAT_DTYPES)}, got {shown(dtype)}")
    return SINGLE if found.name == SINGLE.name else DOUBLE  # in this machine's order of bytes


def result_dtype(*operands: Any) -> np.dtype[Any]:
    """Return NumPy's result dtype for `operands`: arrays and weakly typed Python scalars.

    Parameters
    ----------
    *operands : array or number
        At least one.

    Returns
    -------
    dtype
        NumPy's, in which numbers are weak.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import result_dtype
    >>> result_dtype(np.ones(2, "float32"), 2.0), result_dtype(np.ones(2, "int64"), 2.0)
    (dtype('float32'), dtype('float64'))
    """
    return np.result_type(*(x if isinstance(x, (bool, int, float)) else x.dtype for x in operands))
