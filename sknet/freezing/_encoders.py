"""Encoders of categories, of numbers in bins, and of tables."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._fields import COUNT, LEVEL, Arrays, Dtypes, Each, Items
from sknet._frames import Frame
from sknet._late import issparse, scipy_sparse
from sknet.freezing._transformers import PRECISIONS, as_array, dense, finite
from sknet.preprocessing.extend import Plan, Schema

__all__ = [
    "Bins",
    "Encoding",
    "Levels",
    "OneHot",
    "Ordinal",
    "binned",
    "k_bins",
    "one_hot",
    "one_hot_encoder",
    "ordinal_encoder",
    "table_encoder",
]

NOWHERE = -1  # the index of a level without an output


@dataclass(frozen=True)
class Levels:
    """The code of each level of a column."""

    known: Mapping[Any, Any]
    nan: Any
    unknown: Any
    column: str
    _stored_fields = {
        "known": Items([LEVEL, None], float),
        "nan": [float, None],
        "unknown": [float, None],
    }

    def of(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Return the codes of values, and whether one is unknown."""
        found = [*map(self.known.get, values)]
        if None not in found:
            return found, False
        has_unknown = False
        for row, place in enumerate(found):
            if place is None:
                found[row], is_unknown = self.other(values[row])
                has_unknown = has_unknown or is_unknown
        return found, has_unknown

    def other(self, value: Any) -> tuple[Any, bool]:
        """Return the code of a value that is not in `known`, and whether it is unknown."""
        if isinstance(value, (float, np.floating)):
            if self.nan is not None and value != value:
                return self.nan, False
            if value in (np.inf, -np.inf):
                raise ValueError(f"{self.column} contains infinity")
        if self.unknown is None:
            raise ValueError(f"Found unknown category {value!r} in {self.column}")
        return self.unknown, True


def _columns_of(X: Any) -> Iterator[list[Any]]:
    if type(X) is Frame:
        yield from (column.tolist() for column in X.columns())
    else:
        array = as_array(X)
        yield from (array[:, i].tolist() for i in range(array.shape[1]))


def one_hot(places: Any, width: int, dtype: Any, container: str) -> Any:
    """Return ones at the places in each row of shape (n_samples, width), in an array or a CSR container."""
    mask = places != NOWHERE
    if container == "array":
        out = np.zeros((len(places), width), dtype)
        rows, _ = np.nonzero(mask)
        out[rows, places[mask]] = 1
        return out
    ends = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    indices = places[mask].astype(np.int32)
    make = scipy_sparse().csr_array if container == "csr_array" else scipy_sparse().csr_matrix
    return make((np.ones(len(indices), dtype), indices, ends), shape=(len(places), width))


@dataclass(frozen=True)
class OneHot:
    """An output for every level of every column."""

    levels: tuple[Levels, ...]
    width: int
    dtype: Any
    container: str
    warns: bool
    _stored_fields = {
        "width": COUNT,
        "dtype": Dtypes("biuf"),
        "container": Literal["array", "csr_array", "csr_matrix"],
    }

    def _check_stored(self) -> None:
        most = sum(len(column.known) + 2 for column in self.levels)
        for column in self.levels:
            for place in (*column.known.values(), column.nan, column.unknown):
                if place is not None and not (
                    isinstance(place, int) and NOWHERE <= place < self.width <= most
                ):
                    raise ValueError(f"{column.column} has the output {place!r} of {self.width}")

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        places = self.places(X)
        return one_hot(places, self.width, self.dtype, self.container)

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes; None if it cannot."""
        return self.width if self.dtype == np.float64 else None

    def write(self, row: Any, out: Any) -> None:
        """Write the outputs of a row, an array or list of values, into `out`, zeros of shape (width,)."""
        unknown = []
        values = row if type(row) is list else row.tolist()
        for i, (levels, value) in enumerate(zip(self.levels, values, strict=True)):
            place = levels.known.get(value)
            if place is None:
                place, is_unknown = levels.other(value)
                if is_unknown:
                    unknown.append(i)
            if place >= 0:
                out[place] = 1.0
        if unknown and self.warns:
            self.warn(unknown)

    def places(self, X: Any) -> Any:
        """Return the output indices, of shape (n_samples, n_features)."""
        columns, unknown = [], []
        for i, (levels, values) in enumerate(zip(self.levels, _columns_of(X), strict=True)):
            places, is_unknown = levels.of(values)
            columns.append(places)
            if is_unknown:
                unknown.append(i)
        if unknown and self.warns:
            self.warn(unknown)
        return np.array(columns, dtype=np.int64).T

    def warn(self, columns: list[int]) -> None:
        """Warn of the columns with unknown levels."""
        names = ", ".join(self.levels[i].column for i in columns)
        warnings.warn(f"Found unknown categories in {names}", UserWarning, stacklevel=2)


@dataclass(frozen=True)
class Ordinal:
    """A number for every level."""

    levels: tuple[Levels, ...]
    dtype: Any
    _stored_fields = {
        "dtype": Dtypes("iuf"),
    }

    def _check_stored(self) -> None:
        for column in self.levels:
            codes = column.known.values()
            if not all(code == int(code) and 0 <= code <= len(codes) for code in codes):
                raise ValueError(f"{column.column} has other codes than numbers of its {len(codes)} levels")

    def __call__(self, X: Any) -> Any:
        """Return the numbers."""
        columns = [levels.of(values)[0] for levels, values in zip(self.levels, _columns_of(X), strict=True)]
        return np.ascontiguousarray(np.array(columns, dtype=self.dtype).T)

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes; None if it cannot."""
        return len(self.levels) if self.dtype == np.float64 else None

    def write(self, row: Any, out: Any) -> None:
        """Write the numbers of a row, an array or list of values, into `out` of shape (n_features,)."""
        values = row if type(row) is list else row.tolist()
        for i, (levels, value) in enumerate(zip(self.levels, values, strict=True)):
            place = levels.known.get(value)
            out[i] = levels.other(value)[0] if place is None else place


# -- from the encoders of scikit-learn ----------------------------------------------------------------


class _Unseen:
    """A value unseen in any fit."""


def one_hot_encoder(encoder: Any) -> OneHot:
    """Freeze a OneHotEncoder, by transforming every level."""
    found = _encoded(encoder, has_unknown=encoder.handle_unknown != "error")
    container = "array" if not encoder.sparse_output else f"csr_{_kind_of_sparse(found)}"
    table = found.toarray() if encoder.sparse_output else found
    widths = encoder._n_features_outs
    levels, start = [], 0
    for i, (categories, width) in enumerate(zip(encoder.categories_, widths, strict=True)):
        part = table[:, start : start + width]
        is_there = part.any(axis=1)
        places = np.where(is_there, start + part.argmax(axis=1), NOWHERE) if width else [NOWHERE] * len(part)
        levels.append(_levels(encoder, i, categories.tolist(), [int(place) for place in places]))
        start += width
    warns = encoder.handle_unknown == "warn" or (
        encoder.drop is not None and encoder.handle_unknown in ("ignore", "infrequent_if_exist")
    )
    return OneHot(tuple(levels), start, np.dtype(encoder.dtype), container, warns)


def ordinal_encoder(encoder: Any) -> Ordinal:
    """Freeze an OrdinalEncoder, by transforming every level."""
    found = _encoded(encoder, has_unknown=encoder.handle_unknown != "error")
    levels = [
        _levels(encoder, i, categories.tolist(), found[:, i].tolist())
        for i, categories in enumerate(encoder.categories_)
    ]
    return Ordinal(tuple(levels), found.dtype)


def _encoded(encoder: Any, *, has_unknown: bool) -> Any:
    """Return an encoder's output for a table with every level, and optionally a last row of unknown ones."""
    n_rows = max(map(len, encoder.categories_))
    table = np.empty((n_rows + has_unknown, len(encoder.categories_)), dtype=object)
    for i, categories in enumerate(encoder.categories_):
        known = categories.tolist()
        table[:n_rows, i] = known + [known[0]] * (n_rows - len(known))
    if has_unknown:
        table[n_rows] = [_Unseen() for _ in encoder.categories_]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that an array does not have, and about unknown levels
        return encoder.transform(table)


def _levels(encoder: Any, i: int, categories: list[Any], found: list[Any]) -> Levels:
    """Return the levels of a column from their codes."""
    names = getattr(encoder, "feature_names_in_", None)
    column = f"column {i}" if names is None else f"column {names[i]!r}"
    nan = None
    known = {}
    for level, place in zip(categories, found, strict=False):
        if isinstance(level, (float, np.floating)) and level != level:
            nan = place
        else:
            known[level] = place
    unknown = found[-1] if encoder.handle_unknown != "error" else None
    return Levels(known, nan, unknown, column)


def _kind_of_sparse(X: Any) -> str:
    return "matrix" if isinstance(X, scipy_sparse().csr_matrix) else "array"


@dataclass(frozen=True)
class Bins:
    """The index of a value's interval, or an output for each interval."""

    edges: tuple[Any, ...]
    dtype: Any
    container: str | None
    _stored_fields = {
        "edges": Each(tuple, Arrays("f", "n_edges")),
        "dtype": [Dtypes("f"), None],
        "container": [Literal["array", "csr_array", "csr_matrix"], None],
    }

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        X = np.array(finite(dense(X), PRECISIONS if self.dtype is None else (self.dtype,)))
        X = binned(X, self.edges)
        if self.container is None:
            return X
        starts = np.cumsum([0, *(len(edges) + 1 for edges in self.edges)])
        return one_hot(X.astype(np.int64) + starts[:-1], int(starts[-1]), X.dtype, self.container)


def binned(X: Any, edges: Any) -> Any:
    """Replace the columns of an array by the indices of intervals, in place, and return it."""
    for i, inner in enumerate(edges):
        X[:, i] = np.searchsorted(inner, X[:, i], side="right")
    return X


def k_bins(discretizer: Any) -> Bins:
    """Freeze a KBinsDiscretizer."""
    edges = tuple(np.array(each[1:-1]) for each in discretizer.bin_edges_)
    container = None
    if discretizer.encode != "ordinal":
        found = discretizer._encoder.transform(np.zeros((1, len(edges))))
        container = type(found).__name__ if discretizer.encode == "onehot" else "array"
    dtype = None if discretizer.dtype is None else np.dtype(discretizer.dtype)
    return Bins(edges, dtype, container)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a table."""

    schema: Schema
    plan: Plan
    names: tuple[str, ...] | None
    dtype: str
    is_sparse: bool
    _stored_fields = {
        "dtype": Literal["float32", "float64"],
    }

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        X = X.ordered() if type(X) is Frame else X.tocsc() if issparse(X) else X
        table = self.schema.read_opened(X, self.names)
        encode = self.plan.csr if self.is_sparse else self.plan.dense
        return encode(table, np.dtype(self.dtype))


def table_encoder(encoder: Any) -> Encoding:
    """Freeze a TableEncoder."""
    names = getattr(encoder, "feature_names_in_", None)
    names = None if names is None else tuple(map(str, names))
    return Encoding(encoder._schema, encoder._plan, names, encoder.dtype, encoder._is_sparse())
