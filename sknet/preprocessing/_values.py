"""Single values of a table: missing values and numbers."""

from numbers import Number
from typing import Any

import numpy as np

__all__ = ["HUGE", "is_missing", "is_number", "of_another_type", "to_number"]

# Larger values count as infinite, so that no difference or ratio of two others overflows.
HUGE = 1e150


def is_missing(value: Any) -> bool:
    """Tell whether a value is missing: None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (str, bytes, int)):
        return False
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA and arrays have no truth value
        return type(value).__name__ == "NAType"


def is_number(value: Any) -> bool:
    """Tell whether a value is a real number (not a bool), or missing."""
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return True
    if isinstance(value, (bool, np.bool_, complex, np.complexfloating, np.timedelta64)):
        return False
    return isinstance(value, Number) or is_missing(value)


def to_number(value: Any, label: str, row: int) -> float:
    """Return a value as a float, NaN if it is missing."""
    if isinstance(value, np.complexfloating):  # whose conversion only warns
        value = value.item()
    try:
        if is_missing(value):
            return np.nan
        return float(value.total_seconds() if hasattr(value, "total_seconds") else value)
    except ValueError:
        raise ValueError(
            f"{label}: could not convert string to float: expected numbers, got {value!r} in row {row}. Name "
            "the column in categorical_features, or use categorical_features='from_dtype'."
        ) from None
    except TypeError:
        raise TypeError(
            f"{label}: argument must be a string or a real number, got {value!r} in row {row}"
        ) from None


def of_another_type(levels: list[Any], known: Any) -> str:
    """Return a message if unseen levels are texts where known ones are none, or the reverse; else nothing."""
    is_text, was_text = ({isinstance(level, str) for level in each} for each in (levels, known))
    if not len(is_text) == len(was_text) == 1 or is_text == was_text:
        return ""
    if not {*map(str, levels)} & {*map(str, known)}:
        return ""
    now, before = ("texts" if True in each else "no texts" for each in (is_text, was_text))
    return (
        f"all levels are unseen, since they are {now}, such as {levels[0]!r}, and those of the fit are "
        f"{before}, such as {next(iter(known))!r}: convert the column"
    )
