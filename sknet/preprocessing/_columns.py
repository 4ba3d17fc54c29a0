"""Columns of a table, read as numbers, levels or dates."""

import datetime
import re
import warnings
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._frames import is_arrow, is_frame, refuse_collection, refuse_unreadable, sequences_in
from sknet._late import cached_property, issparse, scipy_sparse

NUMBER, CATEGORY, DATE, TEXT, DROPPED = "number", "category", "date", "text", "dropped"

# Larger values count as infinite, so that no difference or ratio of two others overflows.
HUGE = 1e150
DATE_UNIT = "datetime64[us]"
DATES = (date, np.datetime64)
MANY_LEVELS = 20  # of fractions: no codes have so many
LASTING = (datetime.timedelta, np.timedelta64, datetime.time)


class Column(ABC):
    """Abstract base: one column of a table."""

    def __init__(self, label: str, values: Any) -> None:
        self.label = label
        self.values = values

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of its values, judged by its dtype."""

    @property
    def holds_objects(self) -> bool:
        """True if its values may be texts, and its dtype does not say that they are categories."""
        return self.values.dtype.kind in "OUT"

    def known_numbers(self) -> np.ndarray | None:
        """Return the numbers of a series without missing values; None if it is no series of numbers."""
        array = self.array()
        return None if array.dtype.kind not in "iuf" else array[~np.isnan(array)]

    @property
    def holds_integers(self) -> bool:
        return str(self.values.dtype).lower().startswith(("int", "uint"))

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
        return local_dates(self.array(), zone, self.label)


class ArrayColumn(Column):
    """A column of an array; a column of objects is numeric if all of them are numbers."""

    @cached_property
    def kind(self) -> str:
        kind = self.values.dtype.kind
        if kind == "O":
            return _kind_of_objects(self.values.tolist())
        return _kind_of(kind, self.label)

    def array(self) -> np.ndarray:
        return np.asarray(self.values)

    def known_numbers(self) -> np.ndarray | None:
        return None  # arrays hold measurements, and no names that tell


class SparseColumn(ArrayColumn):
    """A column of a CSC matrix, which is dense from when its values are asked for."""

    def __init__(self, label: str, matrix: Any, index: int) -> None:
        self.label, self._matrix, self._index = label, matrix, index

    @cached_property
    def values(self) -> np.ndarray:
        return self._matrix[:, [self._index]].toarray().ravel()


class PandasColumn(Column):
    """A series of pandas, or of a compatible library."""

    def __init__(self, label: str, values: Any) -> None:
        super().__init__(label, values.dt.to_timestamp() if "period[" in str(values.dtype) else values)

    @property
    def holds_objects(self) -> bool:
        return str(self.values.dtype).startswith(("object", "str", "large_string"))

    @property
    def kind(self) -> str:
        dtype = self.values.dtype
        if dtype == np.dtype(object):
            values = self.values.tolist()
            return CATEGORY if _may_be_codes(values) else _kind_of_objects(values)
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
        return getattr(self.values.dt, "tz", None) if self.values.dtype.kind == "M" else None

    def dates(self, zone: str | None) -> np.ndarray:
        values, own = self.values, self._own_zone
        if own is not None and zone is not None:
            if name_of_zone(own, self.label) != zone:
                values = values.dt.tz_convert(time_zone(zone))
            values, zone = values.dt.tz_localize(None), None
        if values.dtype.kind != "M" or (own is not None and zone is None and values is self.values):
            return super().dates(zone)
        return local_dates(np.asarray(values.to_numpy(dtype=DATE_UNIT)), zone, self.label)


class PolarsColumn(Column):
    @property
    def holds_objects(self) -> bool:
        return type(self.values.dtype).__name__ in ("String", "Utf8")

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


def _may_be_codes(values: list[Any]) -> bool:
    """Tell whether objects are plain numbers, and whole or few: then they may be the codes of categories."""
    if not all(is_number(x) and not isinstance(x, Decimal) for x in values):
        return False
    found = {float(x) for x in values if not is_missing(x)}
    return len(found) < MANY_LEVELS or all(x.is_integer() for x in found)


def _kind_of_objects(values: list[Any]) -> str:
    """Return the kind of column of objects: dates, or numbers and durations, if they are nothing else."""
    if all(map(is_number, values)):
        return NUMBER
    known = [value for value in values if not is_missing(value)]
    for kind, types in ((DATE, DATES), (NUMBER, LASTING)):
        if all(isinstance(value, types) for value in known):
            return kind
    return CATEGORY


FOR_NETWORKS = ". Sequences are read by networks for them, such as NetClassifier('gru')"


def not_a_level(label: str, value: Any, row: int) -> TypeError:
    """Return the error for a value that cannot be hashed."""
    return TypeError(
        f"{label}: argument must be a string or a number, or anything hashable, "
        f"got {shown(value)} in row {row}{FOR_NETWORKS if hasattr(value, '__len__') else ''}"
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
    n_columns = X.shape[1]
    labels = [f"column {i}" if names is None else f"column {names[i]!r}" for i in range(n_columns)]
    if hasattr(X, "iloc"):
        return [PandasColumn(label, X.iloc[:, i]) for i, label in enumerate(labels)]
    if hasattr(X, "get_columns"):
        return [PolarsColumn(*pair) for pair in zip(labels, X.get_columns(), strict=True)]
    if issparse(X):
        return [SparseColumn(label, X, i) for i, label in enumerate(labels)]
    return [ArrayColumn(label, X[:, i]) for i, label in enumerate(labels)]


DAY = 86_400

# Periods, and their least length in seconds.
PERIODS = {"day": DAY, "week": 7 * DAY, "month": 28 * DAY, "year": 365 * DAY}


def seconds(dates: np.ndarray) -> np.ndarray:
    """Return timestamps as seconds since 1970, NaN where missing."""
    return np.where(np.isnat(dates), np.nan, dates.astype(np.int64) / 1e6)


def has_period(dates: np.ndarray, period: str) -> bool:
    """Tell whether dates span a quarter of a period, and differ within it, so that it can be informative."""
    known = dates[~np.isnat(dates)]
    if not len(known) or (known.max() - known.min()).astype(np.int64) / 1e6 < PERIODS[period] / 4:
        return False
    phase = _phase(known, period)
    return bool(phase.max() > phase.min())


def phases(dates: np.ndarray, period: str) -> tuple[np.ndarray, np.ndarray]:
    """Return sine and cosine of the phase within a period, NaN where a date is missing."""
    known = ~np.isnat(dates)
    angle = np.full(dates.shape, np.nan)
    angle[known] = 2 * np.pi * _phase(dates[known], period)
    return np.sin(angle), np.cos(angle)


def _phase(dates: np.ndarray, period: str) -> np.ndarray:
    if period in ("day", "week"):
        length = PERIODS[period]
        monday = 3 * DAY if period == "week" else 0  # 1970 began on a Thursday
        return np.mod(dates.astype(np.int64) / 1e6 + monday, length) / length
    unit = "M" if period == "month" else "Y"
    begin = dates.astype(f"datetime64[{unit}]")
    first, following = (day.astype(dates.dtype).astype(np.int64) for day in (begin, begin + 1))
    return (dates.astype(np.int64) - first) / (following - first)


def opened(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Return a table as a pandas or polars frame, an array or a CSC matrix, after checking its features."""
    refuse_collection(X, type(estimator).__name__)
    refuse_unreadable(X)
    is_dict = isinstance(X, dict) and not hasattr(X, "tocsr")
    if is_dict or getattr(getattr(X, "dtype", None), "names", None):
        kind = "dict of columns" if is_dict else "structured array"
        raise TypeError(f"a table was expected, got a {kind}: make a data frame of it, pandas.DataFrame(X)")
    X = _contained(X)
    _check_names(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(X.shape)}D array instead, of shape {X.shape}. Reshape your data "
            "either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
            f"it contains a single sample{'' if sequences_in(X) is None else FOR_NETWORKS}."
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required by "
                f"{type(estimator).__name__}."
            )
    if hasattr(estimator, "check_columns"):
        estimator.check_columns(X)
        return X
    from sklearn.utils.validation import validate_data  # of an estimator, which has loaded it

    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def _check_names(X: Any) -> None:
    """Raise a ValueError if columns of a frame have equal names, which no encoder could tell apart later."""
    if getattr(getattr(X, "columns", None), "is_unique", True):
        return
    names = X.columns.tolist()
    twice = sorted({repr(name) for name in names if names.count(name) > 1})
    raise ValueError(
        f"several columns of X have the name {', '.join(twice)}: columns are found by name, give each its own"
    )


def _contained(X: Any) -> Any:
    if issparse(X):
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X is a sparse matrix of complex numbers")
        sparse = scipy_sparse()
        return sparse.csc_array(X) if isinstance(X, sparse.sparray) else sparse.csc_matrix(X)
    if is_frame(X) and not is_arrow(X):
        return X
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    if hasattr(X, "__dataframe__") and not hasattr(X, "__array__"):
        return _interchanged(X)
    if isinstance(X, (list, tuple)):
        return _of_rows(X)
    return np.asarray(X)


def _of_rows(X: Any) -> np.ndarray:
    """Return rows as an array, of dtype object if not all values are numbers."""
    try:
        array = np.asarray(X)
    except ValueError:  # ragged rows
        array = np.asarray(X, dtype=object)
    return array if array.dtype.kind in "biufcmM" else np.asarray(X, dtype=object)


def _interchanged(X: Any) -> Any:
    """Convert a frame with the dataframe interchange protocol to pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns of later versions of the protocol
        from pandas.api.interchange import from_dataframe

        return from_dataframe(X)


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


def lasting(value: Any) -> Any:
    """Return a duration, or a time of day, in seconds; others as they are."""
    if isinstance(value, np.timedelta64):
        return value.astype("timedelta64[us]").astype(np.int64) / 1e6
    if isinstance(value, datetime.time):
        return 3600 * value.hour + 60 * value.minute + value.second + value.microsecond / 1e6
    return value.total_seconds() if hasattr(value, "total_seconds") else value


def to_number(value: Any, label: str, row: int) -> float:
    if isinstance(value, np.complexfloating):  # whose conversion only warns
        value = value.item()
    try:
        if is_missing(value):
            return np.nan
        return float(lasting(value))
    except ValueError:
        raise ValueError(
            f"{label}: could not convert string to float: expected numbers, got {value!r} in row {row}. Name "
            "the column in categorical_features, or use categorical_features='from_dtype'."
        ) from None
    except TypeError:
        raise TypeError(
            f"{label}: argument must be a string or a real number, got {value!r} in row {row}"
        ) from None


def of_another_kind(levels: list[Any], known: Any) -> str:
    """Return a message if all unseen levels are of one kind and all known ones of another; else nothing."""
    kinds, known_kinds = ({_kind_of_level(level) for level in each} for each in (levels, known))
    if not len(kinds) == len(known_kinds) == 1 or kinds == known_kinds:
        return ""
    return (
        f"all levels are unseen, since they are {kinds.pop()}, such as {levels[0]!r:.80}, and those of the "
        f"fit are {known_kinds.pop()}, such as {next(iter(known))!r:.80}: convert the column"
    )


def _kind_of_level(level: Any) -> str:
    if isinstance(level, str):
        return "texts"
    if isinstance(level, bytes):
        return "bytes"
    if isinstance(level, (bool, np.bool_)):
        return "booleans"
    return "numbers" if hasattr(level, "__float__") else "objects"


def time_zone(name: str) -> Any:
    """Return a time zone by its name, which is one of the IANA database, or such as "UTC+09:00"."""
    if name == "UTC":
        return datetime.UTC
    try:
        if name.startswith(("UTC+", "UTC-")):
            return datetime.datetime.strptime(name[3:], "%z").tzinfo
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # the last for a folder of zones
        raise ValueError(
            f"the time zone {name!r} is not known here: install tzdata, or convert the column to it before"
        ) from None


def name_of_zone(zone: Any, label: str) -> str:
    """Return the name of a time zone, as `time_zone` takes it."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, and of pytz
    if name is not None:
        return str(name)
    distance = zone.utcoffset(None)
    if distance is None:
        raise ValueError(
            f"{label}: the time zone {zone!r} has no name by which it could be known later: use one of "
            "zoneinfo, as by .dt.tz_convert('Europe/Berlin')"
        )
    return str(datetime.timezone(distance))


def with_zone(value: Any) -> Any:
    """Return a text in ISO 8601 that tells its distance from UTC as a datetime, other values as they are."""
    if isinstance(value, str) and re.search(r":\d\d(\.\d+)? ?([zZ]|[+-]\d\d:?\d\d)$", value.strip()):
        return datetime.datetime.fromisoformat(value.strip().replace(" +", "+").replace(" -", "-"))
    return value


def local_time(value: Any, zone: Any, label: str, row: int) -> Any:
    """Return a date that is not missing as a timestamp of NumPy, local time of a zone, or of none."""
    value = value.to_timestamp() if hasattr(value, "to_timestamp") else value  # of a period
    if isinstance(value, (str, datetime.date, np.datetime64)):
        try:
            moment = with_zone(value)
            own = getattr(moment, "tzinfo", None)
            found = np.datetime64(moment if own is None else moment.replace(tzinfo=None), "us")
        except (ValueError, OverflowError):  # which of a text that cannot be encoded is one of the first
            found = None
        if found is not None:
            if own is None and zone is None:
                return found
            if own is None:
                raise ValueError(
                    f"{label}: the dates of the fit have the time zone {zone!r}, got {value!r} without one "
                    f"in row {row}. Say which it has, as by .dt.tz_localize({zone!r})"
                )
            name = name_of_zone(own, label)
            if zone is None:
                raise ValueError(
                    f"{label}: the dates of the fit have no time zone, got {value!r} of {name!r} in row "
                    f"{row}. Convert to local time without one, as by .dt.tz_localize(None)"
                )
            if name == zone:
                return found
            return np.datetime64(moment.astimezone(time_zone(zone)).replace(tzinfo=None), "us")
    raise TypeError(
        f"{label}: expected dates, as in the fit, got {value!r} in row {row}. Convert the column, as by "
        "pandas.to_datetime."
    )


def local_dates(values: Any, zone: Any, label: str) -> Any:
    """Return a column as timestamps, NaT where missing: local times of a zone, by name, or of none."""
    if values.dtype.kind == "f" and np.isnan(values).all():  # nothing but missing values
        return np.full(len(values), "NaT", DATE_UNIT)
    if values.dtype.kind == "M":
        dates = values.astype(DATE_UNIT)
        known = np.flatnonzero(~np.isnat(dates))
        if zone is not None and len(known):
            local_time(dates[known[0]], zone, label, int(known[0]))  # raises the error
        return dates
    found = np.full(len(values), "NaT", DATE_UNIT)
    for row, value in enumerate(values.tolist()):
        if not is_missing(value):
            found[row] = local_time(value, zone, label, row)
    return found


def array_of(values: Any) -> Any:
    """Return a column as an array, of objects where a series of polars or Arrow has a time zone."""
    of_polars = getattr(getattr(values, "dtype", None), "time_zone", None)
    if of_polars is None and getattr(getattr(values, "type", None), "tz", None) is None:
        return np.asarray(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values.to_list() if of_polars else values.to_pylist()
    return found


# -- what a fit learns --------------------------------------------------------------------------


def zone_of_values(values: Any, label: str) -> str | None:
    """Return the name of the time zone of all dates among objects, None if they have none."""
    zones: dict[str | None, Any] = {}
    for value in values:
        if not is_missing(value):
            own = getattr(value, "tzinfo", None)
            zones.setdefault(None if own is None else name_of_zone(own, label), value)
    if len(zones) > 1:
        (first, one), (second, other) = list(zones.items())[:2]
        raise ValueError(
            f"{label}: all dates must have one time zone, or none, got {one!r} of {first!r} and {other!r} of "
            f"{second!r}. Convert them to one, as by pandas.to_datetime(..., utc=True).dt.tz_convert"
        )
    return next(iter(zones), None)
