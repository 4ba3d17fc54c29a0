"""Numbers with values that stand for something: zero, a cap or a code has a mean target of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._cached import cached_property
from sknet._fields import COUNT, Arrays
from sknet.preprocessing._categories import FIRST, CategoryColumn, Crossed, fit_means
from sknet.preprocessing._edges import edges_of, has_several
from sknet.preprocessing._schema import UNSEEN
from sknet.preprocessing._targets import Target

__all__ = ["ValueMeans", "fit_value_means", "value_codes", "values_repeat", "values_tell_more"]

MOST_LEVELS = 1000
# Up to so many rows, columns are looked at together: a call for each takes longer than to sort it.
FEW_ROWS = 1000


@dataclass(frozen=True)
class ValueMeans:
    """The mean targets of a number's values, beside its other encodings."""

    number: int
    levels: np.ndarray
    column: CategoryColumn
    _stored_fields = {
        "number": COUNT,
        "levels": Arrays("f", "n_levels"),
    }

    def _check_stored(self) -> None:
        if not len(self.levels) or len(self.column.values) != len(self.levels) + FIRST:
            raise ValueError(f"{len(self.levels)} values have {len(self.column.values)} rows of means")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def codes(self, numbers: np.ndarray) -> np.ndarray:
        """Return the index of each row's level, of shape (n_samples,), from all numbers of a table."""
        found: np.ndarray = value_codes(numbers[:, self.number], self.levels)
        return found

    def of(self, value: float) -> np.ndarray:
        """Return the outputs of a single value."""
        found: np.ndarray = self._rows.get(value, self.column.values[0])
        return found

    @cached_property
    def _rows(self) -> dict[float, np.ndarray]:
        return dict(zip(self.levels.tolist(), self.column.values[FIRST:], strict=True))


def value_codes(values: Any, levels: Any) -> Any:
    """Return the index of each value among increasing `levels`, `UNSEEN` where it is none of them."""
    found = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    return np.where(levels[found] == values, found, UNSEEN)


def values_repeat(numbers: np.ndarray, min_count: int) -> np.ndarray:
    """Tell which numbers may have a value that occurs often; all of them in tables with many rows."""
    if len(numbers) > FEW_ROWS:
        return np.ones(numbers.shape[1], bool)
    ordered = np.sort(numbers, axis=0)
    found: np.ndarray = (ordered[min_count - 1 :] == ordered[: max(len(ordered) - min_count + 1, 0)]).any(
        axis=0
    )
    return found


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
    values, numbers, folds = values[known], target.numbers[known], folds[known]
    if len(values) < n_folds or not has_several(values, 3):
        return False
    levels, counts = np.unique(values, return_counts=True)
    levels = levels[counts >= min_count]
    if not len(levels):
        return False
    inner = _best(edges, values)[1:-1]
    groups = folds, n_folds
    bins = np.searchsorted(inner, values, side="right")
    by_bin = _means(*_sums_of_others(bins, len(inner) + 1, numbers, *groups), numbers.mean(axis=0))
    codes = value_codes(values, levels)
    often = codes != UNSEEN
    n, total = _sums_of_others(codes[often], len(levels), numbers[often], folds[often], n_folds)
    # All rows with a value are in one bin, so that their residuals need no further pass over the rows.
    expected = by_bin[:, np.searchsorted(inner, levels, side="right")]
    effect = (total - n * expected) / np.maximum(n + smoothing, 1e-12)
    residual = (numbers - by_bin[folds, bins])[often]
    better = residual - effect[folds[often], codes[often]]
    gains = np.bincount(folds[often], (residual**2 - better**2).sum(axis=1), n_folds)
    return bool((gains > 0).all())


def _best(edges: Mapping[str, np.ndarray], values: np.ndarray) -> np.ndarray:
    """Return the edges that fit the target best."""
    found = edges or edges_of(values, None, "quantile", 16)
    return found["tree"] if "tree" in found else found["quantile"]


def _sums_of_others(
    codes: np.ndarray, n_codes: int, numbers: np.ndarray, folds: np.ndarray, n_folds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each fold and code, the count and the sums of the other folds' rows."""
    cells = folds * n_codes + codes
    size = n_folds * n_codes
    columns = [np.ones(len(cells)), *numbers.T]
    sums = np.stack([np.bincount(cells, weights=x, minlength=size) for x in columns], axis=1)
    sums = sums.reshape(n_folds, n_codes, -1)
    others = sums.sum(axis=0) - sums
    return others[..., :1], others[..., 1:]


def _means(n: np.ndarray, total: np.ndarray, overall: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.where(n > 0, total / np.maximum(n, 1), overall)
    return found


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
