"""Columns of a table, read as numbers, levels or dates.

Frames are recognized by their methods, so that neither pandas nor polars has to be installed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np

from sknet._cached import cached_property
from sknet._constraints import shown
from sknet._scipy import issparse
from sknet.preprocessing._values import is_missing, is_number, to_number
from sknet.preprocessing._zones import (
    DATE_UNIT,
    array_of,
    local_dates,
    name_of_zone,
    time_zone,
    zone_of_values,
)

__all__ = ["CATEGORY", "DATE", "NUMBER", "Column", "columns_of", "not_a_level"]

NUMBER, CATEGORY, DATE = "number", "category", "date"
DATES = (date, np.datetime64)


class Column(ABC):
    """Abstract base: one column of a table."""

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

    @property
    def zone(self) -> str | None:
        """The name of the time zone of its dates, None if they have none."""
        array = self.array()
        return zone_of_values(array.tolist(), self.label) if array.dtype.kind == "O" else None

    def dates(self, zone: str | None) -> np.ndarray:
        """Return timestamps of shape (n_samples,), NaT where missing: local times of a time zone."""
        found: np.ndarray = local_dates(self.array(), zone, self.label)
        return found


class ArrayColumn(Column):
    """A column of an array; a column of objects is numeric if all of them are numbers."""

    @cached_property
    def kind(self) -> str:
        kind = self.values.dtype.kind
        if kind == "O":
            values = self.values.tolist()
            return NUMBER if all(map(is_number, values)) else _kind_of_objects(values)
        return _kind_of(kind, self.label)

    def array(self) -> np.ndarray:
        return np.asarray(self.values)


class PandasColumn(Column):
    """A series of pandas, or of a compatible library."""

    @property
    def kind(self) -> str:
        dtype = self.values.dtype
        if dtype == np.dtype(object):
            return _kind_of_objects(self.values.tolist())
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

    @property
    def zone(self) -> str | None:
        own = self._own_zone
        return super().zone if own is None else name_of_zone(own, self.label)

    @property
    def _own_zone(self) -> Any:
        """The time zone of the dtype."""
        return getattr(self.values.dt, "tz", None) if self.values.dtype.kind == "M" else None

    def dates(self, zone: str | None) -> np.ndarray:
        values, own = self.values, self._own_zone
        if own is not None and zone is not None:
            if name_of_zone(own, self.label) != zone:
                values = values.dt.tz_convert(time_zone(zone))
            values, zone = values.dt.tz_localize(None), None
        if values.dtype.kind != "M" or (own is not None and zone is None and values is self.values):
            return super().dates(zone)
        found: np.ndarray = local_dates(np.asarray(values.to_numpy(dtype=DATE_UNIT)), zone, self.label)
        return found


class PolarsColumn(Column):
    """A series of polars."""

    @property
    def kind(self) -> str:
        name = type(self.values.dtype).__name__
        if name in ("Date", "Datetime"):
            return DATE
        is_number_ = self.values.dtype.is_numeric() or name in ("Duration", "Null")
        return NUMBER if is_number_ else CATEGORY

    @property
    def zone(self) -> str | None:
        name = getattr(self.values.dtype, "time_zone", None)
        return f"UTC{name}" if name is not None and name[0] in "+-" else name

    def array(self) -> np.ndarray:
        if getattr(self.values.dtype, "time_zone", None) is not None:
            return np.asarray(array_of(self.values))
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


def _kind_of_objects(values: list[Any]) -> str:
    """Return the kind of column of objects that are not all numbers: dates, if they are nothing else."""
    known = (value for value in values if not is_missing(value))
    return (
        DATE
        if isinstance(next(known, None), DATES) and all(isinstance(x, DATES) for x in known)
        else CATEGORY
    )


def not_a_level(label: str, value: Any, row: int) -> TypeError:
    """Return the error for a value that cannot be hashed."""
    return TypeError(
        f"{label}: argument must be a string or a number, or anything hashable, "
        f"got {shown(value)} in row {row}"
    )


def factorized(values: Iterable[Any], label: str) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each value, -1 where missing, and the levels in order of first occurrence."""
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
    """Return the columns of a frame or array."""
    n_columns = X.shape[1]
    labels = [f"column {i}" if names is None else f"column {names[i]!r}" for i in range(n_columns)]
    if hasattr(X, "iloc"):
        return [PandasColumn(label, X.iloc[:, i]) for i, label in enumerate(labels)]
    if hasattr(X, "get_columns"):
        return [PolarsColumn(*pair) for pair in zip(labels, X.get_columns(), strict=True)]
    if issparse(X):
        return [ArrayColumn(label, X[:, [i]].toarray().ravel()) for i, label in enumerate(labels)]
    return [ArrayColumn(label, X[:, i]) for i, label in enumerate(labels)]
