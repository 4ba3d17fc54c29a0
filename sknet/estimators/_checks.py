"""Checks of X, y and sample weights."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from sknet import ops
from sknet._constraints import shown
from sknet._frames import (
    Frame,
    all_finite,
    as_array,
    gaps_in,
    is_frame,
    length_of,
    names_of,
    refuse_unreadable,
    sequences_in,
    without_dictionaries,
)
from sknet.device import backend_of, device_of, is_array, namespace, to_host
from sknet.engine import RSquared
from sknet.engine._checks import check_range, check_signs, check_total
from sknet.engine._inputs import first_input, row_weights
from sknet.estimators._fit import FitArguments
from sknet.estimators._inputs import (
    RAGGED,
    RowsWithOffset,
    Sequences,
    as_host,
    dense_targets,
    is_on_device,
    may_be_missing,
    note_namespace,
    on_host,
)
from sknet.estimators._targets import counted_labels
from sknet.losses import SquaredError

INTEGERS = [np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_]


def check_X(estimator: BaseEstimator, X: Any, dtypes: list[type], *, reset: bool = False) -> Any:  # noqa: N802  X, as in scikit-learn
    """Return X as a 2-D float array or CSR matrix on its own device, checked."""
    if not reset and _needs_no_conversion(estimator, X, dtypes):
        return X
    X = _with_dtype(X)
    if is_on_device(X):
        return _check_device_array(estimator, X, dtypes, reset)
    finite = kind_of_finite(estimator, reset)
    with naming_columns(estimator, X):
        X = validate_data(
            estimator, X, accept_sparse=["csr", "csc"], dtype=dtypes, reset=reset, ensure_all_finite=finite
        )
    return _rows(X)


def kind_of_finite(estimator: Any, reset: bool) -> "bool | str":
    """Return which numbers inputs may hold, as scikit-learn says it: finite ones, or also NaN."""
    return "allow-nan" if may_be_missing(estimator, reset) else True


def _with_dtype(X: Any) -> Any:
    """Return what can be read as an array as one, which says in which precision it is."""
    if isinstance(X, dict) and not hasattr(X, "tocsr"):
        raise TypeError(
            f"a table was expected, an array or a data frame, got a dict of {list(X)}: join its arrays as "
            "columns, or learn from several inputs by a network of your own, NetClassifier(MyNet) or "
            "NetRegressor(MyNet)"
        )
    _check_kind(X, "X", "a table: an array of shape (n_samples, n_features), a data frame or a list of rows")
    says = hasattr(X, "dtype") or hasattr(X, "dtypes") or hasattr(X, "columns")
    return np.asarray(X) if hasattr(X, "__array__") and not says else X


TARGETS = "one target for each row: an array, a series or a list"
READ_BY = ("shape", "__len__", "__array__", "__dataframe__", "__arrow_c_stream__", "__dlpack__")


def _check_kind(x: Any, name: str, expected: str) -> None:
    """Raise an error for an object that is no collection, number or text, and for masked values."""
    if x is None and name == "X":
        raise TypeError(f"X must be {expected}; got None")
    if isinstance(x, dict) and not hasattr(x, "tocsr"):
        raise TypeError(
            f"{name} must be {expected}; got a dict of {list(x)}: MultiHeadNet learns several targets, by a "
            "head and a loss for each"
        )
    if not (x is None or isinstance(x, (Number, str)) or any(hasattr(x, each) for each in READ_BY)):
        raise TypeError(f"{name} must be {expected}; got {shown(x)}")
    if getattr(getattr(x, "dtype", None), "names", None):
        raise TypeError(f"{name} must be {expected}; got a structured array: make a data frame of it")
    refuse_unreadable(x)
    if name == "y" and (rows := sequences_in(x)) is not None:
        _check_widths(rows)


def _check_widths(rows: Any) -> None:
    """Raise a ValueError for rows of targets of different lengths."""
    widths = sorted({n for row in rows if (n := length_of(row)) is not None})
    if len(widths) > 1:
        raise ValueError(
            f"y has rows of {widths[0]} and of {widths[-1]} values. Targets of the steps of sequences are "
            "padded, y, _ = pad_sequences(y, value=-1) of sknet.nn, and left out, "
            "loss=LogLoss(ignore_index=-1); of labels, of which a row may have several, "
            "MultiLabelBinarizer().fit_transform(y) of scikit-learn makes columns"
        )


def targets_to_score(y: Any) -> Any:
    """Return targets on the host that predictions are compared with; raise a TypeError for what are none."""
    _check_kind(y, "y", TARGETS)
    return dense_targets(on_host(y))


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
    if type(y) is not np.ndarray:
        y = without_dictionaries(y)
    _check_kind(y, "y", TARGETS)
    y, missing = (y, None) if is_reconstructed else split_missing(estimator, y)
    if is_on_device(X):
        X = _check_device_array(estimator, X, dtypes, reset)
        return _rows(X), with_missing(check_y(estimator, y, X.shape[0], numeric=numeric), missing)
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
            ensure_all_finite=kind_of_finite(estimator, reset),
        )
    return _rows(X), with_missing(_columns(y, warns=not is_reconstructed), missing)


def check_y(
    estimator: BaseEstimator, y: Any, n_samples: int, *, numeric: bool, any_rank: bool = False
) -> Any:
    """Return targets as ``check_X_y`` does, for inputs that were checked elsewhere."""
    _check_kind(y := without_dictionaries(as_host(y)), "y", TARGETS)
    y, missing = split_missing(estimator, y)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    if not isinstance(y, np.ndarray) and is_array(y) and not ops.is_sparse(y):
        y = to_host(y)
    if any_rank and rank_of(y) > 2:
        y = check_array(y, dtype="numeric" if numeric else None, allow_nd=True, input_name="y")
        check_consistent_length(y, range(n_samples))
        return with_missing(y, missing)
    stand_in = np.zeros((n_samples, 1))  # scikit-learn checks y against a number of rows
    with naming_columns(estimator, None):
        _, y = validate_data(_Anonymous(), stand_in, y, multi_output=True, y_numeric=numeric)
    return with_missing(_columns(y), missing)


def rank_of(y: Any) -> int:
    """Return the number of axes of targets, also of those that have no functions of NumPy."""
    return int(y.ndim if hasattr(y, "ndim") else np.asarray(y).ndim)


def split_missing(estimator: Any, y: Any) -> tuple[Any, Any]:
    """Return targets with others for missing ones, and a mask of these: None if there are none of several."""
    found = read_missing(y) if estimator._targets_may_be_missing else None
    return (y, None) if found is None else (filled(found), is_missing(found))


def read_missing(y: Any) -> Any:
    """Return targets of which some of several are missing, as an array; None for all others."""
    if y is None or isinstance(y, Mapping) or hasattr(y, "tocsr"):
        return None
    if is_array(y) and not isinstance(y, np.ndarray):
        return None
    try:
        found = with_gaps(y) if rank_of(y) > 1 else None
    except (TypeError, ValueError):  # what cannot be read
        return None
    missing = is_missing(found)
    if missing is None:
        return None
    if missing.all():
        raise ValueError(f"every target of y is missing, {missing.shape} of NaN: there is nothing to learn")
    return found


def with_gaps(y: Any) -> Any:
    """Return targets as an array: objects of which some are missing as numbers with NaN, labels with None."""
    found = as_array(y)
    if found.dtype.kind != "O":
        return found
    try:
        numbers = found.astype(np.float64)
    except (TypeError, ValueError):  # labels that are no numbers
        missing = gaps_in(found)
        return with_missing(found, missing if missing.any() else None)
    return numbers if np.isnan(numbers).any() else found


def with_missing(y: Any, missing: Any) -> Any:
    """Return checked targets with NaN where they are missing, None among labels that are no numbers."""
    return y if missing is None else np.where(missing, np.nan if y.dtype.kind in "biuf" else None, y)


def is_missing(y: Any) -> Any:
    """Return a mask of missing targets, of several a row; None if there are none."""
    if not isinstance(y, np.ndarray) or y.dtype.kind not in "fO" or y.ndim < 2 or y[:1].size == 1:
        return None
    missing = gaps_in(y)
    return missing if missing.any() else None


def filled(y: Any) -> Any:
    """Return targets with a middle value of their column instead of NaN or None, which no loss can read."""
    # Columns are the last axis of a table; an array of more axes is one.
    missing = is_missing(y)
    if missing is None:
        return y
    y = y.copy()
    columns = (y.T, missing.T) if y.ndim == 2 else (y[np.newaxis], missing[np.newaxis])
    for k, (column, gone) in enumerate(zip(*columns, strict=True)):
        known = np.sort(column[~gone])
        if not len(known) and y.dtype.kind == "O":
            raise ValueError(f"column {k} of y has no label at all: leave it out")
        column[gone] = known[len(known) // 2] if len(known) else 1.0
    return y


def weights_of_known(y: Any, weight: Any, dtype: Any) -> Any:
    """Return weights that are 0 for missing targets, one for each target if some are missing."""
    missing = is_missing(y)
    if missing is None:
        return weight
    seen = (~missing).astype(dtype)
    return seen if weight is None else (seen.T * weight.T).T


def _columns(y: Any, warns: bool = True) -> Any:
    """Return targets that may be sparse, or have a single column, as an array with one or two axes."""
    y = dense_targets(y)
    return column_or_1d(y, warn=warns) if y.ndim == 2 and y.shape[1] == 1 else y


def score_weights(y: Any, weight: Any) -> Any:
    """Return a weight for each target to score; None if none is missing, and weights are of rows."""
    if hasattr(y, "tocsr") or rank_of(y) != 2:
        return None
    y = with_gaps(y)
    weight = None if weight is None else check_weights(weight, y, np.float64, y=y)
    found = weights_of_known(y, weight, np.float64)
    return found if np.ndim(found) == 2 else None


def r2_of_seen(y: Any, predicted: Any, weight: Any) -> float:
    """Return the mean over targets of R2, by weights of each target."""
    y = filled(with_gaps(y)).astype(np.float64)
    score = RSquared(y, weight, SquaredError())
    score.add(predicted, y, weight)
    return score.result()


def accuracy_of_seen(y: Any, predicted: Any, weight: Any) -> float:
    """Return the share of rows with all labels right that count, by weights of each label."""
    right = ((with_gaps(y) == predicted) | (weight == 0)).all(axis=1)
    return float(np.average(right, weights=row_weights(weight)))


def check_weights(
    sample_weight: Any, X: Any, dtype: DTypeLike, *, y: Any = None, may_be_zeros: bool = False
) -> Any:
    """Return sample weights as a host array, or None: one for each row, or each of several targets."""
    if sample_weight is None:
        return None
    sample_weight = as_host(sample_weight)
    if isinstance(sample_weight, Mapping):
        raise TypeError(
            f"sample_weight must have a number for each row, or one for each column of y side by side, got a "
            f"dict of {list(sample_weight)}"
        )
    if not isinstance(sample_weight, np.ndarray) and is_array(sample_weight):
        sample_weight = to_host(sample_weight)
    rows = np.empty((X.shape[0], 0))
    if may_be_zeros and not np.any(sample_weight):  # scikit-learn's check refuses them
        return check_weights(np.asarray(sample_weight) + 1.0, X, dtype, y=y) - 1
    check_range(sample_weight, dtype, "sample_weight")
    check_total(np.asarray(sample_weight), dtype)
    shape = np.asarray(sample_weight).shape
    if len(shape) > 1 and shape == np.shape(y):
        rows, sample_weight = np.empty((math.prod(shape), 0)), np.ravel(sample_weight)
    else:
        shape = (-1,)
    weight = _check_sample_weight(sample_weight, rows, dtype=np.dtype(dtype)).reshape(shape)
    if not (may_be_zeros or weight.any()):
        raise ValueError("sample_weight: at least one weight must be positive, got zeros only")
    check_signs(weight, "sample_weight")
    return weight


def weighted_targets(estimator: Any, y: Any) -> Any:
    return y if estimator._targets_may_be_missing else None


def drawn_weights(counts: Any, sample_weight: Any) -> Any:
    """Return sample weights multiplied by how often rows are drawn."""
    if counts is None:
        return sample_weight
    if sample_weight is None:
        return counts
    weight = np.asarray(as_host(sample_weight))
    return (counts if weight.ndim < 2 else counts[:, np.newaxis]) * weight


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
        allowed = may_be_missing(estimator, reset)
        is_finite = xp.all(xp.isfinite(values) | xp.isnan(values) if allowed else xp.isfinite(values)).item()
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


MOST = 5  # columns that are named


@contextmanager
def naming_columns(estimator: Any, X: Any) -> Iterator[None]:
    """Raise errors of a check of X with the columns that are not numbers, and what takes them."""
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn looks for NaN in a sum, which may overflow
            yield
    except (ValueError, TypeError) as error:
        # The last is pandas' NA among labels.
        if str(error).startswith(("Input contains NaN", "Input y contains NaN", "boolean value of NA")):
            raise ValueError(f"y has missing values: leave these rows out. {error}") from error
        advice = _advice(estimator, X, str(error))
        if advice is None:
            raise
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{error}\n{advice}") from error


def _advice(estimator: Any, X: Any, said: str) -> str | None:
    if "inhomogeneous" in said or "setting an array element with a sequence" in said:
        return RAGGED
    if "Found array with dim" in said:
        return (
            "X.reshape(len(X), -1) makes one row of features of each image or sequence; a network of your "
            "own, NetClassifier(MyNet) or NetRegressor(MyNet), takes them as they are."
        )
    if getattr(estimator, "encoder", "") is not None:  # it takes none, or it has one
        return None
    takes = f'{type(estimator).__name__}(encoder="table") reads'
    if found := _not_numbers(X):
        more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
        return (
            f"X has columns that are not numbers: {', '.join(found[:MOST])}{more}. {takes} categories, dates "
            "and missing values as they are; or encode them first, as by a ColumnTransformer."
        )
    if "Input X contains NaN" in said:
        return f"{takes} missing values as they are; or fill them first, as by a SimpleImputer."
    return None


def _not_numbers(X: Any) -> list[str]:
    """Return the columns that cannot be read as numbers."""
    if is_frame(X):
        names, columns = map(repr, names_of(X)), Frame(X).columns()
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
        if array.ndim != 2 or array.dtype.kind in "biufc":
            return []
        names, columns = map(str, range(array.shape[1])), iter(array.T)
    return [name for name, column in zip(names, columns, strict=True) if not _is_number(column)]


def _is_number(values: np.ndarray) -> bool:
    if values.dtype.kind in "mM":
        return False
    try:
        values.astype(np.float64)
    except (ValueError, TypeError):
        return False
    return True


def ignored_label(estimator: Any) -> int | None:
    """Return the label that the loss of a classifier ignores, or None."""
    return getattr(estimator.loss, "ignore_index", None)


def without_ignored(estimator: Any, given: FitArguments) -> FitArguments:
    """Return the arguments of a fit without rows whose only label is ignored."""
    ignored = ignored_label(estimator)
    if ignored is None:
        return given
    changed: dict[str, Any] = {}
    of_validation = "y_val", "X_val", "sample_weight_val", "offset_val"
    for names in (("y", "X", "sample_weight", "groups", "offset"), of_validation):
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
    """Return some rows of an argument of `fit`; None stays None."""
    if isinstance(array, Sequences):
        return Sequences(taken_rows(array.X, rows), taken_rows(array.lengths, rows))
    if isinstance(array, RowsWithOffset):
        return RowsWithOffset(taken_rows(array.X, rows), taken_rows(array.offset, rows))
    if hasattr(array, "tocsr"):
        return array.tocsr()[rows]
    if isinstance(array, dict):
        return {name: taken_rows(x, rows) for name, x in array.items()}
    if hasattr(array, "__array__") and not hasattr(array, "__getitem__"):
        array = np.asarray(array)
    return None if array is None else _safe_indexing(array, rows)


def lengths_of(X: Any) -> Any:
    """Return the lengths of sequences that are given with X, or None."""
    X = X.X if isinstance(X, RowsWithOffset) else X
    if isinstance(X, Sequences):
        return np.asarray(on_host(X.lengths))
    return np.asarray(on_host(X["lengths"])) if isinstance(X, dict) and "lengths" in X else None


def step_weights(lengths: Any, n_steps: int, weight: Any, dtype: Any) -> Any:
    """Return a weight for each step: that of its row, or 0 where it is padding."""
    counts = (np.arange(n_steps) < np.asarray(lengths)[:, None]).astype(dtype)
    return counts if weight is None else counts * np.asarray(weight, dtype).reshape(len(counts), -1)


def without_padding(targets: Any, X: Any, y: Any, weight: Any, dtype: Any) -> Any:
    """Return weights with which the padding of sequences counts nothing, where outputs are by step."""
    lengths = lengths_of(X)
    if lengths is None or y.ndim < 2 or not getattr(targets, "have_positions", False):
        return weight
    return step_weights(lengths, y.shape[1], weight, dtype)
