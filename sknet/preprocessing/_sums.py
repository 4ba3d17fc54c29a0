"""Sums of two numbers of a table that tell more of the targets than both of them do by themselves."""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from sknet.preprocessing._encodings import MOST_CLASSES, Target
from sknet.preprocessing._schema import Schema, Sum, Sums, Table

# Rows that are looked at, columns whose effects are taken off, numbers that are paired, and sums.
LEAST_ROWS, MOST_ROWS, MOST_COLUMNS, MOST_NUMBERS, MOST_SUMS = 1000, 4000, 32, 10, 3
# Numbers beyond which a look at each takes too long.
WIDEST = 200
# Bins of a column or a sum, and values of a number below which it is none of a sum.
N_BINS, LEAST_VALUES = 32, 8
# Directions in units of interquartile ranges.
ANGLES = np.pi / 8 * np.array([1, 2, 3, 5, 6, 7])
# A sum has to explain a share of the squares that are left, those of as many rows, and a share of all.
LEAST_GAIN, LEAST_SQUARES, LEAST_OF_ALL = 0.01, 40.0, 0.001
# Rows by which means of bins shrink, those of effects of columns, and candidates after the first look at all.
SHRINKING, OF_EFFECTS, MOST_CANDIDATES = 5.0, 0.1, 64


class Bins(NamedTuple):
    """The bin of each row, its place in it from 0 to 1, and the number of bins."""

    indices: np.ndarray
    places: np.ndarray
    n_bins: int


def find_sums(
    schema: Schema, table: Table, target: Target, rows: np.ndarray, directions: np.ndarray | None
) -> Sums:
    """Return sums of two numbers, found on some rows of a table; numbers with a direction have none.

    Targets are fitted by bins of the columns, and what that leaves over by bins of sums of each two numbers.
    The best sum becomes one more column, again and again, until none explains enough.
    """
    if schema.is_sparse or not 2 <= table.numbers.shape[1] <= WIDEST or len(rows) < LEAST_ROWS:
        return ()
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.RandomState(0).choice(rows, MOST_ROWS, replace=False))
    y = target.numbers[rows, :MOST_CLASSES]
    y = y - y.mean(axis=0)
    numbers, usable = _filled(table.numbers[rows])
    usable &= ~schema.phased if directions is None else ~schema.phased & (directions == 0)
    bins = [_bins_of(column) for column in numbers.T]
    columns = [*bins, *(_levels_of(codes) for codes in table.codes[rows].T)]
    gains = [_explained(each, y) for each in columns]
    columns = [columns[i] for i in np.argsort(gains)[::-1][:MOST_COLUMNS]]
    paired = [i for i in np.argsort(gains[: len(bins)])[::-1].tolist() if usable[i]]
    candidates = _candidates(numbers, sorted(paired[:MOST_NUMBERS]))
    binned = {each: _bins_of(_added(numbers, each)) for each in candidates}
    found: list[Sum] = []
    while candidates and len(found) < MOST_SUMS:
        left = _left_by(columns, y)
        explained = {each: _explained(binned[each], left) for each in candidates}
        best = sorted(explained, key=lambda each: -explained[each])[:MOST_CANDIDATES]
        least = np.square(left).sum() * max(LEAST_GAIN, LEAST_SQUARES / len(rows))
        if not explained[best[0]] > max(least, LEAST_OF_ALL * np.square(y).sum()):
            break
        found.append(best[0])
        columns.append(binned[best[0]])
        candidates = best[1:]
    return tuple(found)


def _filled(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers with medians where some are missing, and a mask of those with several values."""
    filled, usable = numbers.copy(), np.zeros(numbers.shape[1], bool)
    for i, column in enumerate(filled.T):
        is_missing = np.isnan(column)
        column[is_missing] = 0.0 if is_missing.all() else np.median(column[~is_missing])
        usable[i] = len(np.unique(column)) >= LEAST_VALUES
    return filled, usable


def _bins_of(values: np.ndarray) -> Bins:
    ordered = np.sort(values)
    edges = np.unique(ordered[len(values) * np.arange(1, N_BINS) // N_BINS])
    # As of `searchsorted`, many times faster for so few edges.
    is_behind = (values >= edges[:, np.newaxis]).view(np.uint8)
    indices = np.add.reduce(is_behind, axis=0, dtype=np.uint8).astype(np.intp)
    knots = np.concatenate([ordered[:1], edges, ordered[-1:]])
    widths = np.maximum(np.diff(knots), np.finfo(np.float64).tiny)
    return Bins(indices, (values - knots[indices]) / widths[indices], len(widths))


def _levels_of(codes: np.ndarray) -> Bins:
    """Return bins of the levels of a category, the last of all but the first ones."""
    return Bins(np.clip(codes, -1, N_BINS - 2) + 1, np.zeros(len(codes)), N_BINS)


def _candidates(numbers: np.ndarray, paired: list[int]) -> list[Sum]:
    """Return sums of each two numbers in several directions."""
    low, high = np.quantile(numbers, [0.25, 0.75], axis=0)
    found = []
    for i, j in combinations([i for i in paired if high[i] > low[i]], 2):
        for angle in ANGLES:
            a, b = float(np.cos(angle) * (high[j] - low[j])), float(np.sin(angle) * (high[i] - low[i]))
            found.append((i, j, a / (abs(a) + abs(b)), b / (abs(a) + abs(b))))
    return found


def _added(numbers: np.ndarray, chosen: Sum) -> np.ndarray:
    i, j, a, b = chosen
    return numbers[:, i] * a + numbers[:, j] * b


def _explained(bins: Bins, y: np.ndarray) -> float:
    """Return how much of the squares of targets their means in bins explain, without what chance does."""
    counts = np.bincount(bins.indices, minlength=bins.n_bins)
    sums = [np.bincount(bins.indices, weights=column, minlength=bins.n_bins) for column in y.T]
    squares = np.square(sums).sum(axis=0)
    return float((squares / (counts + SHRINKING)).sum() - bins.n_bins * np.square(y).sum() / len(y))


def _left_by(columns: list[Bins], y: np.ndarray) -> np.ndarray:
    """Return residuals of targets after a fit of continuous functions, linear in each bin of a column."""
    rows, starts = np.arange(len(y)), np.cumsum([0, *(each.n_bins + 1 for each in columns)])
    inputs = np.zeros((len(y), starts[-1]), np.float32)
    for each, start in zip(columns, starts[:-1], strict=True):
        inputs[rows, each.indices + start] = 1 - each.places
        inputs[rows, each.indices + start + 1] = each.places
    products = (inputs.T @ inputs).astype(np.float64)
    products[np.diag_indices(len(products))] += OF_EFFECTS
    return y - inputs @ np.linalg.solve(products, inputs.T @ y.astype(np.float32))
