"""Encoders of categories, of numbers in bins, and of tables; steps in sequence and side by side."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._fields import COUNT, LEVEL, SLICE, Arrays, Dtypes, Each, Named
from sknet._frames import Frame
from sknet._late import FieldsAlone, cached_property, issparse, scipy_sparse
from sknet.freezing._transformers import (
    PRECISIONS,
    Elementwise,
    Imputing,
    Known,
    Scaling,
    Step,
    as_array,
    as_plain,
    dense,
    finite,
)
from sknet.preprocessing._plan import Plan, check_plan
from sknet.preprocessing._schema import Schema

NOWHERE = -1  # the index of a level without an output


@dataclass(frozen=True)
class Levels(FieldsAlone):
    levels: tuple[Any, ...]
    codes: tuple[Any, ...]
    nan: Any
    unknown: Any
    column: str
    _stored_fields = {
        "levels": Each(tuple, [LEVEL, None]),
        "codes": Each(tuple, float),
        "nan": [float, None],
        "unknown": [float, None],
    }

    def _check_stored(self) -> None:
        if not len(self.levels) == len(self.codes) == len(self.known):
            raise ValueError(f"{self.column} has {len(self.levels)} levels, and {len(self.codes)} codes")

    @cached_property
    def known(self) -> dict[Any, Any]:
        return dict(zip(self.levels, self.codes, strict=True))

    def of(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Return the codes of values, and whether one is unknown."""
        return codes_of(values, self.known, self.nan, self.unknown, self.column)

    def other(self, value: Any) -> tuple[Any, bool]:
        """Return the code of a value that is not in `known`, and whether it is unknown."""
        return other_code(value, self.nan, self.unknown, self.column)


def codes_of(values: Any, known: Any, nan: Any, unknown: Any, column: str) -> tuple[list[Any], bool]:
    """Return the codes of a column's values, and whether one is unknown."""
    found = [*map(known.get, values)]
    if None not in found:
        return found, False
    has_unknown = False
    for row, code in enumerate(found):
        if code is None:
            found[row], is_unknown = other_code(values[row], nan, unknown, column)
            has_unknown = has_unknown or is_unknown
    return found, has_unknown


def other_code(value: Any, nan: Any, unknown: Any, column: str) -> tuple[Any, bool]:
    """Return the code of a value that is not a known level, and whether it is unknown."""
    if isinstance(value, (float, np.floating)):
        if nan is not None and value != value:
            return nan, False
        if value in (np.inf, -np.inf):
            raise ValueError(f"{column} contains infinity")
    if unknown is None:
        raise ValueError(f"Found unknown category {value!r} in {column}")
    return unknown, True


def _columns_of(X: Any) -> Iterator[list[Any]]:
    if type(X) is Frame:
        yield from (column.tolist() for column in X.columns())
    else:
        array = as_array(X)
        yield from (array[:, i].tolist() for i in range(array.shape[1]))


def one_hot(places: Any, width: int, dtype: Any, container: str) -> Any:
    """Return ones at the places in each row of shape (n_samples, width), in an array or a CSR container."""
    if container == "array":
        return one_hot_array(places, width, dtype)
    mask = places != NOWHERE
    ends = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int32)
    indices = places[mask].astype(np.int32)
    make = scipy_sparse().csr_array if container == "csr_array" else scipy_sparse().csr_matrix
    return make((np.ones(len(indices), dtype), indices, ends), shape=(len(places), width))


def one_hot_array(places: Any, width: int, dtype: Any) -> Any:
    """Return ones at the places in each row; negative places have none."""
    out = np.zeros((len(places), width), dtype)
    rows, _ = np.nonzero(places >= 0)
    out[rows, places[places >= 0]] = 1
    return out


@dataclass(frozen=True)
class OneHot(Step):
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
            for place in (*column.codes, column.nan, column.unknown):
                if place is not None and not (
                    isinstance(place, int) and NOWHERE <= place < self.width <= most
                ):
                    raise ValueError(f"{column.column} has the output {place!r} of {self.width}")

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(len(self.levels), n)
        return self.width

    def __call__(self, X: Any) -> Any:
        places = self.places(X)
        return one_hot(places, self.width, self.dtype, self.container)

    @property
    def can_write(self) -> bool:
        return bool(self.dtype == np.float64)

    def write(self, row: Any, out: Any) -> None:
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
class Ordinal(Step):
    """A number for every level."""

    levels: tuple[Levels, ...]
    dtype: Any
    _stored_fields = {"dtype": Dtypes("iuf")}

    def _check_stored(self) -> None:
        for column in self.levels:
            codes = column.codes
            if not all(code == int(code) and 0 <= code <= len(codes) for code in codes):
                raise ValueError(f"{column.column} has other codes than numbers of its {len(codes)} levels")

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(len(self.levels), n)
        return n

    def __call__(self, X: Any) -> Any:
        columns = [levels.of(values)[0] for levels, values in zip(self.levels, _columns_of(X), strict=True)]
        return np.ascontiguousarray(np.array(columns, dtype=self.dtype).T)

    @property
    def can_write(self) -> bool:
        return bool(self.dtype == np.float64)

    def write(self, row: Any, out: Any) -> None:
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
    return Levels(tuple(known), tuple(known.values()), nan, unknown, column)


def _kind_of_sparse(X: Any) -> str:
    return "matrix" if isinstance(X, scipy_sparse().csr_matrix) else "array"


@dataclass(frozen=True)
class Bins(Step):
    """The index of a value's interval, or an output for each interval."""

    edges: tuple[Any, ...]
    dtype: Any
    container: str | None
    _stored_fields = {
        "edges": Each(tuple, Arrays("f", "n_edges")),
        "dtype": [Dtypes("f"), None],
        "container": [Literal["array", "csr_array", "csr_matrix"], None],
    }

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(len(self.edges), n)
        return n if self.container is None else sum(len(edges) + 1 for edges in self.edges)

    def __call__(self, X: Any) -> Any:
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
    edges = tuple(np.array(each[1:-1]) for each in discretizer.bin_edges_)
    container = None
    if discretizer.encode != "ordinal":
        found = discretizer._encoder.transform(np.zeros((1, len(edges))))
        container = type(found).__name__ if discretizer.encode == "onehot" else "array"
    dtype = None if discretizer.dtype is None else np.dtype(discretizer.dtype)
    return Bins(edges, dtype, container)


@dataclass(frozen=True)
class Encoding(Step):
    schema: Schema
    plan: Plan
    names: tuple[str, ...] | None
    dtype: str
    is_sparse: bool
    _stored_fields = {"dtype": Literal["float32", "float64"]}

    def _n_outputs(self, n: int, known: Known) -> int:
        check_plan(self.schema, self.plan, n, self.plan.width)
        if self.names is not None:
            self._check(len(self.names), n)
        return self.plan.width

    def __call__(self, X: Any) -> Any:
        X = X.ordered() if type(X) is Frame else X.tocsc() if issparse(X) else X
        table = self.schema.read_opened(X, self.names)
        encode = self.plan.csr if self.is_sparse else self.plan.dense
        return encode(table, np.dtype(self.dtype))


def table_encoder(encoder: Any) -> Encoding:
    names = getattr(encoder, "feature_names_in_", None)
    names = None if names is None else tuple(map(str, names))
    return Encoding(encoder._schema, encoder._plan, names, encoder.dtype, encoder._is_sparse())


# -- steps in sequence and side by side --------------------------------------------------------------

Positions = slice | tuple[int, ...]
IN_PLACE = (Imputing, Scaling)
STEP = Named(
    *(
        "Binarizing",
        "Bins",
        "BoxCox",
        "Chain",
        "Columns",
        "Elementwise",
        "Encoding",
        "Imputing",
        "Normalizing",
    ),
    *("OneHot", "Ordinal", "Powers", "Products", "Projection", "Quantiles", "Scaling", "Selection"),
)


@dataclass(frozen=True)
class Chain(Step):
    steps: tuple[Step, ...]
    _stored_fields = {"steps": Each(tuple, STEP)}

    def _n_outputs(self, n: int, known: Known) -> int:
        for step in self.steps:
            n = step.n_outputs(n, known)
        return n

    def __call__(self, X: Any) -> Any:
        for step in self.steps:
            X = step(X)
        return X

    @property
    def can_write(self) -> bool:
        # Steps after the first overwrite the previous step's outputs.
        in_place = all(isinstance(step, IN_PLACE) for step in self.steps[1:])
        return in_place and all(step.can_write for step in self.steps)

    def write(self, row: Any, out: Any) -> None:
        if not self.steps:
            out[:] = row
        for step in self.steps:
            step.write(row, out)
            row = out


@dataclass(frozen=True)
class Branch:
    """A step for some of the columns."""

    step: Step
    positions: Positions
    weight: float | None = None
    _stored_fields = {"step": STEP, "positions": [SLICE, Each(tuple, COUNT)]}

    def __call__(self, X: Any) -> Any:
        positions = self.positions
        if type(X) is Frame:
            is_slice = isinstance(positions, slice)
            X = X.take(range(X.shape[1])[positions] if is_slice else positions)  # type: ignore[arg-type,index]
        else:
            X = X[:, positions if isinstance(positions, slice) else list(positions)]
        found = self.step(X)
        return found if self.weight is None else as_plain(found) * self.weight


@dataclass(frozen=True)
class Columns(Step):
    """Steps for some of the columns each, with their outputs concatenated."""

    branches: tuple[Branch, ...]
    is_sparse: bool | None

    def _n_outputs(self, n: int, known: Known) -> int:
        found = 0
        for branch in self.branches:
            positions = branch.positions
            if isinstance(positions, slice):
                taken = len(range(n)[positions])
            else:
                self._check_positions(positions, n)
                taken = len(positions)
            found += branch.step.n_outputs(taken, known)
        return found

    def __call__(self, X: Any) -> Any:
        if type(X) is np.ndarray and len(X) == 1 and self._writers is not None and X.dtype.char in "dO":
            out = np.zeros((1, self._writers[0]))
            self.write(X[0], out[0])
            return out
        if not self.branches:
            return np.zeros((X.shape[0], 0))
        parts = [branch(X) for branch in self.branches]
        if self.is_sparse or (self.is_sparse is None and any(map(issparse, parts))):
            return scipy_sparse().hstack([_numbers(part) for part in parts]).tocsr()
        return np.hstack([part.toarray() if issparse(part) else as_plain(part) for part in parts])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_writers"}

    @property
    def can_write(self) -> bool:
        return self._writers is not None

    def write(self, row: Any, out: Any) -> None:
        _, writers = self._writers  # type: ignore[misc]
        is_list = type(row) is list
        is_float = not is_list and row.dtype.char == "d"
        for write, positions, reads_numbers, part in writers:
            if is_list and type(positions) is not slice:
                values = [row[i] for i in positions.tolist()]
            else:
                values = row[positions]
            write(np.array(values, np.float64) if reads_numbers and not is_float else values, out[part])

    @cached_property
    def _writers(self) -> "tuple[int, list[Any]] | None":
        """Step and slices of input and output row of each branch; None if a branch cannot write."""
        found, start = [], 0
        for branch in self.branches:
            positions = _numbered(branch.positions)
            writes = branch.step.can_write and branch.weight is None
            if self.is_sparse or not (writes and positions):
                return None
            width = branch.step.n_outputs(len(positions), {})
            first = branch.step
            while isinstance(first, Chain) and first.steps:
                first = first.steps[0]
            reads_numbers = not isinstance(first, (OneHot, Ordinal))
            if isinstance(first, (Chain, Elementwise)):
                return None  # passes objects through
            step: Any = branch.step
            while isinstance(step, Chain) and len(step.steps) == 1:
                (step,) = step.steps
            write = step.write
            found.append((write, _as_slice(positions), reads_numbers, slice(start, start + width)))
            start += width
        return (start, found) if found else None

    @property
    def used(self) -> Sequence[Positions]:
        return [branch.positions for branch in self.branches]


def _numbered(positions: Positions) -> tuple[int, ...]:
    """Return the individual positions; none if a slice counts from the end."""
    if not isinstance(positions, slice):
        return positions
    start, stop, step = positions.start or 0, positions.stop, positions.step or 1
    return () if stop is None or min(start, stop, step) < 0 else tuple(range(start, stop, step))


def _as_slice(positions: tuple[int, ...]) -> Any:
    """Return contiguous positions as a slice, which needs no copy."""
    first = positions[0]
    if positions == tuple(range(first, first + len(positions))):
        return slice(first, first + len(positions))
    return np.array(positions)


def _numbers(part: Any) -> Any:
    if issparse(part):
        return part
    part = part.array() if type(part) is Frame else part
    return part.astype(np.float64) if part.dtype == object else part
