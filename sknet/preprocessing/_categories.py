"""Categories: one-hot encoding, -1 and 1 for two levels, or target encoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import Arrays
from sknet._scipy import scipy_sparse
from sknet.preprocessing._schema import MISSING, UNSEEN
from sknet.preprocessing._targets import Target

__all__ = ["FIRST", "CategoryColumn", "Crossed", "fit_levels", "fit_means"]

FIRST = -UNSEEN
"""The row for code 0 in a table of levels, after those for unseen levels and missing values."""


@dataclass(frozen=True)
class CategoryColumn:
    """The encoding of a category: a table with a row for each level."""

    names: tuple[str, ...]
    values: np.ndarray
    _stored_fields = {
        "values": Arrays("f", "n_codes", "n_outputs"),
    }

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
        """Whether there is an output for each level that is kept."""
        return len(self.names) > 2 and bool(np.isin(self.values, (0.0, 1.0)).all())


@dataclass(frozen=True)
class Crossed:
    """The outputs of rows of a fit, each by the means of other folds than its own."""

    values: np.ndarray
    codes: np.ndarray
    _stored_fields = {
        "values": Arrays("f", "n_codes", "n_outputs"),
        "codes": Arrays("i", "n_samples"),
    }

    def take(self, rows: Any) -> np.ndarray:
        """Return the outputs of some rows, of shape (n_rows, n_outputs)."""
        found: np.ndarray = self.values[self.codes[rows] + FIRST]
        return found


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
    values = _means(rows, numbers, n_levels, smoothing)
    tables, places = [values], rows
    if len(folds):
        tables, places = [], np.empty_like(rows)
        for others, own in folds:
            places[own] = rows[own] + len(tables) * len(values)
            tables.append(_means(rows[others], numbers[others], n_levels, smoothing))
    table = np.concatenate(tables)
    crossed = table[places]
    center, scale = crossed.mean(axis=0), crossed.std(axis=0)
    scale[scale == 0] = 1.0
    names = tuple(f"{name}_target{'_' * bool(each)}{each}" for each in target.names)
    fitted = Crossed((table - center) / scale, (places - FIRST).astype(np.int32))
    return CategoryColumn(names, (values - center) / scale), fitted


def _means(rows: np.ndarray, numbers: np.ndarray, n_levels: int, smoothing: float) -> np.ndarray:
    """Return smoothed means for every row of a table of levels."""
    n = n_levels + FIRST
    counts = np.bincount(rows, minlength=n)[:, np.newaxis]
    sums = np.stack([np.bincount(rows, weights=each, minlength=n) for each in numbers.T], axis=1)
    overall = numbers.mean(axis=0)
    found: np.ndarray = overall + (sums - counts * overall) / np.maximum(counts + smoothing, 1e-12)
    return found
