"""The schema of a table (the kind of every column), and the table as plain arrays."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np

from sknet._constraints import is_whole, shown
from sknet._fields import ABSENT, COUNT, LEVEL, Arrays, Each, Number, Together
from sknet._frames import RowReader, is_collection, names_of, rows_of_records
from sknet._hints import suggestion
from sknet._late import FieldsAlone, cached_property, issparse, scipy_sparse
from sknet._params import StrOptions
from sknet._warnings import warn_caller
from sknet.preprocessing._columns import (
    CATEGORY,
    DATE,
    DROPPED,
    HUGE,
    NUMBER,
    PERIODS,
    TEXT,
    Column,
    columns_of,
    has_period,
    is_missing,
    not_a_level,
    of_another_kind,
    opened,
    phases,
    seconds,
    to_number,
)
from sknet.preprocessing._texts import (
    BOOLEAN,
    FEW,
    FIRST_SECOND,
    FORMS,
    LAST_SECOND,
    LONGEST,
    UNITS,
    Found,
    boolean_of,
    read_column,
    recognised,
    unread,
    without_unit,
)
from sknet.preprocessing._words import Words, fit_words, is_free_text

# Codes of values without a level; a level's code is its index.
UNSEEN, MISSING = -2, -1
PLAIN = frozenset({float, int})


@dataclass(frozen=True)
class Table:
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
        return len(self.numbers)

    def take(self, rows: Any) -> "Table":
        sparse = None if self.sparse is None else self.sparse[rows]
        return replace(self, numbers=self.numbers[rows], codes=self.codes[rows], sparse=sparse)

    def joined(self, other: "Table") -> "Table":
        """Return a table of these rows followed by the rows of another table."""
        numbers = np.concatenate([self.numbers, other.numbers])
        codes = np.concatenate([self.codes, other.codes])
        if self.sparse is None:
            return Table(numbers, codes)
        return Table(numbers, codes, scipy_sparse().vstack([self.sparse, other.sparse], format="csr"))


DROPS = ("id", "drop")
NOTES = {
    ".": "numbers in texts",
    ",": "numbers in texts, with a decimal comma",
    "duration": "durations in texts, in seconds",
    "ymd": "dates in texts, year-month-day",
    "dmy": "dates in texts, day/month/year",
    "mdy": "dates in texts, month/day/year",
    "time": "times of day in texts",
    "s": "times in seconds since 1970",
    "ms": "times in milliseconds since 1970",
    "us": "times in microseconds since 1970",
    "ns": "times in nanoseconds since 1970",
    BOOLEAN: "yes or no in texts",
    "words": "free texts, told by their words",
    "characters": "free texts, told by their characters",
    "id": "ids, dropped",
    "drop": "dropped",
}


@dataclass(frozen=True)
class Feature(FieldsAlone):
    """The description of a column of a table."""

    label: str
    name: str
    kind: str
    levels: tuple[Any, ...] = ()
    periods: tuple[str, ...] = ()
    zone: str | None = None
    form: str | None = None
    words: Words | None = None
    _stored_fields = {
        "kind": Literal["number", "category", "date", "text", "dropped"],
        "form": [str, None],
        "levels": Each(tuple, LEVEL),
        "periods": Each(tuple, StrOptions({*PERIODS})),
    }

    def _check_stored(self) -> None:
        if (self.levels and self.kind != CATEGORY) or len(self.codes) != len(self.levels):
            raise ValueError(
                f"{self.label} is a {self.kind} with {len(self.levels)} levels, some of them equal"
            )
        if self.form is not None and without_unit(self.form) not in FORMS.get(self.kind, DROPS):
            raise ValueError(f"{self.label} is a {self.kind} that is read as {self.form!r}")
        if (self.kind == TEXT) != (self.words is not None):
            raise ValueError(f"{self.label} is a {self.kind}, and words belong to texts")

    @cached_property
    def codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels)}

    @property
    def number_names(self) -> list[str]:
        turns = [f"{self.name}_{period}_{part}" for period in self.periods for part in ("sin", "cos")]
        if self.words is not None:
            return [f"{self.name}_text{i}" for i in range(self.words.directions.shape[1])]
        return [] if self.kind in (CATEGORY, DROPPED) else [self.name, *turns]

    @property
    def phased(self) -> list[bool]:
        """True for each of its numbers that is encoded as it is."""
        return [i > 0 or self.kind == TEXT for i in range(len(self.number_names))]

    @property
    def note(self) -> str:
        """Description of a column that is not used as it comes."""
        if self.form is None:
            return ""
        plain = without_unit(self.form)
        return NOTES[plain] + (f", in {self.form[len(plain) + 1 :]}" if plain != self.form else "")


Sum = tuple[int, int, float, float]
Sums = tuple[Sum, ...]

"""For each sum the indices of two numbers of a table, and what they are multiplied by."""

FACTOR = Number(Real, -1, 1)


def with_sums(numbers: Any, sums: Any) -> Any:
    """Return the numbers of a table, and behind them sums of two of them."""
    if not sums:
        return numbers
    i, j, a, b = map(np.array, zip(*sums, strict=True))
    return np.concatenate([numbers, numbers[:, i] * a + numbers[:, j] * b], axis=1)


@dataclass(frozen=True)
class Schema(FieldsAlone):
    """The descriptions of all columns of a table, with which others like it are read.

    Sums of two numbers stand behind all of these.
    """

    features: tuple[Feature, ...]
    is_sparse: bool
    sums: Sums = ()
    _stored_fields = {
        "sums": [Each(tuple, Together(COUNT, COUNT, FACTOR, FACTOR)), ABSENT],
    }

    def _check_stored(self) -> None:
        if len({feature.name for feature in self.features}) < len(self.features):
            raise ValueError("several columns have one name")
        n_numbers = sum(len(feature.number_names) for feature in self.features)
        for i, j, *_ in self.sums:
            if self.is_sparse or max(i, j) >= n_numbers:
                raise ValueError(f"a sum of the numbers {i} and {j}, and there are {n_numbers} dense ones")

    @classmethod
    def learn(
        cls, estimator: Any, X: Any, categorical_features: Any, asked: Mapping[Any, str] | None = None
    ) -> "tuple[Schema, Table]":
        """Determine the kinds of the columns, or take those that are asked for, and read them."""
        X = opened(estimator, X, reset=True)
        names = getattr(estimator, "feature_names_in_", None)
        chosen = _chosen(categorical_features, X.shape[1], names)
        kinds = _asked(asked, X.shape[1], names)
        is_sparse = issparse(X)
        columns = [] if is_sparse and chosen is None and not kinds else columns_of(X, names)
        features = []
        for i in range(X.shape[1]):
            name = f"x{i}" if names is None else str(names[i])
            is_category = None if chosen is None else bool(chosen[i])
            if is_sparse and not is_category and kinds.get(i, "number") == "number":
                features.append(Feature(f"column {i}", name, NUMBER))
            else:
                features.append(_feature(columns[i], name, is_category, kinds.get(i), is_sparse))
        schema = cls(tuple(features), is_sparse)
        return schema, schema._read(X, columns)

    def read(self, estimator: Any, X: Any) -> Table:
        """Read another table, `X`; `estimator` holds number and names of the features."""
        if self._is_plain(estimator, X):
            return Table(self._complete(X.astype(np.float64, order="C")), np.empty((len(X), 0), np.int32))
        row = self._single_row(estimator, X)
        if row is not None:
            return self._of_row(row)
        names = getattr(estimator, "feature_names_in_", None)
        rows = rows_of_records(X, names)
        if rows is not X and len(rows) == 1 and self._reads_rows:
            return self._of_row(rows[0].tolist())
        return self.read_opened(opened(estimator, X) if rows is X else rows, names)

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
        names = [name for feature in self.features for name in feature.number_names]
        return [*names, *(f"{names[i]}{'-' if a * b < 0 else '+'}{names[j]}" for i, j, a, b in self.sums)]

    @property
    def categories(self) -> list[Feature]:
        return [feature for feature in self.features if feature.kind == CATEGORY]

    @property
    def owners_of_numbers(self) -> np.ndarray:
        """Indices of both columns that each number comes from, mostly one twice, of shape (n_numbers, 2)."""
        counts = [len(each.number_names) for each in self.features]
        own = np.repeat(np.arange(len(self.features)), counts)
        pairs = np.array([(i, j) for i, j, *_ in self.sums], np.intp).reshape(-1, 2)
        return np.concatenate([np.stack([own, own], axis=1), own[pairs]])

    def directions(self, estimator: Any, monotonic_cst: Any) -> np.ndarray | None:
        """Return -1, 0 or 1 for each number of a `Table`; None if no column is constrained."""
        from sknet._validation import directions_of  # predictions do without scikit-learn

        found = directions_of(estimator, monotonic_cst)
        if found is None:
            return None
        for feature, direction in zip(self.features, found, strict=True):
            if direction and feature.kind not in (NUMBER, DROPPED):
                raise ValueError(
                    f"monotonic_cst constrains {feature.label}, which is read as a {feature.kind}, and only "
                    "numbers have an order: set its constraint to 0, or give it as numbers"
                )
        return found[self.owners_of_numbers[:, 0]]

    @property
    def notes(self) -> list[str]:
        """Descriptions of the columns that are not used as they come."""
        return [f"{feature.label}: {feature.note}" for feature in self.features if feature.note]

    @cached_property
    def phased(self) -> np.ndarray:
        """Mask of the numbers that are encoded as they are, of shape (n_numbers,)."""
        own = [each for feature in self.features for each in feature.phased]
        return np.array([*own, *(False for _ in self.sums)], dtype=bool)

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
        numbers, at = np.empty((n_rows, len(self.names) - len(self.sums))), 0
        for feature, column in pairs:
            for values in _numbers(feature, column) if feature.number_names else []:
                numbers[:, at] = values
                at += 1
        return Table(self._complete(numbers), coded)

    def _complete(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers without infinite ones, and their sums."""
        return with_sums(_bounded(numbers), self.sums)

    def extended(self, table: Table, sums: Sums) -> "tuple[Schema, Table]":
        schema = replace(self, sums=sums)
        return schema, replace(table, numbers=with_sums(table.numbers, sums))

    # -- fast paths ------------------------------------------------------------------------------------

    @cached_property
    def _is_all_numbers(self) -> bool:
        return not self.is_sparse and all(f.kind == NUMBER and f.form is None for f in self.features)

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
    def _reads_rows(self) -> bool:
        return not self.is_sparse and all(f.kind != DATE and f.form is None for f in self.features)

    @cached_property
    def _reader(self) -> RowReader:
        return RowReader(tuple(feature.name for feature in self.features), any_order=False)

    def _single_row(self, estimator: Any, X: Any) -> "Sequence[Any] | None":
        """Return the values of a one-row frame, or an array, with the columns of the fit; otherwise None."""
        if not self._reads_rows:
            return None
        if type(X) is np.ndarray:
            is_read = X.dtype.kind in "iufO" and X.shape == (1, len(self.features))
            return X[0].tolist() if is_read and "feature_names_in_" not in vars(estimator) else None
        if not hasattr(X, "columns") or is_collection(X) or getattr(X, "shape", ())[:1] != (1,):
            return None
        names = vars(estimator).get("feature_names_in_")
        row = None if names is None else self._reader(X)
        if row is not None or names_of(X) != (None if names is None else names.tolist()):
            return row
        if hasattr(X, "iloc"):
            at = X.iat
            return [at[0, i] for i in range(len(self.features))]
        return X.row(0) if hasattr(X, "row") else None

    @cached_property
    def _indices(self) -> tuple[list[int], list[tuple[int, dict[Any, int]]]]:
        """The indices of columns of numbers, and of those of codes, with their levels."""
        numbers = [i for i, feature in enumerate(self.features) if feature.kind != CATEGORY]
        levels = [(i, each.codes) for i, each in enumerate(self.features) if each.kind == CATEGORY]
        return numbers, levels

    def _of_row(self, row: Sequence[Any]) -> Table:
        of_numbers, of_codes = self._indices
        numbers = [row[i] for i in of_numbers] if of_codes else row
        if not PLAIN.issuperset(map(type, numbers)):
            numbers = [
                x if type(x) in PLAIN else to_number(x, self.features[i].label, 0)
                for i, x in zip(of_numbers, numbers, strict=True)
            ]
        codes = []
        for i, known in of_codes:
            value = row[i]
            is_known = type(value) in (str, int) and value in known
            codes.append(known[value] if is_known else self._code(self.features[i], value))
        return Table(self._complete(np.array([numbers], np.float64)), np.array([codes], np.int32))

    @staticmethod
    def _code(feature: Feature, value: Any) -> int:
        """Return the code of a single value that may be missing, or no level."""
        if is_missing(value):
            return MISSING
        try:
            code = feature.codes.get(value, UNSEEN)
        except TypeError:
            raise not_a_level(feature.label, value, 0) from None
        if code == UNSEEN:
            _warn_of_kinds(feature, [value.item() if isinstance(value, np.generic) else value], [code])
        return code


def _bounded(numbers: np.ndarray) -> np.ndarray:
    """Clip infinite numbers, in place."""
    np.maximum(numbers, -HUGE, out=numbers)
    return np.minimum(numbers, HUGE, out=numbers)  # for a row in a third of the time of a clip


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


def _position(asked: Any, n_features: int, names: Any, of: str = "categorical_features") -> int:
    """Return the index of a column that is given by name or index."""
    if isinstance(asked, str):
        known = [] if names is None else names.tolist()
        if asked not in known:
            why = "X has no column names" if names is None else "X has no column of this name"
            hint = suggestion(asked, known) if known else "."
            raise ValueError(f"{of} has {shown(asked)}, but {why}{hint}")
        return int(known.index(asked))
    if not is_whole(asked, -n_features, n_features - 1):
        raise ValueError(
            f"{of} set as integer indices must be in [0, n_features - 1], got "
            f"{shown(asked)} for {n_features} features"
        )
    return int(asked) % n_features


# -- kinds of columns -------------------------------------------------------------------------------

ASKED = (
    *FORMS,
    BOOLEAN,
    *DROPS,
    "text:words",
    "text:characters",
    *(f"{kind}:{form}" for kind in ("number", "date") for form in FORMS[kind]),
)
# Names of columns whose values, all different, only tell rows apart.
ID = re.compile(r"(?:^|[\W_])(?i:id|uuid|guid|index|idx)$|[a-z](?:Id|ID)$|^Unnamed: 0$")
LIKE_NUMBERS = re.compile("[0-9][.,:][0-9]|^[<>~\u2248\u2264\u2265] ?[0-9]|^[0-9]+ ?[A-Za-z*]{1,3}$")
# Texts with separators between digits that are no numbers, such as addresses of networks.
ADDRESS = re.compile("(?:[0-9a-fA-F]{1,12}[.:]){2,}[0-9a-fA-F]{1,12}")
MANY = 50
# Numbers between these may be dates, if all of them are days.
FIRST_DAY, LAST_DAY = 19000101, 21001231


def _asked(asked: Any, n_features: int, names: Any) -> dict[int, str]:
    """Return the kinds of columns that the user decides, by index."""
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        raise ValueError(f"columns must be a dict of names or indices to kinds, got {shown(asked)}")
    for kind in asked.values():
        if not isinstance(kind, str) or without_unit(kind, "number:") not in ASKED:
            hint = suggestion(kind, ASKED) if isinstance(kind, str) else "."
            raise ValueError(f"columns has the kind {shown(kind)}: expected one of {', '.join(ASKED)}{hint}")
    return {_position(column, n_features, names, "columns"): kind for column, kind in asked.items()}


def _feature(
    column: Column, name: str, is_category: bool | None, asked: str | None, is_sparse: bool = False
) -> Feature:
    """Return the description of a column; None lets its dtype and its texts decide."""
    if asked in DROPS:
        return Feature(column.label, name, DROPPED, form=asked)
    if is_sparse and asked not in (None, CATEGORY):
        raise ValueError(f"{column.label}: a column of a sparse matrix cannot be read as {asked!r}")
    if asked is not None and asked != CATEGORY:
        return _as_asked(column, name, *asked.partition(":")[::2])
    kind = (
        CATEGORY if asked or is_category else column.kind if is_category is None else _uncategorical(column)
    )
    if kind == DATE:
        return _dated(column, name)
    if asked is None and not is_category:
        found = _numbered(column, name) if kind == NUMBER else None
        if column.kind == CATEGORY and column.holds_objects:
            found = _texts(column, name)
        if found is not None:
            return found
    return _category(column, name) if kind == CATEGORY else Feature(column.label, name, kind)


def _category(column: Column, name: str) -> Feature:
    return Feature(column.label, name, CATEGORY, levels=tuple(_in_order(column.coded()[1])))


def _dated(column: Column, name: str, form: str | None = None, zone: str | None = None) -> Feature:
    feature = Feature(column.label, name, DATE, zone=column.zone if form is None else zone, form=form)
    dates = _dates(feature, column)
    return replace(feature, periods=tuple(period for period in PERIODS if has_period(dates, period)))


def _as_asked(column: Column, name: str, kind: str, form: str) -> Feature:
    """Return the description of a column whose kind the user decides."""
    if kind == BOOLEAN:
        return Feature(column.label, name, CATEGORY, (False, True), form=BOOLEAN)
    if kind == TEXT:
        levels = [level for level in column.coded()[1] if isinstance(level, str)]
        words = fit_words(levels, form or is_free_text(levels) or "words") if levels else None
        if words is None:
            raise ValueError(f"columns says that {column.label} holds texts, and no word of it repeats")
        return Feature(column.label, name, TEXT, form=words.form, words=words)
    if column.kind == kind:
        return _dated(column, name) if kind == DATE else Feature(column.label, name, kind)
    levels = [] if column.kind == NUMBER else column.coded()[1]
    found = recognised(levels, (kind,))
    if kind == NUMBER:
        return Feature(column.label, name, NUMBER, form=form or (found.form if found else "."))
    if found is None:
        found = Found(DATE, "ymd" if levels else _unit_of(column.numbers()))
    form = form or found.form
    dates, strange = read_column(column.array(), DATE, form, found.zone, column.label)
    if np.isnat(dates).all() and strange:
        raise ValueError(
            f"columns says that {column.label} holds dates, got values such as {shown(strange[0])}"
        )
    return _dated(column, name, form, found.zone)


def _unit_of(numbers: np.ndarray) -> str:
    """Return the unit of numbers that are times since 1970, by their size; or the order of their digits."""
    largest = np.nanmax(np.abs(numbers), initial=0.0)
    if 1e7 < largest < 1e8:  # such as 20210304
        return "ymd"
    return next((unit for unit in UNITS if largest < LAST_SECOND * UNITS["s"] / UNITS[unit]), "ns")


def _texts(column: Column, name: str) -> Feature | None:
    """Return the description of a column of texts that are no categories; None if they are, or may be."""
    codes, levels = column.coded()
    found = recognised(levels)
    if found is None:
        n_known = int((codes >= 0).sum())
        if not MANY <= len(levels) >= n_known / 2 or not all(isinstance(level, str) for level in levels):
            return None
        form = is_free_text(levels)
        words = None if form is None else fit_words(levels, form)
        if words is not None:
            return Feature(column.label, name, TEXT, form=form, words=words)
        is_id = len(levels) == n_known
        _warn_of_unknown(column.label, name, levels, "id" if is_id else CATEGORY)
        return Feature(column.label, name, DROPPED, form="id") if is_id else None
    if found.guess:
        _warn_of_guess(column.label, name, found.guess, f"{found.kind}:{found.form}")
    if found.kind == CATEGORY:
        return Feature(column.label, name, CATEGORY, (False, True), form=found.form)
    if found.kind == DATE:
        return _dated(column, name, found.form, found.zone)
    return Feature(column.label, name, NUMBER, form=found.form)


def _numbered(column: Column, name: str) -> Feature | None:
    """Return the description of numbers in a frame that are ids or times; None if they are neither."""
    values = column.known_numbers()
    if values is None or len(values) < MANY:
        return None
    low, high = float(values.min()), float(values.max())  # half precision has no number of seconds
    has_name = ID.search(name) is not None
    unit = None if has_name else _unit_of_times(values, low, high, column.label)
    if unit is not None:
        said = f"numbers such as {low:.0f} are read as {NOTES[unit].replace(' in texts', '')}"
        _warn_of_guess(column.label, name, said, f"date:{unit}", "number")
        return _dated(column, name, unit)
    if not column.holds_integers or len(values) < len(column.values):
        return None
    if (has_name or high - low + 1 == len(values)) and len(np.unique(values)) == len(values):
        if has_name:
            return Feature(column.label, name, DROPPED, form="id")
        said = "it has a different integer in every row, without gaps, and is read as numbers"
        _warn_of_guess(column.label, name, said, "number", "id")
    return None


def _unit_of_times(values: np.ndarray, low: Any, high: Any, label: str) -> str | None:
    """Return the unit of times since 1970, "ymd" for dates such as 20210304; None if numbers are neither."""
    for unit, size in UNITS.items():
        size = UNITS["s"] / size
        if FIRST_SECOND * size <= low < high < LAST_SECOND * size:
            return unit
    if FIRST_DAY <= low < high <= LAST_DAY:
        days = np.unique(values)
        if (days == np.floor(days)).all() and not read_column(days, DATE, "ymd", None, label)[1]:
            return "ymd"
    return None


def _warn_of_guess(label: str, name: str, guess: str, kind: str, other: str = "") -> None:
    form = kind.partition(":")[2]
    others = {"mdy": "date:dmy", "dmy": "date:ymd", "ymd": "date:dmy"}
    others |= {form: f"number:{'.,'[form[0] == '.']}{form[1:]}"} if form[:1] in (".", ",") else {}
    warn_caller(
        f"{label}: {guess}. If that is right, say columns={{{name!r}: {kind!r}}}, else "
        f"{{{name!r}: {other or others[form]!r}}}",
        UserWarning,
    )


def _warn_of_unknown(label: str, name: str, levels: Sequence[str], kind: str) -> None:
    """Warn if texts that become ids or categories look like numbers or dates of a form that is not known."""
    some = levels[:: -(-len(levels) // FEW)]
    if all(LIKE_NUMBERS.search(x[:LONGEST]) and not ADDRESS.fullmatch(x[:LONGEST]) for x in some):
        many, become = ("all different", "ids") if kind == "id" else ("nearly all different", "categories")
        warn_caller(
            f"{label}: texts such as {some[0]!r:.80} are {many}, and read as {become}. If they are numbers "
            "or dates, this form of them is not known: convert them before the fit. If they are "
            f"{become}, say columns={{{name!r}: {kind!r}}}",
            UserWarning,
        )


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
    if feature.form == BOOLEAN:
        levels = [boolean_of(level) for level in levels]
    found = [MISSING if level is None else feature.codes.get(level, UNSEEN) for level in levels]
    _warn_of_kinds(feature, levels, found)
    return np.array([*found, MISSING], dtype=np.int32)[codes]


def _warn_of_kinds(feature: Feature, levels: list[Any], codes: list[int]) -> None:
    if feature.form == BOOLEAN or any(code != UNSEEN for code in codes):
        return
    if told := of_another_kind(levels, feature.levels):
        warn_caller(f"{feature.label}: {told}", UserWarning)


def _numbers(feature: Feature, column: Column) -> list[np.ndarray]:
    if feature.kind == NUMBER:
        return [column.numbers() if feature.form is None else _of_texts(feature, column)]
    if feature.words is not None:
        return list(feature.words.encode(column.array().tolist()).T)
    dates = _dates(feature, column)
    return [seconds(dates), *(part for period in feature.periods for part in phases(dates, period))]


def _dates(feature: Feature, column: Column) -> np.ndarray:
    is_plain = feature.form is None or column.kind == DATE
    return column.dates(feature.zone) if is_plain else _of_texts(feature, column)


def _of_texts(feature: Feature, column: Column) -> np.ndarray:
    """Return the numbers or dates of texts; other texts become missing values, with a warning."""
    assert feature.form is not None
    found: np.ndarray
    found, strange = read_column(column.array(), feature.kind, feature.form, feature.zone, feature.label)
    if strange:
        warn_caller(unread(feature.label, feature.kind, strange), UserWarning)
    return found
