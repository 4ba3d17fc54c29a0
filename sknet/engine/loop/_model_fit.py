"""What `Model.fit` does: the loop of the estimators, over rows as they are given."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.callbacks import Callback, PrintLog, ProgressBar
from sknet.callbacks.extend import Rows, SavedFit, check_callbacks, fresh_callbacks, saved_fit
from sknet.core import Tensor
from sknet.device import is_array, to_host
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._fit import Source
from sknet.engine.loop._full_batch import minimize
from sknet.engine.loop._history import History
from sknet.engine.loop._named_scores import NamedScores, check_scores
from sknet.engine.loop._train import Settings, train
from sknet.engine.loop._validation import Validation
from sknet.engine.predict import chunk_rows_of
from sknet.engine.state import n_rows
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import Loss

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Options", "Prepared", "check_count", "checked_rows", "fit_rows"]

DEFAULT_BATCH = 200  # rows, as the estimators'
TOLERANCE = 1e-4  # of L-BFGS: where no component of the gradient is larger, it has converged


@dataclass(frozen=True)
class Options:
    """What a user decides about a fit of a model, besides its rows.

    Attributes
    ----------
    caller : str
        What the user called, for messages.
    held_out : Rows
        X, y and weights of held-out rows, as given; all None for none.
    scores : None, str, callable, list or dict
        As for `check_scores`.
    callbacks : sequence of Callback or None
        For this fit.
    verbose : bool or "bar"
        Print a line for every epoch, or show a progress bar.
    check_finite : bool
        Raise for a loss or gradient that is not finite.
    seeded : bool
        The model was given a seed: the same bits every time.
    """

    caller: str
    held_out: Rows
    scores: Any = None
    callbacks: Any = None
    verbose: bool | str = False
    check_finite: bool = True
    seeded: bool = False

    @property
    def validation(self) -> Rows | None:
        """The held-out rows, if there are any."""
        X, y, weight = self.held_out
        if X is None and (y is not None or weight is not None):
            raise TypeError("X_val is missing: pass the inputs that y_val and sample_weight_val belong to")
        return None if X is None else self.held_out


class GivenSource(Source):
    """What callbacks see of a fit without an estimator: its rows, as they were given."""

    def __init__(
        self, training: Rows | None, validation: Rows | None, directions: Mapping[str, bool | None]
    ) -> None:
        self._training, self._validation = training, validation
        self.monitor = "loss" if validation is None else "validation_loss"
        self.measured = {"loss": False, **directions}

    def training(self) -> Rows | None:
        return self._training

    def validation(self) -> Rows | None:
        return self._validation


class Prepared:
    """What a fit needs besides the rows or batches that it trains on.

    Parameters
    ----------
    model : Model
        Trained.
    options : Options
        The user's.
    training : Rows or None
        As given; None for a stream of batches.
    resume_from : str, PathLike or None
        A checkpoint to go on from.

    Attributes
    ----------
    callbacks : list of Callback
        For this fit only.
    saved : SavedFit or None
        What to go on from.
    source : Source
        What callbacks see beyond the model.
    history : History
        Empty.
    """

    def __init__(
        self, model: "Model", options: Options, training: Rows | None = None, resume_from: Any = None
    ) -> None:
        self._model, self._options = model, options
        self._given = check_callbacks(options.callbacks, options.caller)
        self.callbacks = fresh_callbacks(self._given)
        self.all_callbacks = [*self.callbacks, *_shown(options.verbose, options.caller)]
        self._new_scores, directions = check_scores(options.scores, options.caller)
        self.saved: SavedFit | None = saved_fit(self.callbacks, resume_from)
        self.source = GivenSource(training, options.validation, directions)
        self.history = History()

    def new_score(self) -> NamedScores:
        """Return empty scores."""
        return self._new_scores(self._model.loss_function)

    def validation(self) -> Validation | None:
        """Return the held-out rows and how to score them; the module must have its shapes."""
        if self._options.validation is None:
            return None
        model = self._model
        X, y, weight = checked_rows(model.loss_function, *self._options.validation, "_val")
        _check_counts(weight, "_val")
        rows = chunk_rows_of(model, X)
        return Validation(Batches(X, y, weight, rows, model.dtype, model.device), self.new_score)

    def hand_back(self) -> None:
        """Let the user's callbacks have what the clones have learned that served this fit."""
        for mine, used in zip(self._given, self.callbacks, strict=True):
            mine.__dict__.update(used.__dict__)


def _shown(verbose: Any, caller: str) -> list[Callback]:
    """Return what `verbose` asks for."""
    if isinstance(verbose, str):
        if verbose != "bar":
            raise ValueError(
                f"The 'verbose' parameter of {caller} must be True, False or 'bar'. Got {verbose!r} instead."
            )
        return [ProgressBar()]
    return [PrintLog()] if verbose else []


def fit_rows(
    model: "Model",
    rows: Rows,
    epochs: int,
    batch_size: int | str,
    shuffle: bool,
    options: Options,
    resume_from: Any = None,
) -> History:
    """Train a model on rows, in place.

    Parameters
    ----------
    model : Model
        Trained.
    rows : Rows
        X, y and weights, as given.
    epochs : int
        How often to go through the rows; of L-BFGS, iterations at most.
    batch_size : int or "auto"
        Rows in a batch.
    shuffle : bool
        Whether to draw the order of the rows anew in each epoch.
    options : Options
        Everything else.
    resume_from : str, PathLike or None
        A checkpoint to go on from.

    Returns
    -------
    History
        Of this fit.
    """
    check_count(epochs, "epochs", options.caller)
    prepared = Prepared(model, options, rows, resume_from)
    X, y, weight = checked_rows(model.loss_function, *rows)
    _check_counts(weight)
    model.materialize(X)
    validation = prepared.validation()
    size = min(_batch_size(batch_size, options.caller), n_rows(X))
    if not model.optimizer.goes_in_steps:
        return _minimized(model, (X, y, weight), epochs, options, prepared)
    batches = Batches(X, y, weight, size, model.dtype, model.device)
    settings = Settings(
        max_iter=epochs, shuffle=shuffle, check_finite=options.check_finite, seeded=options.seeded
    )
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
    model: "Model", arrays: tuple[Any, Any, Any], epochs: int, options: Options, prepared: Prepared
) -> History:
    """Train by L-BFGS, over all rows at once."""
    only_in_steps = {
        "validation data": options.validation,
        "scores": options.scores,
        "a checkpoint to go on from": prepared.saved,
    }
    for what, value in only_in_steps.items():
        if value is not None:
            raise ValueError(
                f"{options.caller} got {what}, which needs an optimizer that goes step by step, and this "
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


def checked_rows(loss: Loss, X: Any, y: Any, weight: Any = None, of: str = "") -> tuple[Any, Any, Any]:
    """Return inputs, targets and weights (or None) as arrays, once they are known to belong together.

    Parameters
    ----------
    loss : Loss
        Says which targets it is defined for.
    X, y, weight : array-like, array-like, array-like or None
        As a user gave them.
    of : str, default=""
        What their names end with, in messages.

    Returns
    -------
    tuple
        X may be a CSR matrix, or a dict of inputs.

    Raises
    ------
    ShapeError
        If they do not have the same number of rows, or there are none.
    DtypeError, ValueError
        For what is no number, targets outside of the loss's domain, and negative weights.
    """
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
                f"{_called(of, first)} has {rows} rows, and {name} has shape {tuple(array.shape)}"
            )
    loss.check_target(to_host(y), name=f"y{of}")
    if weight is not None and to_host(weight).min() < 0:
        raise ValueError(f"sample_weight{of} must not be negative, got {to_host(weight).min():g}")
    return (inputs if isinstance(X, dict) else inputs[None]), y, weight


def _called(of: str, name: Any) -> str:
    """Return what an input is called in messages."""
    return f"X{of}" if name is None else f"X{of}[{name!r}]"


def _check_counts(weight: Any, of: str = "") -> None:
    """Raise a ValueError if no row counts."""
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
    try:
        array = values if is_array(values) else np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{name} must be rectangular: {error}") from error
    if array.dtype.kind not in "biuf":
        raise DtypeError(
            f"{name} must hold numbers, got dtype {array.dtype}: encode classes as integers from 0, or use "
            "an estimator, such as NetClassifier, which does"
        )
    return array


def _batch_size(size: Any, caller: str) -> int:
    return (
        DEFAULT_BATCH if isinstance(size, str) and size == "auto" else check_count(size, "batch_size", caller)
    )


def check_count(value: Any, name: str, caller: str) -> int:
    """Return a positive number of something."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        more = " or 'auto'" if name == "batch_size" else ""
        raise ValueError(
            f"The {name!r} parameter of {caller} must be an int from 1{more}. Got {value!r} instead."
        )
    return int(value)
