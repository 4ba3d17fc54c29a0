"""The dtypes that sknet computes with, and the precision of products on devices."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.exceptions import DtypeError

__all__ = [
    "PRECISIONS",
    "arrays_in",
    "check_float_dtype",
    "check_precision",
    "is_floating",
    "product_precision",
    "products_in",
    "result_dtype",
]


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


# -- precision of products --------------------------------------------------------------------

ROUNDED = ("tf32", "bfloat16")  # of float32 arrays; 10 and 7 bits of the fraction
PRECISIONS = (*FLOAT_DTYPES, *ROUNDED)

_present: ContextVar[str] = ContextVar("precision of products of float32 on devices", default="float32")


def arrays_in(dtype: str) -> str:
    """Return the name of the dtype that arrays have in a precision.

    Parameters
    ----------
    dtype : str
        The name of a precision, or any other.

    Returns
    -------
    str
        ``"float32"`` for ``"tf32"`` and ``"bfloat16"``; all others are returned as they are.

    Examples
    --------
    >>> from sknet.device import arrays_in
    >>> arrays_in("tf32"), arrays_in("float64"), arrays_in("auto")
    ('float32', 'float64', 'auto')
    """
    return "float32" if dtype in ROUNDED else dtype


def check_precision(dtype: Any, *, where: str) -> tuple[np.dtype[Any], str]:
    """Return the dtype of arrays, and the precision of their products on devices.

    Parameters
    ----------
    dtype : str or dtype
        ``"float32"``, ``"float64"``, ``"tf32"`` or ``"bfloat16"``.
    where : str
        The object whose dtype it is, for messages.

    Returns
    -------
    dtype : dtype
        The NumPy dtype.
    precision : str
        One of the four names.

    Raises
    ------
    DtypeError
        If sknet does not compute in this precision.

    Examples
    --------
    >>> from sknet.device import check_precision
    >>> check_precision("bfloat16", where="the model")
    (dtype('float32'), 'bfloat16')
    >>> check_precision(float, where="the model")
    (dtype('float64'), 'float64')
    """
    for name in ROUNDED:
        if isinstance(dtype, str) and dtype == name:
            return SINGLE, name
    try:
        found = check_float_dtype(dtype, where=where)
    except DtypeError:
        raise DtypeError(
            f"the dtype of {where} must be one of {list(PRECISIONS)}, got {shown(dtype)}"
        ) from None
    return found, "float64" if found is DOUBLE else "float32"


def product_precision() -> str:
    """Return the precision of products of float32 arrays that are computed on devices here and now.

    Returns
    -------
    str
        ``"float32"``, ``"tf32"`` or ``"bfloat16"``.

    Examples
    --------
    >>> from sknet.device import product_precision
    >>> product_precision()
    'float32'
    """
    return _present.get()


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Let products of float32 arrays on devices have a precision, in this thread.

    Parameters
    ----------
    precision : str
        As `product_precision` returns; ``"float64"``, which says nothing about float32, is the same as
        ``"float32"``.

    Returns
    -------
    context manager
        For a ``with`` block.

    Raises
    ------
    DtypeError
        If there is no such precision.

    Examples
    --------
    >>> from sknet.device import product_precision, products_in
    >>> with products_in("tf32"):
    ...     product_precision()
    'tf32'
    """
    if precision not in PRECISIONS:
        raise DtypeError(
            f"the precision of products must be one of {list(PRECISIONS)}, got {shown(precision)}"
        )
    token = _present.set("float32" if precision == "float64" else precision)
    try:
        yield
    finally:
        _present.reset(token)
