"""Effects of the columns of a table on targets: functions of each, which are linear between knots."""

from typing import NamedTuple

import numpy as np

from sknet.preprocessing._schema import Table

# Columns whose effects are looked at, bins of a column, and values of a number that is none of a sum below.
MOST_COLUMNS, N_BINS, LEAST_VALUES = 32, 32, 8
# Rows by which means of bins shrink, and those of effects of columns.
SHRINKING, OF_EFFECTS = 5.0, 0.1
# Rows at most, also where effects multiply, and at least.
MOST_ROWS, MOST_OF_LOGARITHMS, LEAST_ROWS = 4000, 8000, 1000
# Bins of a number, steps to effects on logarithms, and the shares that these must save of the squares that
# sums of effects leave, and of all.
FEW_BINS, N_STEPS, LEAST_SAVED, LEAST_OF_ALL = 8, 6, 0.1, 0.001
LEAST_LOGARITHM = -8.0  # of a mean, whose inverse is finite
# Columns beyond which a look at each takes too long.
WIDEST = 200


class Bins(NamedTuple):
    """The bin of each row, its place in it from 0 to 1, and the number of bins."""

    indices: np.ndarray
    places: np.ndarray
    n_bins: int


def filled(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers with medians where some are missing, and a mask of those with several values."""
    filled, usable = numbers.copy(), np.zeros(numbers.shape[1], bool)
    for i, column in enumerate(filled.T):
        is_missing = np.isnan(column)
        column[is_missing] = 0.0 if is_missing.all() else np.median(column[~is_missing])
        usable[i] = len(np.unique(column)) >= LEAST_VALUES
    return filled, usable


def sampled(rows: np.ndarray, most: int = MOST_ROWS) -> np.ndarray:
    few = len(rows) <= most
    return rows if few else np.sort(np.random.RandomState(0).choice(rows, most, replace=False))


def best_of(columns: list[Bins], gains: list[float]) -> list[Bins]:
    return [columns[i] for i in np.argsort(gains)[::-1][:MOST_COLUMNS]]


def bins_of(values: np.ndarray, n_bins: int = N_BINS) -> Bins:
    ordered = np.sort(values)
    edges = np.unique(ordered[len(values) * np.arange(1, n_bins) // n_bins])
    # As of `searchsorted`, many times faster for so few edges.
    is_behind = (values >= edges[:, np.newaxis]).view(np.uint8)
    indices = np.add.reduce(is_behind, axis=0, dtype=np.uint8).astype(np.intp)
    knots = np.concatenate([ordered[:1], edges, ordered[-1:]])
    widths = np.maximum(np.diff(knots), np.finfo(np.float64).tiny)
    return Bins(indices, (values - knots[indices]) / widths[indices], len(widths))


def levels_of(codes: np.ndarray) -> Bins:
    """Return bins of the levels of a category, the last of all but the first ones."""
    return Bins(np.clip(codes, -1, N_BINS - 2) + 1, np.zeros(len(codes)), N_BINS)


def explained(bins: Bins, y: np.ndarray) -> float:
    """Return the sum of squares of targets that their means in bins explain, less that of chance."""
    counts = np.bincount(bins.indices, minlength=bins.n_bins)
    sums = [np.bincount(bins.indices, weights=column, minlength=bins.n_bins) for column in y.T]
    squares = np.square(sums).sum(axis=0)
    return float((squares / (counts + SHRINKING)).sum() - bins.n_bins * np.square(y).sum() / len(y))


def inputs_of(columns: list[Bins]) -> np.ndarray:
    """Return inputs whose weights are the effects of columns at the ends of their bins."""
    n_rows = len(columns[0].indices)
    rows, starts = np.arange(n_rows), np.cumsum([0, *(each.n_bins + 1 for each in columns)])
    inputs = np.zeros((n_rows, starts[-1]), np.float32)
    for each, start in zip(columns, starts[:-1], strict=True):
        inputs[rows, each.indices + start] = 1 - each.places
        inputs[rows, each.indices + start + 1] = each.places
    return inputs


def fitted(inputs: np.ndarray, y: np.ndarray, weight: "np.ndarray | None" = None) -> np.ndarray:
    """Return the effects that sum to targets, with the least squared errors."""
    weighted = inputs if weight is None else inputs * weight[:, np.newaxis]
    products = (weighted.T @ inputs).astype(np.float64)
    products[np.diag_indices(len(products))] += OF_EFFECTS
    return np.linalg.solve(products, weighted.T @ y.astype(np.float32))


def effects_multiply(table: Table, rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> bool:
    """Tell whether effects of columns on the mean of targets, 1 on average, multiply rather than add up."""
    # Both are fitted to every second row, and compared on the others.
    n_columns = table.numbers.shape[1] + table.codes.shape[1]
    if table.sparse is not None or not 1 <= n_columns <= WIDEST or len(rows) < LEAST_ROWS:
        return False
    rows = sampled(rows)
    y, weight = y[rows].astype(np.float32), (weight[rows] / weight[rows].mean()).astype(np.float32)
    if not y.any():
        return False
    # Targets and weights may be so large that their squares are not finite, which saves nothing.
    with np.errstate(all="ignore"):
        try:
            return _multiply(_few_inputs(table, rows, y), y, weight)
        except np.linalg.LinAlgError:
            return False


def logarithms_of(table: Table, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return logarithms of targets, linear around means by effects of columns that multiply."""
    # So targets of 0 have one. Those of rows without a weight may be below 0.
    y = np.maximum(y, 0.0)
    if not y.any():
        return y
    y = (y / y.mean()).astype(np.float32)
    inputs, most = _few_inputs(table, rows, y), float(np.log(y.max()))
    own = slice(None, None, 2 if len(y) > MOST_ROWS else 1)  # which means need, in half of the time
    found = inputs @ _of_logarithms(inputs[own], y[own], np.ones_like(y[own]), most)
    found = np.clip(found, LEAST_LOGARITHM, most)
    return found + y * np.exp(-found) - 1.0


def _few_inputs(table: Table, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return inputs of the columns with the strongest effects, in few bins."""
    columns = [bins_of(column, FEW_BINS) for column in filled(table.numbers[rows])[0].T]
    columns += [levels_of(codes) for codes in table.codes[rows].T]
    gains = [explained(each, y[:, np.newaxis] - y.mean()) for each in columns]
    inputs = inputs_of(best_of(columns, gains))
    return inputs[:, inputs.any(axis=0)]


def _multiply(inputs: np.ndarray, y: np.ndarray, weight: np.ndarray) -> bool:
    (own, of_own, own_weight), (others, seen, other_weight) = (
        (inputs[i::2], y[i::2], weight[i::2]) for i in (0, 1)
    )
    most = float(np.log(y.max()))
    added = 1.0 + others @ fitted(own, of_own - 1.0, own_weight)
    multiplied = np.exp(np.minimum(others @ _of_logarithms(own, of_own, own_weight, most), most))
    of_sums, of_products, of_all = (
        (other_weight * np.square(np.clip(each, y.min(), y.max()) - seen)).sum()
        for each in (added, multiplied, np.average(seen, weights=other_weight))
    )
    return bool(of_sums - of_products > max(LEAST_SAVED * of_sums, LEAST_OF_ALL * of_all))


def _of_logarithms(inputs: np.ndarray, y: np.ndarray, weight: np.ndarray, most: float) -> np.ndarray:
    """Return effects on the logarithm of the mean, with the least Poisson deviance, by Newton's method."""
    mean = (y + 1.0) / 2.0
    for _ in range(N_STEPS):
        effects = fitted(inputs, np.log(mean) + (y - mean) / mean, weight * mean)
        mean = np.exp(np.clip(inputs @ effects, LEAST_LOGARITHM, most))
    return effects
