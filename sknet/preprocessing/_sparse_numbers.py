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
    """The encoding of the numbers of a sparse matrix.

    Attributes
    ----------
    names : tuple of str
        Names of the outputs.
    kept : ndarray of shape (n_kept,)
        Columns that are not constant.
    scales : ndarray of shape (n_kept,)
        Their divisors.
    flagged : ndarray of shape (n_flags,)
        Columns with an output that flags missing values.
    """

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
    """Fit the encoding of the numbers of a sparse matrix.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    sparse : csr_array of shape (n_samples, n_columns)
        NaN where missing.

    Returns
    -------
    SparseNumbers
        The encoding.
    """
    columns = sparse.tocsc()
    columns.sum_duplicates()
    n_rows = columns.shape[0]
    scales = np.zeros(columns.shape[1])
    flagged = np.zeros(columns.shape[1], dtype=bool)
    for i, (start, stop) in enumerate(zip(columns.indptr[:-1], columns.indptr[1:], strict=True)):
        data = columns.data[start:stop]
        missing = np.isnan(data)
        flagged[i] = missing.any() and not missing.all()
        scales[i] = _scale(data[~missing & (np.abs(data) < HUGE)], n_rows - len(data))
    kept, flags = np.flatnonzero(scales), np.flatnonzero(flagged)
    outputs = (*(names[i] for i in kept), *(f"{names[i]}_missing" for i in flags))
    return SparseNumbers(outputs, kept, scales[kept], flags)


def _scale(values: np.ndarray, n_zeros: int) -> float:
    """Return the interquartile range of values and zeros; if it is 0, half their range, which may be 0."""
    if not len(values):
        return 0.0
    low, high = values.min(), values.max()
    if n_zeros:
        low, high = min(low, 0.0), max(high, 0.0)
    if 4 * n_zeros < 3 * (len(values) + n_zeros):
        first, third = np.quantile(np.concatenate([values, np.zeros(n_zeros)]), [0.25, 0.75])
        if third > first:
            return float(third - first)
    return float(high - low) / 2
