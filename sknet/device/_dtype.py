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
    """Tell whether gradients can flow through arrays of this dtype."""
    return bool(np.dtype(dtype).kind == "f")


def check_float_dtype(dtype: Any, *, where: str) -> np.dtype[Any]:
    """Return the dtype to compute in."""
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
    """Return NumPy's result dtype for `operands`: arrays and weakly typed Python scalars."""
    return np.result_type(*(x if isinstance(x, (bool, int, float)) else x.dtype for x in operands))


# -- precision of products --------------------------------------------------------------------

ROUNDED = ("tf32", "bfloat16")  # of float32 arrays; 10 and 7 bits of the fraction
PRECISIONS = (*FLOAT_DTYPES, *ROUNDED)

_present: ContextVar[str] = ContextVar("precision of products of float32 on devices", default="float32")


def arrays_in(dtype: str) -> str:
    """Return the name of the dtype that arrays have in a precision."""
    return "float32" if dtype in ROUNDED else dtype


def check_precision(dtype: Any, *, where: str) -> tuple[np.dtype[Any], str]:
    """Return the dtype of arrays, and the precision of their products on devices."""
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
    """Return the precision of products of float32 arrays that are computed on devices here and now."""
    return _present.get()


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Let products of float32 arrays on devices have a precision, in this thread."""
    if precision not in PRECISIONS:
        raise DtypeError(
            f"the precision of products must be one of {list(PRECISIONS)}, got {shown(precision)}"
        )
    token = _present.set("float32" if precision == "float64" else precision)
    try:
        yield
    finally:
        _present.reset(token)
