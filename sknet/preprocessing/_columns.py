"""Columns of a table, read as numbers, levels or dates.

Frames are recognized by their methods, so that neither pandas nor polars has to be installed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

from sknet._cached import cached_property
from sknet._scipy import issparse
from sknet.preprocessing._values import is_missing, is_number, to_number

__all__ = ["CATEGORY", "DATE", "NUMBER", "Column", "columns_of", "not_a_level"]

NUMBER, CATEGORY, DATE = "number", "category", "date"
DATE_UNIT = "datetime64[us]"


class Column(ABC):
    """Abstract base: one column of a table.

    Parameters
    ----------
    label : str
        Description for messages, such as ``column 'age'``.
    values : object
        A series of a frame, or an array of shape (n_samples,).
    """

    def __init__(self, label: str, values: Any) -> None:
        self.label = label
        self.values = values

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of its values, judged by its dtype."""

    @abstractmethod
    def array(self) -> np.ndarray:
        """Return the values as an array."""

    def numbers(self) -> np.ndarray:
        """Return numbers of shape (n_samples,), NaN where missing."""
        array = self.array()
        if array.dtype.kind in "biuf":
            return array.astype(np.float64)
        if array.dtype.kind == "m":
            seconds = array.astype("timedelta64[us]")
            return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / 1e6)
        if array.dtype.kind == "M":  # as a list, some units are dates and others numbers
            array = array.astype("datetime64[us]")
        return np.array([to_number(x, self.label, i) for i, x in enumerate(array.tolist())], np.float64)

    def coded(self) -> tuple[np.ndarray, list[Any]]:
        """Return the code of each value, -1 where missing, and the levels."""
        return factorized(self.array().tolist(), self.label)

    def dates(self) -> np.ndarray:
        """Return timestamps of shape (n_samples,), NaT where missing."""
        array = self.array()
        if array.dtype.kind == "M":
            return array.astype(DATE_UNIT)
        if array.dtype.kind == "f" and np.isnan(array).all():  # nothing but missing values
            return np.full(len(array), "NaT", DATE_UNIT)
        return np.array([_date(x, self.label, i) for i, x in enumerate(array.tolist())], DATE_UNIT)


class ArrayColumn(Column):
    """A column of an array; a column of objects is numeric if all of them are numbers."""

    @cached_property
    def kind(self) -> str:
        kind = self.values.dtype.kind
        if kind == "O":
            return NUMBER if all(map(is_number, self.values.tolist())) else CATEGORY
        return _kind_of(kind, self.label)

    def array(self) -> np.ndarray:
        return np.asarray(self.values)


class PandasColumn(Column):
    """A series of pandas, or of a compatible library."""

    @property
    def kind(self) -> str:
        dtype = self.values.dtype
        return CATEGORY if str(dtype) == "category" else _kind_of(dtype.kind, self.label)

    def array(self) -> np.ndarray:
        values, dtype = self.values, self.values.dtype
        if dtype.kind in "iuf" and not isinstance(dtype, np.dtype):  # a nullable extension dtype
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values.to_numpy())

    def coded(self) -> tuple[np.ndarray, list[Any]]:
        if str(self.values.dtype) != "category":
            return super().coded()
        return np.asarray(self.values.cat.codes), self.values.cat.categories.tolist()

    def dates(self) -> np.ndarray:
        values = self.values
        if getattr(values.dtype, "tz", None) is not None:
            values = values.dt.tz_localize(None)  # keep the local time of day
        return np.asarray(values.to_numpy(dtype=DATE_UNIT)) if values.dtype.kind == "M" else super().dates()


class PolarsColumn(Column):
    """A series of polars."""

    @property
    def kind(self) -> str:
        name = type(self.values.dtype).__name__
        if name in ("Date", "Datetime"):
            return DATE
        is_number_ = self.values.dtype.is_numeric() or name in ("Duration", "Null")
        return NUMBER if is_number_ else CATEGORY

    def array(self) -> np.ndarray:
        found = np.asarray(self.values.to_numpy())
        if found.ndim == 1:
            return found
        several = np.empty(len(found), dtype=object)  # of a struct or a list, which are refused one by one
        several[:] = self.values.to_list()
        return several

    def coded(self) -> tuple[np.ndarray, list[Any]]:
        return factorized(self.values.to_list(), self.label)


def _kind_of(kind: str, label: str) -> str:
    """Return the kind of column for the kind of a dtype."""
    if kind == "c":
        raise ValueError(f"Complex data not supported: {label} holds complex numbers")
    return NUMBER if kind in "iufm" else DATE if kind == "M" else CATEGORY


def _date(value: Any, label: str, row: int) -> Any:
    """Return a value as a timestamp, NaT if it is missing; also of a text in ISO 8601."""
    if is_missing(value):
        return np.datetime64("NaT")
    try:
        if isinstance(value, (str, date, np.datetime64)):
            return np.datetime64(value).astype(DATE_UNIT)
    except (ValueError, OverflowError):  # which of a text that cannot be encoded is one of the first
        pass
    raise TypeError(
        f"{label}: expected dates, as in the fit, got {value!r} in row {row}. Convert the column, as by "
        "pandas.to_datetime."
    )


def not_a_level(label: str, value: Any, row: int) -> TypeError:
    """Return the error for a value that cannot be hashed."""
    return TypeError(
        f"{label}: argument must be a string or a number, or anything hashable, got {value!r} in row {row}"
    )


def factorized(values: Iterable[Any], label: str) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each value, -1 where missing, and the levels in order of first occurrence.

    Parameters
    ----------
    values : iterable
        Hashable values.
    label : str
        Description of the column, for messages.

    Returns
    -------
    codes : ndarray of shape (n_samples,)
        Codes, which are indices of levels.
    levels : list
        The levels, without missing values.

    Raises
    ------
    TypeError
        If a value cannot be a level; the message names the column.
    """
    known: dict[Any, int] = {}
    codes = []
    for row, value in enumerate(values):
        try:
            codes.append(known.setdefault(value, len(known)))
        except TypeError:
            raise not_a_level(label, value, row) from None
    is_level = np.array([not is_missing(value) for value in known], dtype=bool)
    renumbered = np.where(is_level, np.cumsum(is_level) - 1, -1)
    found = renumbered[np.array(codes, dtype=np.int64)] if codes else np.zeros(0, dtype=np.int64)
    return found, [value for value, kept in zip(known, is_level, strict=True) if kept]


def columns_of(X: Any, names: Sequence[Any] | None) -> list[Column]:
    """Return the columns of a frame or array.

    Parameters
    ----------
    X : frame, array-like or CSC matrix of shape (n_samples, n_features)
        The table.
    names : sequence of str or None
        Names of the columns, if there are any.

    Returns
    -------
    list of Column
        In order; columns of a sparse matrix become dense when they are read.
    """
    n_columns = X.shape[1]
    labels = [f"column {i}" if names is None else f"column {names[i]!r}" for i in range(n_columns)]
    if hasattr(X, "iloc"):
        return [PandasColumn(label, X.iloc[:, i]) for i, label in enumerate(labels)]
    if hasattr(X, "get_columns"):
        return [PolarsColumn(*pair) for pair in zip(labels, X.get_columns(), strict=True)]
    if issparse(X):
        return [ArrayColumn(label, X[:, [i]].toarray().ravel()) for i, label in enumerate(labels)]
    return [ArrayColumn(label, X[:, i]) for i, label in enumerate(labels)]
