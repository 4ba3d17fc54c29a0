"""Folds: disjoint sets of rows, each held out by the members of one fold."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet._constraints import shown

__all__ = ["Fold", "folds_of"]

Fold = tuple[np.ndarray, np.ndarray]
# Folds hold out a tenth of the rows each, or more if there are few rows or groups.
PARTS = 10


def folds_of(
    cv: Any, n_folds: int, y: np.ndarray, stratify: np.ndarray | None, groups: Any, random_state: Any
) -> list[Fold]:
    """Return training and held-out rows of each fold."""
    n_rows = len(y)
    if cv is not None:
        return _given(cv, y, groups)
    units, names = np.arange(n_rows), None
    if groups is not None:
        names, units = np.unique(np.asarray(groups), return_inverse=True)
        if len(units) != n_rows:
            raise ValueError(f"groups must have one entry per row, {n_rows} in all, got {len(units)}")
    n_units = n_rows if names is None else len(names)
    if n_units < 2:
        what = "groups" if names is not None else "rows"
        raise ValueError(
            f"folds need at least 2 {what}, got {n_units} (n_samples={n_rows}): held-out rows cannot be "
            "trained on"
        )
    order = random_state.permutation(n_units)
    if stratify is not None and names is None:
        order = order[np.argsort(stratify[order], kind="stable")]
    n_parts = min(max(PARTS, n_folds), n_units)
    part = np.empty(n_units, dtype=np.int64)
    part[order] = np.arange(n_units) % n_parts
    own = part[units]
    return [(np.flatnonzero(own != i), np.flatnonzero(own == i)) for i in range(min(n_folds, n_parts))]


def _given(cv: Any, y: np.ndarray, groups: Any) -> list[Fold]:
    if hasattr(cv, "split") and not isinstance(cv, (str, bytes)):
        pairs: Iterable[Any] = cv.split(np.zeros((len(y), 1)), y, groups)
    elif isinstance(cv, Iterable) and getattr(cv, "shape", None) != ():
        pairs = cv
    else:
        raise ValueError(
            f"cv must be a splitter or yield pairs of (training, held-out) rows, got {shown(cv)}: n_folds "
            "is their number"
        )
    found = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"cv must be a splitter or yield pairs of (training, held-out) rows, got {shown(pair)} in "
                "one of them"
            )
        rows = [np.asarray(part) for part in pair]
        rows = [np.flatnonzero(part) if part.dtype == bool else part for part in rows]
        for part in rows:
            if part.ndim != 1 or not len(part) or part.dtype.kind not in "iu" or not _are_in(part, len(y)):
                raise ValueError(
                    f"cv must yield pairs of row indices, from 0 to {len(y) - 1}, got "
                    f"{shown(part)} in one of them"
                )
        if len(np.intersect1d(rows[0], rows[1])):
            raise ValueError(
                "cv yields a fold with the same rows on both sides: training rows cannot validate"
            )
        found.append((rows[0].astype(np.intp), rows[1].astype(np.intp)))
    if not found:
        raise ValueError(f"cv={shown(cv)} yields no folds")
    return found


def _are_in(rows: np.ndarray, n_rows: int) -> bool:
    return bool(rows.min() >= 0 and rows.max() < n_rows)
