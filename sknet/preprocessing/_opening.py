"""Conversion of any table-like input to one of four containers that columns are read from."""

import warnings
from typing import Any

import numpy as np

from sknet._frames import is_frame, refuse_collection
from sknet._scipy import issparse, scipy_sparse

__all__ = ["opened"]


def opened(estimator: Any, X: Any, *, reset: bool = False) -> Any:
    """Return a table as a pandas or polars frame, an array or a CSC matrix, after checking its features."""
    refuse_collection(X, type(estimator).__name__)
    X = _contained(X)
    _check_names(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got {len(X.shape)}D array instead, of shape {X.shape}. Reshape your data "
            "either using array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if "
            "it contains a single sample."
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is required by "
                f"{type(estimator).__name__}."
            )
    if hasattr(estimator, "check_columns"):
        estimator.check_columns(X)
        return X
    from sklearn.utils.validation import validate_data  # of an estimator, which has loaded it

    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def _check_names(X: Any) -> None:
    """Raise a ValueError if columns of a frame have equal names, which no encoder could tell apart later."""
    if getattr(getattr(X, "columns", None), "is_unique", True):
        return
    names = X.columns.tolist()
    twice = sorted({repr(name) for name in names if names.count(name) > 1})
    raise ValueError(
        f"several columns of X have the name {', '.join(twice)}: columns are found by name, give each its own"
    )


def _contained(X: Any) -> Any:
    if issparse(X):
        if X.dtype.kind == "c":
            raise ValueError("Complex data not supported: X is a sparse matrix of complex numbers")
        sparse = scipy_sparse()
        return sparse.csc_array(X) if isinstance(X, sparse.sparray) else sparse.csc_matrix(X)
    if is_frame(X):
        return X
    if hasattr(X, "to_pandas"):
        return X.to_pandas()
    if hasattr(X, "__dataframe__") and not hasattr(X, "__array__"):
        return _interchanged(X)
    if isinstance(X, (list, tuple)):
        return _of_rows(X)
    return np.asarray(X)


def _of_rows(X: Any) -> np.ndarray:
    """Return rows as an array, of dtype object if not all values are numbers."""
    try:
        array = np.asarray(X)
    except ValueError:  # ragged rows
        array = np.asarray(X, dtype=object)
    return array if array.dtype.kind in "biufcmM" else np.asarray(X, dtype=object)


def _interchanged(X: Any) -> Any:
    """Convert a frame with the dataframe interchange protocol to pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns of later versions of the protocol
        from pandas.api.interchange import from_dataframe

        return from_dataframe(X)
