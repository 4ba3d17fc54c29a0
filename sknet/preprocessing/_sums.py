"""Sums of two numbers of a table that tell more of the targets than both of them do by themselves."""

from itertools import combinations

import numpy as np

from sknet.preprocessing._effects import (
    LEAST_OF_ALL,
    LEAST_ROWS,
    MOST_OF_LOGARITHMS,
    MOST_ROWS,
    WIDEST,
    Bins,
    best_of,
    bins_of,
    explained,
    filled,
    fitted,
    inputs_of,
    levels_of,
    logarithms_of,
    sampled,
)
from sknet.preprocessing._encodings import MOST_CLASSES
from sknet.preprocessing._schema import Schema, Sum, Sums, Table

# Numbers that are paired, and sums.
MOST_NUMBERS, MOST_SUMS = 10, 3
# Directions in units of interquartile ranges.
ANGLES = np.pi / 8 * np.array([1, 2, 3, 5, 6, 7])
# A sum has to explain a share of the squares that are left, those of as many rows, and a share of all, which
# is less of those of logarithms: the effects of single columns leave little of these.
LEAST_GAIN, LEAST_SQUARES, LEAST_OF_LOGARITHMS = 0.01, 40.0, 5e-5
# Candidates after the first look at all.
MOST_CANDIDATES = 64


def find_sums(
    schema: Schema,
    table: Table,
    y: np.ndarray,
    rows: np.ndarray,
    directions: np.ndarray | None,
    multiply: bool = False,
) -> Sums:
    """Return sums of two numbers, found on some rows of a table; numbers with a direction have none.

    Targets are fitted by bins of the columns, and what that leaves over by bins of sums of each two numbers.
    The best sum becomes one more column, again and again, until none explains enough. If effects of columns
    multiply, logarithms take the place of targets.
    """
    if schema.is_sparse or not 2 <= table.numbers.shape[1] <= WIDEST or len(rows) < LEAST_ROWS:
        return ()
    rows = sampled(rows, MOST_OF_LOGARITHMS if multiply else MOST_ROWS)
    y = y[rows, :MOST_CLASSES]
    if multiply:
        y = logarithms_of(table, rows, y[:, 0])[:, np.newaxis]
    y = y - y.mean(axis=0)
    y = np.ldexp(y, -np.frexp(np.abs(y).max())[1])  # in the range of single precision
    numbers, usable = filled(table.numbers[rows])
    usable &= ~schema.phased if directions is None else ~schema.phased & (directions == 0)
    bins = [bins_of(column) for column in numbers.T]
    columns = [*bins, *(levels_of(codes) for codes in table.codes[rows].T)]
    gains = [explained(each, y) for each in columns]
    columns = best_of(columns, gains)
    paired = [i for i in np.argsort(gains[: len(bins)])[::-1].tolist() if usable[i]]
    candidates = _candidates(numbers, sorted(paired[:MOST_NUMBERS]))
    binned = {each: bins_of(_added(numbers, each)) for each in candidates}
    of_all = LEAST_OF_LOGARITHMS if multiply else LEAST_OF_ALL
    found: list[Sum] = []
    while candidates and len(found) < MOST_SUMS:
        left = _left_by(columns, y)
        gain = {each: explained(binned[each], left) for each in candidates}
        best = sorted(gain, key=lambda each: -gain[each])[:MOST_CANDIDATES]
        least = np.square(left).sum() * max(LEAST_GAIN, LEAST_SQUARES / len(rows))
        if not gain[best[0]] > max(least, of_all * np.square(y).sum()):
            break
        found.append(best[0])
        columns.append(binned[best[0]])
        candidates = best[1:]
    return tuple(found)


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


def _left_by(columns: list[Bins], y: np.ndarray) -> np.ndarray:
    """Return residuals of targets after a fit of continuous functions, linear in each bin of a column."""
    inputs = inputs_of(columns)
    return y - inputs @ fitted(inputs, y)
