"""Validation of X, y and sample_weight."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from sknet import ops
from sknet._finite import all_finite
from sknet.device import backend_of, device_of, is_array, namespace, to_host
from sknet.estimators._namespace import as_host, is_on_device, note_namespace
from sknet.estimators._not_numbers import naming_columns

__all__ = ["INTEGERS", "check_X", "check_X_y", "check_weights", "check_y"]

INTEGERS = [np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_]


def check_X(estimator: BaseEstimator, X: Any, dtypes: list[type], *, reset: bool = False) -> Any:  # noqa: N802  X, as in scikit-learn
    """Return X as a 2-D float array or CSR matrix on its own device, checked."""
    if not reset and _needs_no_conversion(estimator, X, dtypes):
        return X
    X = _with_dtype(X)
    if is_on_device(X):
        return _check_device_array(estimator, X, dtypes, reset)
    with naming_columns(estimator, X):
        X = validate_data(estimator, X, accept_sparse=["csr", "csc"], dtype=dtypes, reset=reset)
    return _rows(X)


def _with_dtype(X: Any) -> Any:
    """Return what can be read as an array as one, which says in which precision it is."""
    if isinstance(X, dict) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"a table was expected, an array or a data frame, got a dict of {list(X)}: join its arrays as "
            "columns, or learn from several inputs by a network of your own, NetClassifier(MyNet) or "
            "NetRegressor(MyNet)"
        )
    says = hasattr(X, "dtype") or hasattr(X, "dtypes") or hasattr(X, "columns")
    return np.asarray(X) if hasattr(X, "__array__") and not says else X


def _needs_no_conversion(estimator: BaseEstimator, X: Any, dtypes: list[type]) -> bool:
    """Tell whether X is valid as it is: scikit-learn's checks take longer than predicting one row."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.type in dtypes
        and X.shape[0] > 0
        and _has_known_features(estimator, X)
        and all_finite(X)
    )


def _has_known_features(estimator: BaseEstimator, X: Any) -> bool:
    """Tell whether a table has as many columns as in the first fit, which had no names."""
    return X.shape[1] == estimator.n_features_in_ and "feature_names_in_" not in estimator.__dict__


def _are_plain(X: Any, y: Any, dtypes: list[type]) -> bool:
    """Tell whether rows and targets are valid as they are: numbers in plain arrays, one target a row."""
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.ndim == 2
        and y.shape == X.shape[:1]
        and 0 not in X.shape
        and X.dtype.type in dtypes
        and X.dtype.kind == "f"
        and y.dtype.kind in "biuf"
        and all_finite(X)
        and (y.dtype.kind != "f" or all_finite(y))
    )


def check_X_y(  # noqa: N802
    estimator: BaseEstimator, X: Any, y: Any, dtypes: list[type], *, reset: bool, numeric: bool
) -> tuple[Any, Any]:
    """Return X as `check_X` does, and y as a host array with one or two axes, checked."""
    if reset:
        note_namespace(estimator, X)
    is_reconstructed = y is X
    if _are_plain(X, y, dtypes) and (reset or _has_known_features(estimator, X)):
        if reset:
            estimator.n_features_in_ = X.shape[1]
            estimator.__dict__.pop("feature_names_in_", None)
        return X, y
    X, y = _with_dtype(as_host(X)), as_host(y)
    if is_on_device(X):
        X = _check_device_array(estimator, X, dtypes, reset)
        return _rows(X), check_y(estimator, y, X.shape[0], numeric=numeric)
    if y is not None and not isinstance(y, np.ndarray) and is_array(y) and not ops.is_sparse(y):
        y = to_host(y)
    with naming_columns(estimator, X):
        X, y = validate_data(
            estimator,
            X,
            y,
            accept_sparse=["csr", "csc"],
            multi_output=True,
            y_numeric=numeric,
            dtype=dtypes,
            reset=reset,
        )
    return _rows(X), _columns(y, warns=not is_reconstructed)


def check_y(
    estimator: BaseEstimator, y: Any, n_samples: int, *, numeric: bool, any_rank: bool = False
) -> Any:
    """Return targets as ``check_X_y`` does, for inputs that were checked elsewhere."""
    y = as_host(y)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    if not isinstance(y, np.ndarray) and is_array(y) and not ops.is_sparse(y):
        y = to_host(y)
    if any_rank and np.ndim(y) > 2:
        y = check_array(y, dtype="numeric", allow_nd=True, input_name="y")
        check_consistent_length(y, range(n_samples))
        return y
    stand_in = np.zeros((n_samples, 1))  # scikit-learn checks y against a number of rows
    _, y = validate_data(_Anonymous(), stand_in, y, multi_output=True, y_numeric=numeric)
    return _columns(y)


def _columns(y: Any, warns: bool = True) -> Any:
    """Return targets that may be sparse, or have a single column, as an array with one or two axes."""
    if hasattr(y, "toarray"):
        y = y.toarray()
    return column_or_1d(y, warn=warns) if y.ndim == 2 and y.shape[1] == 1 else y


def check_weights(sample_weight: Any, X: Any, dtype: DTypeLike, *, may_be_zeros: bool = False) -> Any:
    """Return sample weights as a host array, or None."""
    if sample_weight is None:
        return None
    sample_weight = as_host(sample_weight)
    if not isinstance(sample_weight, np.ndarray) and is_array(sample_weight):
        sample_weight = to_host(sample_weight)
    rows = np.empty((X.shape[0], 0))
    if may_be_zeros and not np.any(sample_weight):  # scikit-learn's check refuses them
        return check_weights(np.asarray(sample_weight) + 1.0, X, dtype) - 1
    weight = _check_sample_weight(sample_weight, rows, dtype=np.dtype(dtype), ensure_non_negative=True)
    if not (may_be_zeros or weight.any()):
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")
    return weight


def drawn_weights(counts: Any, sample_weight: Any) -> Any:
    """Return sample weights multiplied by how often rows are drawn."""
    if counts is None:
        return sample_weight
    return counts if sample_weight is None else counts * np.asarray(as_host(sample_weight))


class _Anonymous(BaseEstimator):
    """An estimator for validating a placeholder for X."""


def _rows(X: Any) -> Any:
    """Return a sparse matrix in CSR format, from which rows can be taken."""
    return X.tocsr() if hasattr(X, "tocsr") else X


def _check_device_array(estimator: BaseEstimator, X: Any, dtypes: list[type], reset: bool) -> Any:
    """Validate an array on a device as `validate_data` does on the host."""
    name = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array of shape {tuple(X.shape)} instead: reshape your data."
        )
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} needs real numbers, got X of dtype {X.dtype}.")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while a minimum of 1 is "
            f"required by {name}."
        )
    with backend_of(X).activate(device_of(X)):
        if X.dtype not in dtypes:
            X = X.astype(dtypes[0])
        values = X.data if backend_of(X).is_sparse(X) else X
        xp = namespace(values)
        is_finite = xp.all(xp.isfinite(values)).item()
    if not is_finite:
        raise ValueError(
            f"Input X contains NaN or infinity; {name} does not accept missing values: impute or drop them "
            "first."
        )
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
        estimator.__dict__.pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {estimator.n_features_in_} features as "
            "input."
        )
    return X
