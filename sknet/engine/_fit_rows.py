"""The implementation of `Model.fit`: the estimators' training loop, over rows as given."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sknet import ops
from sknet._constraints import is_whole, shown
from sknet._frames import as_array
from sknet.callbacks import Callback, PrintLog, ProgressBar
from sknet.callbacks._callback import Rows, check_callbacks, fresh_callbacks
from sknet.callbacks._checkpoint import SavedFit
from sknet.core import Tensor
from sknet.device import is_array, to_host
from sknet.engine._batches import Batches, take_rows
from sknet.engine._checks import check_given, check_signs
from sknet.engine._fit import History, Source, saved_fit
from sknet.engine._inputs import each_input, n_rows
from sknet.engine._lbfgs import minimize
from sknet.engine._loop import Settings, Validation, train
from sknet.engine._model_like import ModelLike
from sknet.engine._network import chunk_rows_of
from sknet.engine._programs import check_classes_of
from sknet.engine._scores import NamedScores, check_scores
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import Loss

DEFAULT_BATCH = 200  # rows, as in the estimators
TOLERANCE = 1e-4  # L-BFGS has converged when no component of the gradient is larger


class RowSubset(NamedTuple):
    """Rows in the place of X, for a fit that takes them batch by batch, beside all targets and weights."""

    X: Any
    rows: np.ndarray

    def taken(self, of: Rows) -> Rows:
        """Return these rows of X, targets and weights."""
        X = each_input(lambda x: take_rows(x, self.rows), self.X)
        weight = None if of.sample_weight is None else take_rows(of.sample_weight, self.rows)
        return Rows(X, take_rows(of.y, self.rows), weight)


class Options(NamedTuple):
    """The options of a fit of a model, besides its rows."""

    caller: str
    held_out: Rows
    scores: Any = None
    callbacks: Any = None
    verbose: bool | str = False
    check_finite: bool = True

    @property
    def validation(self) -> Rows | None:
        X, y, weight = self.held_out
        if X is None and (y is not None or weight is not None):
            raise TypeError("X_val is missing: pass the inputs that y_val and sample_weight_val belong to")
        return None if X is None else self.held_out


class GivenSource(Source):
    """Rows of a fit without an estimator, as given, for callbacks."""

    def __init__(
        self, training: Rows | None, validation: Rows | None, directions: Mapping[str, bool | None]
    ) -> None:
        self._training, self._validation = training, validation
        self.monitor = "loss" if validation is None else "validation_loss"
        self.measured = {"loss": False, **directions}

    def training(self) -> Rows | None:
        rows = self._training
        return rows.X.taken(rows) if rows is not None and isinstance(rows.X, RowSubset) else rows

    def validation(self) -> Rows | None:
        return self._validation


class Prepared:
    """The preparations of a fit, besides the rows or batches that it trains on."""

    def __init__(
        self, model: ModelLike, options: Options, training: Rows | None = None, resume_from: Any = None
    ) -> None:
        self._model, self._options = model, options._replace(check_finite=bool(options.check_finite))
        self._given = check_callbacks(options.callbacks, options.caller)
        self.callbacks = fresh_callbacks(self._given)
        self.all_callbacks = [*self.callbacks, *_shown(options.verbose, options.caller)]
        self._new_scores, directions = check_scores(options.scores, options.caller)
        self.saved: SavedFit | None = saved_fit(self.callbacks, resume_from)
        self.source = GivenSource(training, options.validation, directions)
        self.history = History()

    def new_score(self) -> NamedScores:
        return self._new_scores(self._model.loss_function)

    def validation(self, trained_on: Any) -> Validation | None:
        """Return the held-out rows and how to score them; the module must not be lazy any more."""
        if self._options.validation is None:
            return None
        model = self._model
        X, y, weight = checked_rows(model.loss_function, *self._options.validation, "_val")
        check_given(list(trained_on) if isinstance(trained_on, dict) else None, X, "X_val")
        check_classes_of(model, X, y, "y_val")
        _check_counts(weight, "_val")
        rows = chunk_rows_of(model, X)
        return Validation(Batches(X, y, weight, rows, model.dtype, model.device), self.new_score)

    def hand_back(self) -> None:
        """Copy the results of the clones that served this fit to the user's callbacks."""
        for mine, used in zip(self._given, self.callbacks, strict=True):
            mine.__dict__.update(used.__dict__)


def _shown(verbose: Any, caller: str) -> list[Callback]:
    if isinstance(verbose, str):
        if verbose != "bar":
            raise ValueError(
                f"The 'verbose' parameter of {caller} must be True, False or 'bar'. "
                f"Got {shown(verbose)} instead."
            )
        return [ProgressBar()]
    return [PrintLog()] if verbose else []


def fit_rows(
    model: ModelLike,
    rows: Rows,
    epochs: int,
    batch_size: int | str,
    shuffle: bool,
    options: Options,
    resume_from: Any = None,
) -> History:
    check_count(epochs, "epochs", options.caller)
    shuffle = bool(shuffle)
    prepared = Prepared(model, options, rows, resume_from)
    chosen = rows.X.rows if isinstance(rows.X, RowSubset) else None
    rows = rows if chosen is None else rows._replace(X=rows.X.X)
    X, y, weight = checked_rows(model.loss_function, *rows, chosen=chosen)
    _check_counts(_among(weight, chosen))
    model.materialize(X)
    check_classes_of(model, X, _among(y, chosen))
    validation = prepared.validation(X)
    count = n_rows(X) if chosen is None else len(chosen)
    size = min(_batch_size(batch_size, options.caller), count)
    if not model.optimizer.goes_in_steps:
        return _minimized(model, (X, y, weight), epochs, options, prepared)
    batches = Batches(X, y, weight, size, model.dtype, model.device, chosen)
    settings = Settings(max_iter=epochs, shuffle=shuffle, check_finite=bool(options.check_finite))
    try:
        train(
            model,
            batches,
            prepared.history,
            settings,
            prepared.new_score,
            validation,
            prepared.all_callbacks,
            prepared.source,
            prepared.saved,
        )
    finally:
        prepared.hand_back()
    return prepared.history


def _minimized(
    model: ModelLike, arrays: tuple[Any, Any, Any], epochs: int, options: Options, prepared: Prepared
) -> History:
    """Train by L-BFGS, on all rows at once."""
    only_in_steps = {
        "validation data": options.validation,
        "scores": options.scores,
        "a checkpoint to resume from": prepared.saved,
    }
    for what, value in only_in_steps.items():
        if value is not None:
            raise ValueError(
                f"{options.caller} got {what}, which needs a stochastic optimizer, but this "
                "model has LBFGS: use Adam()"
            )
    X, y, weight = arrays
    batches = Batches(X, y, weight, n_rows(X), model.dtype, model.device)
    history, callbacks, source = prepared.history, prepared.all_callbacks, prepared.source
    try:
        minimize(model, batches, epochs, TOLERANCE, False, history, callbacks, source)
    finally:
        prepared.hand_back()
    return history


def checked_rows(
    loss: Loss, X: Any, y: Any, weight: Any = None, of: str = "", chosen: Any = None
) -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights (or None) as arrays, after checking that they fit together."""
    if y is None:
        raise TypeError(f"y{of} is missing: pass the targets of X{of}")
    given = X if isinstance(X, dict) else {None: X}
    inputs = {name: _as_inputs(x, _called(of, name)) for name, x in given.items()}
    y = _as_array(y, f"y{of}")
    weight = None if weight is None else _as_array(weight, f"sample_weight{of}")
    first = next(iter(inputs), None)
    rows = inputs[first].shape[0] if inputs and inputs[first].ndim else 0
    if not rows:
        shape = f"shape {tuple(inputs[first].shape)}" if inputs else "no inputs"
        raise ShapeError(f"{_called(of, first)} must have at least one row, got {shape}")
    others = {
        **{_called(of, name): x for name, x in inputs.items()},
        f"y{of}": y,
        f"sample_weight{of}": weight,
    }
    for name, array in others.items():
        if array is not None and (not array.ndim or array.shape[0] != rows):
            raise ShapeError(
                f"{_called(of, first)} has {rows} rows, but {name} has shape {tuple(array.shape)}"
            )
    loss.check_target(to_host(_among(y, chosen)), name=f"y{of}")
    if weight is not None:
        check_signs(to_host(_among(weight, chosen)), f"sample_weight{of}")
    return (inputs if isinstance(X, dict) else inputs[None]), y, weight


def _among(array: Any, chosen: Any) -> Any:
    return array if array is None or chosen is None else take_rows(array, chosen)


def _called(of: str, name: Any) -> str:
    """Return the name of an input for messages."""
    return f"X{of}" if name is None else f"X{of}[{name!r}]"


def _check_counts(weight: Any, of: str = "") -> None:
    """Raise a ValueError if all weights are zero."""
    if weight is not None and not to_host(weight).any():
        raise ValueError(f"sample_weight{of}: at least one weight must be positive, got zeros only")


def _as_inputs(X: Any, name: str) -> Any:
    if isinstance(X, Tensor):
        return X.data
    if ops.is_sparse(X):
        return X if getattr(X, "format", "csr") == "csr" else X.tocsr()
    return _as_array(X, name)


def _as_array(values: Any, name: str) -> Any:
    values = values.data if isinstance(values, Tensor) else values
    if ops.is_sparse(values):
        raise DtypeError(f"{name} must be an array, got a sparse matrix of {values.shape}: use .toarray()")
    try:
        array = values if is_array(values) and type(values) is not np.ndarray else as_array(values)
    except ValueError as error:
        raise ShapeError(f"{name} must be rectangular: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DtypeError(
            f"{name} must be numeric, got dtype {array.dtype}: encode classes as integers from 0, or use "
            "an estimator that does so, such as NetClassifier"
        )
    return array


def _batch_size(size: Any, caller: str) -> int:
    return (
        DEFAULT_BATCH if isinstance(size, str) and size == "auto" else check_count(size, "batch_size", caller)
    )


def check_count(value: Any, name: str, caller: str) -> int:
    if not is_whole(value):
        more = " or 'auto'" if name == "batch_size" else ""
        raise ValueError(
            f"The {name!r} parameter of {caller} must be a positive int{more}. Got {shown(value)} instead."
        )
    return int(value)
