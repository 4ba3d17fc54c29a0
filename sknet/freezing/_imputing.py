"""Imputers."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._fields import Arrays
from sknet._scipy import issparse, scipy_sparse
from sknet.freezing._arrays import as_array, as_floats, check_finite

__all__ = ["Imputing", "simple_imputer"]


@dataclass(frozen=True)
class Imputing:
    """Replaces missing values by a value for each column."""

    reads: str
    missing: Any
    values: Any
    kept: Any = None
    flagged: Any = None
    _stored_fields = {
        "reads": Literal["floats", "objects", "any"],
        "missing": [float, str, bool, None],
        "values": Arrays("biufOU", "n_kept"),
        "kept": [Arrays("i", "n_kept"), None],
        "flagged": [Arrays("i", "n_flags"), None],
    }

    def __call__(self, X: Any) -> Any:
        """Return the table without missing values."""
        if issparse(X):
            return self._sparse(X)
        X = self._read(X)
        mask = self._missing_in(X)
        out, holes = (X, mask) if self.kept is None else (X[:, self.kept], mask[:, self.kept])
        out = np.array(out)  # in the memory order of scikit-learn's imputer, which affects rounding
        if holes.any():
            np.copyto(out, self.values, where=holes, casting="unsafe")
        return out if self.flagged is None else np.hstack((out, mask[:, self.flagged]))

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes for `n_features` columns; None if it cannot."""
        is_plain = self.reads == "floats" and self.kept is None and self.flagged is None
        return n_features if is_plain and _is_nan(self.missing) else None

    def write(self, row: Any, out: Any) -> None:
        """Transform a row in double precision into `out`; both have shape (n_features,)."""
        out[:] = row
        if not math.isfinite(row.dot(row)):
            np.copyto(out, self.values, where=np.isnan(row), casting="unsafe")
            if not math.isfinite(out.dot(out)):
                check_finite(row)

    def _sparse(self, X: Any) -> Any:
        """Return a sparse matrix without missing values; elements that are not stored are not missing."""
        X = (as_floats(X) if self.reads == "floats" else X).tocsc(copy=True)
        mask = type(X)((self._missing_in(X.data), X.indices.copy(), X.indptr.copy()), X.shape, dtype=bool)
        X = X if self.kept is None else X[:, self.kept]
        holes = self._missing_in(X.data)
        X.data[holes] = self.values[np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))[holes]]
        if self.flagged is None:
            return X
        mask.eliminate_zeros()
        return type(X)(scipy_sparse().hstack((X, mask[:, self.flagged]), format="csc"))

    def _read(self, X: Any) -> Any:
        if self.reads == "floats":
            X = as_array(as_floats(X))
        else:
            X = as_array(X, np.dtype(object) if self.reads == "objects" else None)
        if X.dtype.kind not in "iufO":
            raise ValueError(f"an imputer takes numbers or objects, got an array of {X.dtype}")
        return X

    def _missing_in(self, X: Any) -> Any:
        if not _is_nan(self.missing):
            return X == self.missing  # noqa: SIM300  not a constant
        if X.dtype.kind == "f":
            return np.isnan(X)
        return np.zeros(X.shape, dtype=bool) if X.dtype.kind in "iu" else X != X


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(value != value)


def simple_imputer(imputer: Any) -> Imputing:
    """Freeze a SimpleImputer."""
    if type(imputer.missing_values).__name__ == "NAType":
        raise ValueError("missing_values=pandas.NA: use missing_values=np.nan")
    reads = "floats" if imputer.strategy not in ("most_frequent", "constant") else "any"
    if imputer._fit_dtype.kind == "O":
        reads = "objects"
    statistics, kept = imputer.statistics_, None
    if not imputer.keep_empty_features:
        is_empty = np.array([_is_nan(value) for value in statistics.tolist()], dtype=bool)
        kept = np.flatnonzero(~is_empty) if is_empty.any() else None
    values = statistics if kept is None else statistics[kept]
    values = values.astype(getattr(imputer, "_fill_dtype", imputer._fit_dtype))
    flagged = np.array(imputer.indicator_.features_) if imputer.add_indicator else None
    return Imputing(reads, imputer.missing_values, values, kept, flagged)
