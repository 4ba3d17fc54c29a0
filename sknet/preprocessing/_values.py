"""Single values of a table: which of them are missing, and which are numbers."""

from numbers import Number
from typing import Any

import numpy as np

__all__ = ["HUGE", "is_missing", "is_number", "to_number"]

# Beyond it values count as infinite, so that no difference or ratio of two others overflows.
HUGE = 1e150


def is_missing(value: Any) -> bool:
    """Tell whether a value stands for one that is not known: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (str, bytes, int)):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA does not say; an array has several answers
        return type(value).__name__ == "NAType"


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number, or missing; True and False are none."""
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return True
    if isinstance(value, (bool, np.bool_, complex, np.complexfloating, np.timedelta64)):
        return False
    return isinstance(value, Number) or is_missing(value)


def to_number(value: Any, label: str, row: int) -> float:
    """Return a value as a float, NaN if it is missing.

    Parameters
    ----------
    value : object
        What is in the table.
    label, row : str, int
        Where, for a message.

    Returns
    -------
    float
        The number.

    Raises
    ------
    ValueError, TypeError
        If it is no number; the message names the column.
    """
    try:
        if is_missing(value):
            return np.nan
        return float(value.total_seconds() if hasattr(value, "total_seconds") else value)
    except ValueError:
        raise ValueError(
            f"{label}: could not convert string to float: expected numbers, got {value!r} in row {row}. Name "
            "the column in categorical_features, or leave that at 'from_dtype'."
        ) from None
    except TypeError:
        raise TypeError(
            f"{label}: argument must be a string or a real number, got {value!r} in row {row}"
        ) from None
