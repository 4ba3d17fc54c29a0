"""Numbers of a sparse matrix: scaled without centering, so that zeros stay zeros."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import Arrays
from sknet._scipy import scipy_sparse
from sknet.preprocessing._numbers import smoothly_clipped
from sknet.preprocessing._values import HUGE

__all__ = ["SparseNumbers", "fit_sparse"]


@dataclass(frozen=True)
class SparseNumbers:
    """The encoding of the numbers of a sparse matrix."""

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

    def encode(self, sparse: Any) -> Any:
        """Return the outputs of a CSR matrix as another CSR matrix."""
        is_missing = np.isnan(sparse.data)
        values = scipy_sparse().csr_array(sparse, copy=True)
        values.data[is_missing] = 0.0
        values = values[:, self.kept]
        z = values.data / self.scales[values.indices]
        values.data = smoothly_clipped(np.clip(z, -HUGE, HUGE))
        if not len(self.flagged):
            return values
        missing = scipy_sparse().csr_array(
            (is_missing.astype(np.float64), sparse.indices.copy(), sparse.indptr.copy()), sparse.shape
        )
        missing.eliminate_zeros()
        return scipy_sparse().hstack([values, missing[:, self.flagged]], format="csr")


def fit_sparse(names: list[str], sparse: Any) -> SparseNumbers:
    """Fit the encoding of the numbers of a sparse matrix."""
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
    kept, flags = np.flatnonzero(scales), np.flatnonzero(flagged)
    outputs = (*(names[i] for i in kept), *(f"{names[i]}_missing" for i in flags))
    return SparseNumbers(outputs, kept, scales[kept], flags)
