"""Encodings of the numbers and the categories of a table, and the targets that they are fitted to."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sknet._fields import COUNT, FINITE, NOT_NEGATIVE, Arrays, Items
from sknet._late import FieldsAlone, cached_property, scipy_sparse
from sknet.ops._codes import Blocks
from sknet.preprocessing._columns import HUGE
from sknet.preprocessing._schema import MISSING, UNSEEN

# With more classes, means would be of too few rows, and columns too many.
MOST_CLASSES = 16
# Beyond these, squares of numbers overflow, are what trees take for 0, or are the same for most of them.
LEAST_DIGITS, MOST_DIGITS, MOST_DEVIATIONS = -16, 256, 1e4


@dataclass(frozen=True)
class Target(FieldsAlone):
    """Targets, as trees and means use them."""

    is_classification: bool
    y: np.ndarray
    numbers: np.ndarray
    names: tuple[str, ...]
    _stored_fields = {
        "y": [Arrays("biuf", "n_samples"), Arrays("biuf", "n_samples", "n_outputs")],
        "numbers": Arrays("f", "n_samples", "n_numbers"),
    }

    def take(self, rows: Any) -> "Target":
        return Target(self.is_classification, self.y[rows], self.numbers[rows], self.names)

    @cached_property
    def split_by(self) -> np.ndarray:
        """Numbers of shape (n_numbers, n_samples) whose squared error is the impurity of a tree's leaf."""
        if not self.is_classification:
            return np.ascontiguousarray((self.numbers - self.numbers.mean(axis=0)).T)
        codes = self.y.reshape(len(self.y), -1).T
        # The indicators of two classes have the same squared error.
        first = int(codes.max() < 2)
        of_columns = [each == np.arange(first, each.max() + 1)[:, np.newaxis] for each in codes]
        return np.concatenate(of_columns).astype(np.float64)


def target_of(y: Any, target_type: str) -> Target:
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity.")
    if target_type == "auto":
        from sklearn.utils.multiclass import type_of_target  # encoding does without it

        with np.errstate(invalid="ignore"):  # it casts labels to integers
            found = type_of_target(y, input_name="y")
        if found == "unknown":
            raise ValueError(f"Unknown label type: y holds neither labels nor numbers, got dtype {y.dtype}")
        target_type = "regression" if found.startswith("continuous") else "classification"
    if target_type == "regression":
        numbers = y.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("Input y contains NaN or infinity.")
        columns = _in_range(numbers.reshape(len(y), -1))
        return Target(False, columns.reshape(numbers.shape), columns, _named(columns.shape[1]))
    return _classes(y)


def _in_range(numbers: np.ndarray) -> np.ndarray:
    """Return columns whose squares keep their digits: shifted and scaled where those of these would not."""
    _, digits = np.frexp(np.abs(numbers).max(axis=0))
    scaled = np.ldexp(numbers, -digits)
    mean, deviation = scaled.mean(axis=0), scaled.std(axis=0)
    is_far = (digits < LEAST_DIGITS) | (digits > MOST_DIGITS) | (np.abs(mean) > MOST_DEVIATIONS * deviation)
    deviation[deviation == 0] = 1.0
    return np.where(is_far, (scaled - mean) / deviation, numbers)


def _classes(y: np.ndarray) -> Target:
    columns = y.reshape(len(y), -1)
    coded, indicators, names = [], [], []
    for i in range(columns.shape[1]):
        try:
            classes, codes, counts = np.unique(columns[:, i], return_inverse=True, return_counts=True)
        except TypeError as error:
            raise TypeError(
                f"the labels of y cannot be sorted: they must be of one type, without missing ones ({error})"
            ) from error
        coded.append(codes)
        most = np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
        shown = most[1:] if len(classes) == 2 else most
        before = f"{i}_" if columns.shape[1] > 1 else ""
        names += [f"{before}{classes[c]}" for c in shown]
        indicators += [codes == c for c in shown]
    numbers = np.stack(indicators, axis=1).astype(np.float64) if indicators else np.empty((len(y), 0))
    own = np.stack(coded, axis=1) if y.ndim == 2 else coded[0]
    return Target(True, own, numbers, tuple(names) if len(names) > 1 else ("",) * len(names))


def _named(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(map(str, range(count)))


def edges_of(
    values: np.ndarray, ordered: np.ndarray, target: Target | None, piecewise: str | None, n_bins: int
) -> dict[str, np.ndarray]:
    if piecewise is None or not has_several(ordered, 3):
        return {}
    found = {}
    if piecewise in ("tree", "both") and target is not None:
        found["tree"] = _thresholds(values, target, n_bins)
    if piecewise in ("quantile", "both") or target is None:
        found["quantile"] = np.quantile(ordered, np.linspace(0, 1, n_bins + 1)[1:-1])
    edges = {name: np.unique([ordered[0], *inner, ordered[-1]]) for name, inner in found.items()}
    return {name: each for name, each in edges.items() if len(each) > 1}


def has_several(ordered: np.ndarray, count: int) -> bool:
    """Tell whether there are at least `count` distinct values among ordered ones."""
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) >= count - 1


# Values of a column's range that are closer are not split, as in the trees of scikit-learn.
LEAST_GAP = np.float32(1e-7)
# A smaller share of all squared errors is rounding.
LEAST_GAIN = 1e-20
# Sums of squares that differ by a smaller share of all may be the same.
ROUNDING = 1e-12


def _thresholds(values: np.ndarray, target: Target, n_leaves: int) -> np.ndarray:
    """Return the thresholds of a tree that sees only this number: those of scikit-learn's, in less time."""
    low, high = values.min(), values.max()
    # Trees compute in float32, in which large numbers overflow and close ones are equal.
    share = ((values - low) / (high - low)).astype(np.float32)
    order = _stable_order(share)
    share = share[order]
    starts = np.concatenate([[0], np.flatnonzero(share[1:] > share[:-1] + LEAST_GAP) + 1])
    sums = np.zeros((len(target.split_by), len(starts) + 1))
    np.cumsum(np.add.reduceat(target.split_by[:, order], starts, axis=1), axis=1, out=sums[:, 1:])
    counts = np.append(starts, len(values)).astype(np.float64)
    found = starts[_splits(sums, counts, max(8, len(values) // 200), n_leaves)]
    inner = low + (share[found - 1].astype(np.float64) + share[found]) / 2 * (high - low)
    return inner[(inner > low) & (inner < high)]


def _stable_order(shares: np.ndarray) -> np.ndarray:
    """Return the order of shares from 0 to 1; equal ones stay in the order that they have."""
    # Bits of floats that are not negative are in their order; integers are sorted many times faster.
    keys = (shares + np.float32(0.0)).view(np.uint32).astype(np.uint64) << 32
    keys += np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    return (keys & 0xFFFFFFFF).astype(np.intp)


def _splits(sums: np.ndarray, counts: np.ndarray, least: int, n_leaves: int) -> list[int]:
    """Return where a tree splits sorted values, the best of all leaves first, given cumulative numbers."""
    leaves: list[tuple[float, int, int, int]] = []
    least_gain = LEAST_GAIN * float((np.diff(sums) ** 2).sum())

    def add(start: int, stop: int) -> None:
        first = int(counts.searchsorted(counts[start] + least))
        last = int(counts.searchsorted(counts[stop] - least, side="right"))
        if first >= last:
            return
        size = counts[stop] - counts[start]
        left = counts[first:last] - counts[start]
        off = sums[:, first:last] - sums[:, start, np.newaxis]
        off -= ((sums[:, stop] - sums[:, start]) / size)[:, np.newaxis] * left
        off *= off
        # The squared error of the leaf's means, less that of the means of its two parts.
        gains = off[0] if len(off) == 1 else off.sum(axis=0)
        gains *= size / (left * (size - left))
        best = int(gains.argmax())
        if gains[best] > least_gain:
            heapq.heappush(leaves, (-float(gains[best]), start, first + best, stop))

    found: list[int] = []
    add(0, len(counts) - 1)
    while leaves and len(found) < n_leaves - 1:
        _, start, middle, stop = heapq.heappop(leaves)
        found.append(middle)
        add(start, middle)
        add(middle, stop)
    return found


# Bins that are computed at a time, so that temporaries stay in the cache.
CHUNK = 2**17
QUARTILES = (0.25, 0.5, 0.75)
FEW_ROWS = 1000


def chunk_of(n_bins: int) -> int:
    """Return how many rows with so many bins are encoded at a time."""
    return max(64, min(1024, CHUNK // max(n_bins, 1)))


def smoothly_clipped(z: np.ndarray) -> np.ndarray:
    """Return ``z / sqrt(1 + (z / 3)**2)``: about z for small z, never beyond 3."""
    third = z / 3.0
    return z / np.sqrt(1.0 + third * third)


@np.errstate(over="ignore", under="ignore")
def encode_numbers(
    numbers: np.ndarray, out: np.ndarray, centers: Any, values: Any, phases: Any, bins: Any, flags: Any
) -> None:
    missing = np.isnan(numbers)
    filled = np.where(missing, centers, numbers)
    kept, middles, scales = values
    z = filled[:, kept]
    z -= middles
    z /= scales  # the largest differences overflow by the smallest scales, and are clipped anyway
    np.clip(z, -HUGE, HUGE, out=z)
    found = smoothly_clipped(z)
    if len(phases):
        found[:, phases] = z[:, phases]
    out[:, : len(kept)] = found
    number, low, inverse, smallest, largest = bins
    if len(number):
        t = filled[:, number]
        t -= low
        t *= inverse
        np.clip(t, smallest, largest, out=t)
        t -= 0.5
        out[:, len(kept) : len(kept) + len(number)] = t
    if len(flags):
        out[:, len(kept) + len(number) :] = missing[:, flags]


@dataclass(frozen=True)
class NumberColumn:
    name: str
    center: float
    scale: float
    edges: Mapping[str, np.ndarray] = field(default_factory=dict)
    has_flag: bool = False
    is_phase: bool = False
    is_known: bool = True
    _stored_fields = {
        "center": FINITE,
        "scale": NOT_NEGATIVE,
        "edges": Items(Literal["tree", "quantile"], Arrays("f", "n_edges")),
    }

    def _check_stored(self) -> None:
        if any(len(edges) < 2 or not np.isfinite(edges).all() for edges in self.edges.values()):
            raise ValueError(f"{self.name} has bins without edges, or with edges that are not finite")
        if any((np.diff(edges) < 0).any() for edges in self.edges.values()):
            raise ValueError(f"{self.name} has edges of bins that are not sorted")

    def with_flag(self, is_missing: bool) -> "NumberColumn":
        """Return the same with a flag, if some values are missing and some are not."""
        return replace(self, has_flag=is_missing and self.is_known and not self.is_phase)


def fit_number(
    name: str,
    values: np.ndarray,
    target: Target | None,
    piecewise: str | None,
    n_bins: int,
    *,
    is_phase: bool = False,
    quartiles: Any = None,
) -> NumberColumn:
    usable = np.abs(values) < HUGE  # a comparison with NaN is False
    seen = values[usable]
    ordered = np.sort(seen)
    if not len(seen) or ordered[0] == ordered[-1]:
        center = float(seen[0]) if len(seen) else 0.0
        return NumberColumn(name, center, 0.0, is_phase=is_phase, is_known=not np.isnan(values).all())
    if is_phase:
        return NumberColumn(name, 0.0, 1.0, is_phase=True)
    first, center, third = np.quantile(ordered, QUARTILES) if quartiles is None else quartiles
    scale = third - first or (ordered[-1] - ordered[0]) / 2
    if target is not None and not usable.all():
        target = target.take(usable)
    edges = edges_of(seen, ordered, target, piecewise, n_bins)
    return NumberColumn(name, float(center), float(scale), edges)


def quartiles_of(values: np.ndarray) -> dict[int, np.ndarray]:
    """Return the quartiles of columns that are finite, found at once: of few rows, a call takes long."""
    if len(values) > FEW_ROWS:
        return {}
    usable = np.flatnonzero((np.abs(values) < HUGE).all(axis=0))
    return dict(zip(usable.tolist(), np.quantile(values[:, usable], QUARTILES, axis=0).T, strict=True))


@dataclass(frozen=True)
class Numbers:
    """All numbers of a table, encoded together."""

    columns: tuple[NumberColumn, ...]

    @cached_property
    def names(self) -> list[str]:
        """Names of the outputs: all values, then all bins, then all flags."""
        values = [column.name for column in self.columns if column.scale]
        bins = [
            f"{column.name}_{kind}{i}"
            for column in self.columns
            for kind, edges in column.edges.items()
            for i in range(len(edges) - 1)
        ]
        return [*values, *bins, *(f"{column.name}_missing" for column in self.columns if column.has_flag)]

    @cached_property
    def values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices of the numbers with a value, their centers and scales."""
        kept = [i for i, column in enumerate(self.columns) if column.scale]
        used = [self.columns[i] for i in kept]
        return (
            np.array(kept, dtype=np.intp),
            np.array([column.center for column in used]),
            np.array([column.scale for column in used]),
        )

    @cached_property
    def phases(self) -> np.ndarray:
        """Indices of the values that are passed through."""
        used = [column for column in self.columns if column.scale]
        return np.array([i for i, column in enumerate(used) if column.is_phase], dtype=np.intp)

    @cached_property
    def bins(self) -> tuple[np.ndarray, ...]:
        """Index of the number, lower edge, inverse width, and clipping bounds of every bin."""
        rows = []
        for i, column in enumerate(self.columns):
            for edges in column.edges.values():
                last = len(edges) - 2
                widths = np.maximum(np.diff(edges), np.finfo(np.float64).tiny)
                # Outer bins extrapolate beyond their edges, by their own width.
                rows += [
                    (i, edges[k], 1 / widths[k], -1.0 if k == 0 else 0.0, 2.0 if k == last else 1.0)
                    for k in range(last + 1)
                ]
        found = np.array(rows, dtype=np.float64).reshape(-1, 5)
        return (found[:, 0].astype(np.intp), *(np.ascontiguousarray(x) for x in found[:, 1:].T))

    @cached_property
    def flags(self) -> np.ndarray:
        """Indices of the numbers that have an output for missing values."""
        return np.array([i for i, column in enumerate(self.columns) if column.has_flag], dtype=np.intp)

    @cached_property
    def centers(self) -> np.ndarray:
        return np.array([column.center for column in self.columns])

    @property
    def parts(self) -> tuple[Any, ...]:
        """The last arguments of `encode_numbers`."""
        return self.centers, self.values, self.phases, self.bins, self.flags

    def encode(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Encode numbers of shape (n_samples, n_numbers) into `out`, of shape (n_samples, n_outputs)."""
        size = chunk_of(len(self.bins[0]))
        for start in range(0, len(numbers), size):
            encode_numbers(numbers[start : start + size], out[start : start + size], *self.parts)


@dataclass(frozen=True)
class SparseNumbers:
    names: tuple[str, ...]
    kept: np.ndarray
    scales: np.ndarray
    flagged: np.ndarray
    _stored_fields = {
        "kept": Arrays("i", "n_kept"),
        "scales": Arrays("f", "n_kept"),
        "flagged": Arrays("i", "n_flags"),
    }

    def _check_stored(self) -> None:
        if len(self.names) != len(self.kept) + len(self.flagged):
            raise ValueError(
                f"{len(self.kept)} numbers and {len(self.flagged)} flags have {len(self.names)} names"
            )
        if min(self.kept.min(initial=0), self.flagged.min(initial=0)) < 0 or not (self.scales > 0).all():
            raise ValueError("a scale, or the index of a number, is negative")

    @np.errstate(over="ignore", under="ignore")
    def encode(self, sparse: Any) -> Any:
        """Return the outputs of a CSR matrix as another CSR matrix."""
        is_missing = np.isnan(sparse.data)
        values = scipy_sparse().csr_array(sparse, copy=True)
        values.data[is_missing] = 0.0
        values = values[:, self.kept]
        z = values.data / self.scales[values.indices]  # infinite by a tiny scale, and clipped
        values.data = smoothly_clipped(np.clip(z, -HUGE, HUGE))
        if not len(self.flagged):
            return values
        missing = scipy_sparse().csr_array(
            (is_missing.astype(np.float64), sparse.indices.copy(), sparse.indptr.copy()), sparse.shape
        )
        missing.eliminate_zeros()
        return scipy_sparse().hstack([values, missing[:, self.flagged]], format="csr")


def fit_sparse(names: list[str], sparse: Any, min_count: int) -> SparseNumbers:
    """Fit the encoding of the numbers of a sparse matrix, without those that few rows have."""
    columns = sparse.tocsc()
    columns.sum_duplicates()
    n_rows, n_columns = columns.shape
    ends, data = columns.indptr, columns.data
    of_column = np.repeat(np.arange(n_columns), np.diff(ends))
    n_missing = np.bincount(of_column[np.isnan(data)], minlength=n_columns)
    flagged = (n_missing > 0) & (n_missing < np.diff(ends))
    usable = np.abs(data) < HUGE  # a comparison with NaN is False
    values, of_value = data[usable], of_column[usable]
    n_values = np.bincount(of_value, minlength=n_columns)
    n_zeros = n_rows - np.diff(ends)
    low, high = np.zeros((2, n_columns))
    known = np.flatnonzero(n_values)
    starts = np.cumsum(n_values) - n_values
    if len(known):
        low[known] = np.minimum.reduceat(values, starts[known])
        high[known] = np.maximum.reduceat(values, starts[known])
    has_zeros = n_zeros > 0
    low[has_zeros], high[has_zeros] = np.minimum(low[has_zeros], 0.0), np.maximum(high[has_zeros], 0.0)
    scales = (high - low) / 2
    for i in np.flatnonzero((n_values > 0) & (4 * n_zeros < 3 * (n_values + n_zeros))):
        own = values[starts[i] : starts[i] + n_values[i]]
        first, third = np.quantile(np.concatenate([own, np.zeros(n_zeros[i])]), [0.25, 0.75])
        scales[i] = third - first or scales[i]
    scales[np.bincount(of_value[values != 0], minlength=n_columns) < min_count] = 0.0
    kept, flags = np.flatnonzero(scales), np.flatnonzero(flagged)
    outputs = (*(names[i] for i in kept), *(f"{names[i]}_missing" for i in flags))
    return SparseNumbers(outputs, kept, scales[kept], flags)


FIRST = -UNSEEN
"""The row for code 0 in a table of levels, after those for unseen levels and missing values."""


@dataclass(frozen=True)
class CategoryColumn:
    """The encoding of a category: a table with a row for each level."""

    names: tuple[str, ...]
    values: np.ndarray
    _stored_fields = {"values": Arrays("f", "n_codes", "n_outputs")}

    def _check_stored(self) -> None:
        if self.values.shape[1] != len(self.names) or len(self.values) < FIRST:
            raise ValueError(f"{len(self.names)} outputs have values of shape {self.values.shape}")

    def encode(self, codes: np.ndarray, out: np.ndarray) -> None:
        """Write the outputs of codes of shape (n_samples,) into `out`, of shape (n_samples, n_outputs)."""
        out[:] = self.values[codes + FIRST]

    def sparse(self, codes: np.ndarray) -> Any:
        """Return the same outputs as a CSR array of shape (n_samples, n_outputs)."""
        return scipy_sparse().csr_array(self.values)[codes + FIRST]

    @property
    def density(self) -> float:
        """Approximate share of nonzero outputs."""
        levels = self.values[FIRST:]
        return np.count_nonzero(levels) / max(levels.size, 1)

    @property
    def is_one_hot(self) -> bool:
        """True if there is an output for each level that is kept."""
        return len(self.names) > 2 and bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def blocks(self) -> Blocks:
        """Columns of the outputs of which a row has a value in one, see `coded_matmul`."""
        count = len(self.names)
        return ((count, 0),) if self.is_one_hot else ((1, 0),) * count


@dataclass(frozen=True)
class Crossed:
    """The outputs of rows of a fit, each by the means of other folds than its own."""

    values: np.ndarray
    codes: np.ndarray
    _stored_fields = {"values": Arrays("f", "n_codes", "n_outputs"), "codes": Arrays("i", "n_samples")}

    def take(self, rows: Any) -> np.ndarray:
        """Return the outputs of some rows, of shape (n_rows, n_outputs)."""
        return self.values[self.codes[rows] + FIRST]


def fit_levels(
    name: str, levels: Sequence[Any], codes: np.ndarray, min_count: int, at_most: int | None = None
) -> CategoryColumn:
    """One-hot encode all levels that are frequent enough; two levels become one output of -1 and 1."""
    counts = np.bincount(codes + FIRST, minlength=len(levels) + FIRST)
    kept = [FIRST + i for i in range(len(levels)) if counts[FIRST + i] >= min_count]
    if at_most is not None and len(kept) > at_most:
        kept = sorted(sorted(kept, key=lambda row: -counts[row])[:at_most])
    missing = FIRST + MISSING
    kept += [missing] if counts[missing] else []
    values = np.zeros((len(counts), len(kept)))
    values[kept, np.arange(len(kept))] = 1.0
    names = [f"{name}_missing" if row == missing else f"{name}_{levels[row - FIRST]}" for row in kept]
    is_constant = len(kept) == 1 and counts[kept[0]] == len(codes)
    if is_constant or not kept:
        return CategoryColumn((), values[:, :0])
    if len(kept) == 2:
        return CategoryColumn((names[1],), values[:, 1:] - values[:, :1])
    return CategoryColumn(tuple(names), values)


def fit_means(
    name: str,
    n_levels: int,
    codes: np.ndarray,
    target: Target,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    smoothing: float,
) -> tuple[CategoryColumn, Crossed]:
    """Encode levels by the means of their targets, shrunk towards the overall mean."""
    numbers, rows = target.numbers, codes + FIRST
    values = _level_means(rows, numbers, n_levels, smoothing)
    tables, places = [values], rows
    if len(folds):
        tables, places = [], np.empty_like(rows)
        for others, own in folds:
            places[own] = rows[own] + len(tables) * len(values)
            tables.append(_level_means(rows[others], numbers[others], n_levels, smoothing))
    table = np.concatenate(tables)
    crossed = table[places]
    center, scale = crossed.mean(axis=0), crossed.std(axis=0)
    scale[scale == 0] = 1.0
    names = tuple(f"{name}_target{'_' * bool(each)}{each}" for each in target.names)
    fitted = Crossed((table - center) / scale, (places - FIRST).astype(np.int32))
    return CategoryColumn(names, (values - center) / scale), fitted


def _level_means(rows: np.ndarray, numbers: np.ndarray, n_levels: int, smoothing: float) -> np.ndarray:
    """Return smoothed means for every row of a table of levels."""
    n = n_levels + FIRST
    counts = np.bincount(rows, minlength=n)[:, np.newaxis]
    sums = np.stack([np.bincount(rows, weights=each, minlength=n) for each in numbers.T], axis=1)
    overall = numbers.mean(axis=0)
    return overall + (sums - counts * overall) / np.maximum(counts + smoothing, 1e-12)


MOST_LEVELS = 1000
# Up to so many rows, columns are looked at together: a call for each takes longer than to sort it.


@dataclass(frozen=True)
class ValueMeans(FieldsAlone):
    """The mean targets of a number's values, beside its other encodings."""

    number: int
    levels: np.ndarray
    column: CategoryColumn
    _stored_fields = {"number": COUNT, "levels": Arrays("f", "n_levels")}

    def _check_stored(self) -> None:
        if not len(self.levels) or len(self.column.values) != len(self.levels) + FIRST:
            raise ValueError(f"{len(self.levels)} values have {len(self.column.values)} rows of means")

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """Return the index of each row's level, of shape (n_samples,), from all numbers of a table."""
        return value_codes(numbers[:, self.number], self.levels)

    def of(self, value: float) -> np.ndarray:
        """Return the outputs of a single value."""
        return self._rows.get(value, self.column.values[0])

    @cached_property
    def _rows(self) -> dict[float, np.ndarray]:
        return dict(zip(self.levels.tolist(), self.column.values[FIRST:], strict=True))


def value_codes(values: Any, levels: Any) -> Any:
    """Return the index of each value among increasing `levels`, `UNSEEN` where it is none of them."""
    order = np.argsort(values)  # those of neighbors are found many times faster
    found = np.empty(len(values), np.intp)
    found[order] = np.minimum(np.searchsorted(levels, values[order]), len(levels) - 1)
    return np.where(levels[found] == values, found, UNSEEN)


def values_repeat(numbers: np.ndarray, min_count: int) -> np.ndarray:
    """Tell which numbers may have a value that occurs often; all of them in tables with many rows."""
    if len(numbers) > FEW_ROWS:
        return np.ones(numbers.shape[1], bool)
    ordered = np.sort(numbers, axis=0)
    return (ordered[min_count - 1 :] == ordered[: max(len(ordered) - min_count + 1, 0)]).any(axis=0)


def values_tell_more(
    values: np.ndarray,
    target: Target,
    edges: Mapping[str, np.ndarray],
    min_count: int,
    folds: np.ndarray,
    smoothing: float,
) -> bool:
    """Tell whether the values of a number, as such, tell more of the target than its bins do."""
    n_folds = int(folds.max()) + 1
    known = ~np.isnan(values)
    values = values[known]
    levels, of_rows, found = np.unique(values, return_inverse=True, return_counts=True)
    is_often = found >= min_count
    if len(values) < n_folds or len(levels) < 3 or not is_often.any():
        return False
    numbers, folds = target.numbers[known], folds[known]
    inner = _best(edges, values)[1:-1]
    groups = folds, n_folds
    of_levels = np.searchsorted(inner, levels, side="right")
    _, counts, sums = _sums_of_folds(of_levels[of_rows], len(inner) + 1, numbers, *groups)
    mean = numbers.mean(axis=0)
    by_bin = _smoothed_means(counts, sums, mean)
    often = is_often[of_rows]
    codes = (np.cumsum(is_often) - 1)[of_rows[often]]
    own, n, total = _sums_of_folds(codes, int(is_often.sum()), numbers[often], folds[often], n_folds)
    # All rows with a value are in one bin, so that their residuals need no further pass over the rows.
    expected = by_bin[:, of_levels[is_often]]
    effect = (total - n * expected) / np.maximum(n + smoothing, 1e-12)
    # Sums of squares of residuals, less those of residuals from the effects.
    gains = (effect * (2 * (own[..., 1:] - own[..., :1] * expected) - own[..., :1] * effect)).sum(axis=(1, 2))
    return bool((gains > ROUNDING * np.square(numbers - mean).sum()).all())


def _best(edges: Mapping[str, np.ndarray], values: np.ndarray) -> np.ndarray:
    """Return the edges that fit the target best."""
    found = edges or edges_of(values, np.sort(values), None, "quantile", 16)
    return found["tree"] if "tree" in found else found["quantile"]


def _sums_of_folds(
    codes: np.ndarray, n_codes: int, numbers: np.ndarray, folds: np.ndarray, n_folds: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each fold and code, the count and the sums of its rows, and both of the other folds'."""
    cells = folds * n_codes + codes
    size = n_folds * n_codes
    columns = [np.bincount(cells, minlength=size), *(np.bincount(cells, x, size) for x in numbers.T)]
    sums = np.stack(columns, axis=1).reshape(n_folds, n_codes, -1)
    others = sums.sum(axis=0) - sums
    return sums, others[..., :1], others[..., 1:]


def _smoothed_means(n: np.ndarray, total: np.ndarray, overall: np.ndarray) -> np.ndarray:
    return np.where(n > 0, total / np.maximum(n, 1), overall)


def fit_value_means(
    name: str,
    number: int,
    values: np.ndarray,
    target: Target,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    smoothing: float,
) -> tuple[ValueMeans, Crossed]:
    """Encode the values of a number, or the most frequent of them, by the means of their targets."""
    levels, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    levels = np.sort(levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]])
    column, fitted = fit_means(name, len(levels), value_codes(values, levels), target, folds, smoothing)
    return ValueMeans(number, levels, column), fitted
