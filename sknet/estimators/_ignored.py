"""Rows whose label a loss ignores: a fit is one of the other rows."""

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sknet.engine.extend import first_input
from sknet.estimators._reading import Sequences
from sknet.estimators._targets import counted_labels
from sknet.estimators._validation import Given

__all__ = ["ignored_label", "taken_rows", "without_ignored"]


def ignored_label(estimator: Any) -> int | None:
    """Return the label that the loss of a classifier ignores, or None."""
    found: int | None = getattr(estimator.loss, "ignore_index", None)
    return found


def without_ignored(estimator: Any, given: Given) -> Given:
    """Return the arguments of a fit without rows whose only label is ignored."""
    ignored = ignored_label(estimator)
    if ignored is None:
        return given
    changed: dict[str, Any] = {}
    for names in (("y", "X", "sample_weight", "groups"), ("y_val", "X_val", "sample_weight_val")):
        arrays = {name: getattr(given, name) for name in names}
        rows = _counted_rows(arrays[names[0]], arrays[names[1]], ignored)
        if rows is None:
            continue
        if not len(rows):
            raise ValueError(f"every label of {names[0]} is {ignored}, which {estimator.loss!r} ignores")
        if names[0] == "y" and isinstance(getattr(estimator, "validation_split", None), (tuple, list)):
            raise ValueError(
                f"validation_split has row numbers, and {estimator.loss!r} leaves rows out: leave rows with "
                f"the label {ignored} out of the fit, or give a splitter"
            )
        changed |= {name: taken_rows(array, rows) for name, array in arrays.items()}
    return given._replace(**changed) if changed else given


def _counted_rows(y: Any, X: Any, ignored: int) -> Any:
    """Return the numbers of rows that count; None if all do, or rows have several labels."""
    if y is None or X is None or np.ndim(y) > 2 or (np.ndim(y) == 2 and np.shape(y)[1] != 1):
        return None
    counted = counted_labels(y, ignored).reshape(-1)
    n_rows = _num_samples(first_input(X.X if isinstance(X, Sequences) else X))
    # Where there are more or fewer labels than rows, the checks of the fit say so.
    return None if counted.all() or len(counted) != n_rows else np.flatnonzero(counted)


def taken_rows(array: Any, rows: Any) -> Any:
    """Return some rows of what a user gave; None stays None."""
    if isinstance(array, Sequences):
        return Sequences(taken_rows(array.X, rows), _safe_indexing(array.lengths, rows))
    if isinstance(array, dict):
        return {name: _safe_indexing(x, rows) for name, x in array.items()}
    return None if array is None else _safe_indexing(array, rows)
