"""The schema of a table (the kind of every column), and the table as plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sknet._attributes import cached_property
from sknet._constraints import shown
from sknet._fields import LEVEL, Arrays, Each
from sknet._frames import RowReader, is_collection, names_of
from sknet._hints import suggestion
from sknet._late import issparse, scipy_sparse
from sknet._params import StrOptions
from sknet._warnings import warn_caller
from sknet.preprocessing._columns import (
    CATEGORY,
    DATE,
    HUGE,
    NUMBER,
    PERIODS,
    Column,
    columns_of,
    has_period,
    is_missing,
    not_a_level,
    of_another_type,
    opened,
    phases,
    seconds,
    to_number,
)

__all__ = ["MISSING", "UNSEEN", "Schema", "Table"]

# Codes of values without a level; a level's code is its index.
UNSEEN, MISSING = -2, -1


@dataclass(frozen=True)
class Table:
    """A table as plain arrays."""

    numbers: np.ndarray
    codes: np.ndarray
    sparse: Any = None
    _stored_fields = {
        "numbers": Arrays("f", "n_samples", "n_numbers"),
        "codes": Arrays("i", "n_samples", "n_categories"),
        "sparse": None,
    }

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.numbers)

    def take(self, rows: Any) -> "Table":
        """Return some of the rows."""
        sparse = None if self.sparse is None else self.sparse[rows]
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows], sparse=sparse)


@dataclass(frozen=True)
class Feature:
    """The description of a column of a table."""

    label: str
    name: str
    kind: str
    levels: tuple[Any, ...] = ()
    periods: tuple[str, ...] = ()
    zone: str | None = None
    _stored_fields = {
        "kind": Literal["number", "category", "date"],
        "levels": Each(tuple, LEVEL),
        "periods": Each(tuple, StrOptions({*PERIODS})),
    }

    def _check_stored(self) -> None:
        if (self.levels and self.kind != CATEGORY) or len(self.codes) != len(self.levels):
            raise ValueError(
                f"{self.label} is a {self.kind} with {len(self.levels)} levels, some of them equal"
            )

    @cached_property
    def codes(self) -> dict[Any, int]:
        """The code of every level."""
        return {level: code for code, level in enumerate(self.levels)}

    @property
    def number_names(self) -> list[str]:
        """Names of the numbers that it becomes."""
        turns = [f"{self.name}_{period}_{part}" for period in self.periods for part in ("sin", "cos")]
        return [] if self.kind == CATEGORY else [self.name, *turns]


@dataclass(frozen=True)
class Schema:
    """The descriptions of all columns of a table, with which others like it are read."""

    features: tuple[Feature, ...]
    is_sparse: bool

    @classmethod
    def learn(cls, estimator: Any, X: Any, categorical_features: Any) -> "tuple[Schema, Table]":
        """Determine the kinds of the columns, and read them."""
        X = opened(estimator, X, reset=True)
        names = getattr(estimator, "feature_names_in_", None)
        chosen = _chosen(categorical_features, X.shape[1], names)
        columns = [] if issparse(X) and chosen is None else columns_of(X, names)
        features = []
        for i in range(X.shape[1]):
            name = f"x{i}" if names is None else str(names[i])
            if not columns or (issparse(X) and chosen is not None and not chosen[i]):
                features.append(Feature(f"column {i}", name, NUMBER))
            else:
                features.append(_feature(columns[i], name, None if chosen is None else bool(chosen[i])))
        schema = cls(tuple(features), issparse(X))
        return schema, schema._read(X, columns)

    def read(self, estimator: Any, X: Any) -> Table:
        """Read another table, `X`; `estimator` holds number and names of the features."""
        if self._is_plain(estimator, X):
            return Table(_bounded(X.astype(np.float64, order="C")), np.empty((len(X), 0), np.int32))
        row = self._single_row(estimator, X)
        if row is not None:
            return self._of_row(row)
        return self.read_opened(opened(estimator, X), getattr(estimator, "feature_names_in_", None))

    def read_opened(self, X: Any, names: "Sequence[Any] | None") -> Table:
        """Read `X`, a frame, array or CSC matrix with the columns of the fit, whose `names` are these."""
        if issparse(X) and not self.is_sparse:
            X = X.toarray()
        elif self.is_sparse and not issparse(X):
            X = scipy_sparse().csc_array(np.asarray(X))
        return self._read(X, columns_of(X, names))

    @property
    def names(self) -> list[str]:
        """Names of the numbers of a `Table`, dense or sparse."""
        return [name for feature in self.features for name in feature.number_names]

    @property
    def categories(self) -> list[Feature]:
        """The columns that become codes."""
        return [feature for feature in self.features if feature.kind == CATEGORY]

    @cached_property
    def phased(self) -> np.ndarray:
        """Mask of the numbers that are a sine or cosine, of shape (n_numbers,)."""
        return np.array([i > 0 for f in self.features for i in range(len(f.number_names))], dtype=bool)

    def _read(self, X: Any, columns: Sequence[Column]) -> Table:
        pairs = list(zip(self.features, columns, strict=True)) if columns else []
        n_rows = X.shape[0]
        # Filled column by column, so that no other copy of the table is needed.
        coded = np.empty((n_rows, len(self.categories)), np.int32)
        for i, pair in enumerate(pair for pair in pairs if pair[0].kind == CATEGORY):
            coded[:, i] = _codes(*pair)
        if self.is_sparse:
            kept = [i for i, feature in enumerate(self.features) if feature.kind == NUMBER]
            X = X[:, kept] if len(kept) < X.shape[1] else X
            sparse = scipy_sparse().csr_array(X, dtype=np.float64, copy=True)
            sparse.data = _bounded(sparse.data)
            return Table(np.empty((n_rows, 0)), coded, sparse)
        numbers, at = np.empty((n_rows, len(self.names))), 0
        for feature, column in pairs:
            for values in [] if feature.kind == CATEGORY else _numbers(feature, column):
                numbers[:, at] = values
                at += 1
        return Table(_bounded(numbers), coded)

    # -- fast paths ------------------------------------------------------------------------------------

    @cached_property
    def _is_all_numbers(self) -> bool:
        return not self.is_sparse and all(feature.kind == NUMBER for feature in self.features)

    def _is_plain(self, estimator: Any, X: Any) -> bool:
        """Tell whether X is a numeric array, whose columns need no inspection."""
        return (
            self._is_all_numbers
            and type(X) is np.ndarray
            and X.dtype.kind in "iuf"
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == len(self.features)
            and "feature_names_in_" not in vars(estimator)
        )

    @cached_property
    def _has_dates(self) -> bool:
        return any(feature.kind == DATE for feature in self.features)

    @cached_property
    def _reader(self) -> RowReader:
        return RowReader(tuple(feature.name for feature in self.features), any_order=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def _single_row(self, estimator: Any, X: Any) -> "Sequence[Any] | None":
        """Return the values of a one-row frame with the columns of the fit; otherwise None."""
        if (
            self.is_sparse
            or self._has_dates
            or is_collection(X)
            or getattr(X, "shape", (0,))[0] != 1
            or not hasattr(X, "columns")
        ):
            return None
        names = self._names_of(estimator)
        row = None if names is None else self._reader(X)
        if row is not None or names_of(X) != names:
            return row
        if hasattr(X, "iloc"):
            at = X.iat
            return [at[0, i] for i in range(len(self.features))]
        return X.row(0) if hasattr(X, "row") else None

    @staticmethod
    def _names_of(estimator: Any) -> "list[Any] | None":
        names = vars(estimator).get("feature_names_in_")
        return None if names is None else names.tolist()

    def _of_row(self, row: Sequence[Any]) -> Table:
        numbers, codes = [], []
        for feature, value in zip(self.features, row, strict=True):
            if feature.kind != CATEGORY:
                numbers.append(value if type(value) is float else to_number(value, feature.label, 0))
            elif is_missing(value):
                codes.append(MISSING)
            else:
                try:
                    codes.append(feature.codes.get(value, UNSEEN))
                except TypeError:
                    raise not_a_level(feature.label, value, 0) from None
                if codes[-1] == UNSEEN:
                    _warn_of_texts(feature, [value], codes[-1:])
        return Table(_bounded(np.array([numbers], np.float64)), np.array([codes], np.int32))


def _bounded(numbers: np.ndarray) -> np.ndarray:
    """Clip infinite numbers, in place."""
    result: np.ndarray = np.clip(numbers, -HUGE, HUGE, out=numbers)
    return result


def _chosen(categorical_features: Any, n_features: int, names: Any) -> "np.ndarray | None":
    """Return a mask of the categorical columns, or None if dtypes decide."""
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        return None
    chosen = np.zeros(n_features, dtype=bool)
    if categorical_features is None:
        return chosen
    try:
        asked = np.asarray(categorical_features)
    except ValueError:  # lists of several lengths, or in too many others
        asked = np.empty((1, 1))
    if asked.size == 0:
        return chosen
    if asked.ndim != 1 or asked.dtype.kind not in "biuUO":
        raise ValueError(
            "categorical_features must be an array-like of bool, int or str, 'from_dtype' or None, got "
            f"{shown(categorical_features)}"
        )
    if asked.dtype.kind == "b":
        if len(asked) != n_features:
            raise ValueError(
                "categorical_features set as a boolean mask must have shape (n_features,), got: "
                f"{asked.shape} for {n_features} features"
            )
        return asked
    for each in asked.tolist():
        chosen[_position(each, n_features, names)] = True
    return chosen


def _position(asked: Any, n_features: int, names: Any) -> int:
    """Return the index of a column that is given by name or index."""
    if isinstance(asked, str):
        known = [] if names is None else names.tolist()
        if asked not in known:
            why = "X has no column names" if names is None else "X has no column of this name"
            hint = suggestion(asked, known) if known else "."
            raise ValueError(f"categorical_features has {shown(asked)}, but {why}{hint}")
        return int(known.index(asked))
    if not isinstance(asked, int) or isinstance(asked, bool) or not -n_features <= asked < n_features:
        raise ValueError(
            "categorical_features set as integer indices must be in [0, n_features - 1], got "
            f"{shown(asked)} for {n_features} features"
        )
    return asked


def _feature(column: Column, name: str, is_category: bool | None) -> Feature:
    """Return the description of a column; None lets its dtype decide."""
    kind = column.kind if is_category is None else CATEGORY if is_category else _uncategorical(column)
    if kind == CATEGORY:
        return Feature(column.label, name, kind, levels=tuple(_in_order(column.coded()[1])))
    if kind == DATE:
        zone = column.zone
        dates = column.dates(zone)
        return Feature(column.label, name, kind, (), tuple(p for p in PERIODS if has_period(dates, p)), zone)
    return Feature(column.label, name, kind)


def _uncategorical(column: Column) -> str:
    return DATE if column.kind == DATE else NUMBER


def _in_order(levels: list[Any]) -> list[Any]:
    """Return levels in an order that is independent of the order of the rows."""
    try:
        return sorted(levels)
    except TypeError:  # mixed types
        return sorted(levels, key=lambda level: (type(level).__name__, repr(level)))


def _codes(feature: Feature, column: Column) -> np.ndarray:
    """Return the codes of a column; unseen levels are not an error."""
    codes, levels = column.coded()
    found = [feature.codes.get(level, UNSEEN) for level in levels]
    _warn_of_texts(feature, levels, found)
    numbered: np.ndarray = np.array([*found, MISSING], dtype=np.int32)[codes]
    return numbered


def _warn_of_texts(feature: Feature, levels: list[Any], codes: list[int]) -> None:
    if all(code == UNSEEN for code in codes) and (told := of_another_type(levels, feature.levels)):
        warn_caller(f"{feature.label}: {told}", UserWarning)


def _numbers(feature: Feature, column: Column) -> list[np.ndarray]:
    if feature.kind == NUMBER:
        return [column.numbers()]
    dates = column.dates(feature.zone)
    return [seconds(dates), *(part for period in feature.periods for part in phases(dates, period))]
