"""Errors about tables that are not numbers say which columns, and how to encode them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sknet._frames import Frame, is_frame

__all__ = ["naming_columns"]

MOST = 5  # columns that are named


@contextmanager
def naming_columns(estimator: Any, X: Any) -> Iterator[None]:
    """Raise errors of a check of X with the columns that are not numbers, and what takes them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        advice = _advice(estimator, X, str(error))
        if advice is None:
            raise
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{error}\n{advice}") from error


def _advice(estimator: Any, X: Any, said: str) -> str | None:
    if getattr(estimator, "encoder", "") is not None:  # it takes none, or it has one
        return None
    takes = f'{type(estimator).__name__}(encoder="table") reads'
    if found := _not_numbers(X):
        more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        return (
            f"X has columns that are not numbers: {', '.join(found[:MOST])}{more}. {takes} categories, dates "
            "and missing values as they are; or encode them first, as by a ColumnTransformer."
        )
    if "Input X contains NaN" in said:
        return f"{takes} missing values as they are; or fill them first, as by a SimpleImputer."
    return None


def _not_numbers(X: Any) -> list[str]:
    """Return the columns that cannot be read as numbers."""
    if is_frame(X):
        names, columns = map(repr, X.columns), Frame(X).columns()
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        if array.ndim != 2 or array.dtype.kind in "biufc":
            return []
        names, columns = map(str, range(array.shape[1])), iter(array.T)
    return [name for name, column in zip(names, columns, strict=True) if not _is_number(column)]


def _is_number(values: np.ndarray) -> bool:
    if values.dtype.kind in "mM":
        return False
    try:
        values.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True
