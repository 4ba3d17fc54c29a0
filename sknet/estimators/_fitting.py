"""The procedure of a fit: check, encode, build or take up the network, hold rows out, train, take over."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from sknet import nn
from sknet._params import same
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, EarlyStopping, PrintLog, ProgressBar
from sknet.callbacks.extend import Rows, SavedFit, check_callbacks, fresh_callbacks, saved_fit
from sknet.device import device_of, to_host
from sknet.engine import (
    Batches,
    History,
    Model,
    Outcome,
    Settings,
    Source,
    Validation,
    chunk_rows,
    minimize,
    train,
)
from sknet.estimators._calibration import check_calibration, temperature_of
from sknet.estimators._input import check_weights, check_X_y
from sknet.estimators._outputs import check_outputs, output_shape
from sknet.estimators._recipe import Recipe
from sknet.estimators._units import standardize
from sknet.exceptions import NonFiniteError
from sknet.losses import Loss

__all__ = ["Fit", "fit_network"]

DEFAULT_BATCH = 200
MAY_CHANGE = ("max_iter", "verbose", "warm_start", "callbacks")  # of a fit that is resumed
NOT_FINITE = (
    "Solver produced non-finite parameter weights. The input data may contain large values and need to be "
    "preprocessed."
)


@dataclass
class Fit:
    """One call of `fit` or `partial_fit`: what it was given, and what it has come to so far.

    Attributes
    ----------
    estimator : BaseNet
        Whose fit it is.
    recipe : Recipe
        Its parameters.
    incremental : bool
        Whether it is a `partial_fit`: one epoch, in place.
    continuing : bool
        Whether it goes on from the fit before.
    given : Rows
        X, y and sample_weight as they came in.
    X : array or CSR matrix of shape (n_samples, ...)
        Checked inputs.
    y : array of shape (n_samples, ...)
        Targets as the loss reads them.
    weight : array of shape (n_samples,) or None
        Sample weights, multiplied by those of the classes.
    loss : Loss
        For the task of the targets.
    model : Model
        Trained.
    batches : Batches
        The training rows.
    validation : Validation or None
        The held-out rows.
    parts : tuple of ndarray, or None
        Numbers of the training and of the held-out rows; None where all are trained on.
    history : History
        Of this fit, and of those that it continues.
    callbacks : list of Callback
        The user's, for this fit only.
    stopping : EarlyStopping
        By the estimator's own parameters.
    temperature : float, tuple of float or None
        By which probabilities are calibrated.
    n_iter : int
        Epochs (or iterations) of this fit.
    saved : SavedFit or None
        What it goes on from, if it was interrupted.
    began : dict
        State of the random numbers before rows were held out.
    """

    estimator: Any
    recipe: Recipe
    incremental: bool
    continuing: bool
    given: Rows
    X: Any = None
    y: Any = None
    weight: Any = None
    loss: Loss = field(init=False)
    model: Model = field(init=False)
    batches: Batches = field(init=False)
    validation: Validation | None = None
    parts: tuple[Any, Any] | None = None
    history: History = field(default_factory=History)
    callbacks: list[Callback] = field(default_factory=list)
    stopping: EarlyStopping = field(init=False)
    temperature: Any = None
    n_iter: int = 0
    saved: SavedFit | None = None
    began: Any = None

    @property
    def dtype(self) -> Any:
        """In which precision it computes."""
        return self.X.dtype if self.recipe.dtype == "auto" else self.recipe.dtype

    @property
    def settings(self) -> Settings:
        """Of the loop."""
        return replace(self.recipe.settings, max_iter=1) if self.incremental else self.recipe.settings


def fit_network(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    incremental: bool = False,
    classes: Any = None,
    callbacks: Any = None,
    resume_from: Any = None,
) -> None:
    """Fit an estimator; its fitted attributes are set at the end.

    Parameters
    ----------
    estimator : BaseNet
        Whose parameters have been validated.
    X, y, sample_weight
        As for its `fit`.
    incremental : bool, default=False
        Train for one epoch, continuing the fit before if there is one.
    classes : array of shape (n_classes,), default=None
        As for `partial_fit`.
    callbacks : list of Callback, default=None
        For this fit, after those of the estimator.
    resume_from : str, PathLike or None, default=None
        As for `fit`.
    """
    recipe = estimator._recipe()
    if incremental and recipe.early_stopping:
        raise ValueError("partial_fit does not support early_stopping=True")
    continuing = hasattr(estimator, "model_") and (incremental or estimator.warm_start)
    fit = Fit(estimator, recipe, incremental, continuing, Rows(X, y, sample_weight))
    given = [*recipe.callbacks, *check_callbacks(callbacks, f"{type(estimator).__name__}.fit")]
    fit.callbacks = fresh_callbacks(given, estimator.callbacks_ if continuing else ())
    fit.saved = None if incremental else saved_fit(fit.callbacks, resume_from)
    _check_rows(fit, X, y, sample_weight, classes)
    _take_model(fit)
    if estimator._is_full_batch():
        _fit_full_batch(fit)
    else:
        _fit_in_steps(fit)


def _check_rows(fit: Fit, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Check inputs, targets and weights, and encode the targets."""
    estimator, recipe = fit.estimator, fit.recipe
    fit.X, y = check_X_y(
        estimator,
        X,
        y,
        recipe.accepted_dtypes(),
        reset=not fit.continuing,
        numeric=estimator._numeric_targets,
    )
    weight = check_weights(sample_weight, fit.X, fit.dtype)
    if not fit.continuing:
        estimator._targets = estimator._new_targets(recipe, y, classes)
    elif not fit.incremental:
        estimator._check_continued(y)
    targets = estimator._targets
    fit.y = targets.encode(y)
    fit.loss = targets.trained(recipe.loss)
    fit.loss.check_target(fit.y, n_outputs=targets.n_outputs)
    fit.weight = estimator._weighted(recipe, y, weight, fit.incremental)


# -- the model -------------------------------------------------------------------------------------


def _take_model(fit: Fit) -> None:
    """Build a new model, or take up the fitted one."""
    estimator, recipe = fit.estimator, fit.recipe
    if fit.continuing:
        _check_network(fit)
        # partial_fit trains the model in place, and is undone if it fails; fit trains a copy, so that
        # a failure has no effect.
        fit.model = estimator.model_ if fit.incremental else estimator.model_.copy()
        fit.model.adopt(recipe.optimizer, fit.loss, recipe.alpha)
        return
    estimator._architecture = recipe.architecture
    estimator._lasting = recipe.lasting_parameters()
    fit.model = Model(
        _new_network(fit),
        loss=fit.loss,
        optimizer=recipe.optimizer,
        alpha=recipe.alpha,
        dtype=fit.dtype,
        device=device_of(fit.X) if recipe.device == "auto" else recipe.device,
        # What a resumed fit draws is in its checkpoint: NumPy's global state is nothing to it.
        random_state=RandomState() if fit.saved and recipe.random_state is None else recipe.random_state,
    )


def _new_network(fit: Fit) -> nn.Module:
    """Return the network, which has as many outputs as the targets need."""
    targets, architecture = fit.estimator._targets, fit.recipe.architecture
    n_outputs = targets.n_outputs * fit.loss.outputs_per_target
    network = architecture.build(fit.X, n_outputs)
    if architecture.is_foreign:
        needs = f"{targets.n_outputs} target(s) and {type(fit.loss).__name__}()"
        shape = output_shape(network, fit.X, fit.dtype)
        check_outputs(network, shape, n_outputs, needs, is_class=targets.task != "regression")
    return network


def _check_network(fit: Fit) -> None:
    """Raise a ValueError if a continued fit asks for another network than the fitted one."""
    n_outputs = fit.estimator._targets.n_outputs * fit.loss.outputs_per_target
    if n_outputs != fit.estimator.n_outputs_:
        raise ValueError(
            f"{fit.recipe.loss!r} needs {n_outputs} output(s), and the network that was fitted has "
            f"{fit.estimator.n_outputs_}: a fit that continues cannot change it. Set warm_start=False and "
            "call fit for a new network."
        )
    for name, value in fit.recipe.lasting_parameters().items():
        before = fit.estimator._lasting.get(name)
        if not same(value, before):
            raise ValueError(
                f"{name} was {before!r} when this network was fitted and is {value!r} now: a fit that "
                "continues cannot change it. Set warm_start=False and call fit for a new network."
            )


# -- in steps --------------------------------------------------------------------------------------


def _fit_in_steps(fit: Fit) -> None:
    """Train by an optimizer that goes step by step."""
    fit.model.materialize(fit.X)
    if fit.saved is not None:
        fit.model.random_state.set_state(fit.saved.state["began"])
    fit.began = fit.model.random_state.get_state(legacy=False)
    fit.batches = _training_batches(fit)
    fit.stopping = _new_stopping(fit, "loss" if fit.validation is None else "validation_score")
    if fit.continuing:
        fit.history = fit.estimator.history_.copy()
        fit.stopping.load_state(fit.estimator._stopping)
    outcome = _trained(fit)
    _check_finite_parameters(fit.model)
    fit.temperature = temperature_of(fit)
    fit.n_iter = outcome.n_iter
    fit.estimator._batch = fit.batches.like()
    fit.estimator._take(fit)
    if not (fit.incremental or outcome.stopped_by or outcome.interrupted):
        warn_caller(
            f"Stochastic Optimizer: Maximum iterations ({fit.settings.max_iter}) reached and the "
            "optimization hasn't converged yet.",
            ConvergenceWarning,
        )


def _training_batches(fit: Fit) -> Batches:
    """Return the rows to train on, after holding others out for the validation."""
    model, recipe, rows = fit.model, fit.recipe, None
    if recipe.early_stopping:
        rows, held_out = fit.parts = _split(fit)
        standardize(fit, rows)
        chunk = chunk_rows(model, tuple(fit.X.shape[1:]))
        kept = Batches(fit.X, fit.y, fit.weight, chunk, model.dtype, model.device, held_out)
        fit.validation = Validation(kept, fit.estimator._score_of(kept, model))
    else:
        standardize(fit)
    check_calibration(fit)
    n_samples = int(fit.X.shape[0]) if rows is None else len(rows)
    size = _batch_size(recipe.batch_size, n_samples)
    return Batches(fit.X, fit.y, fit.weight, size, model.dtype, model.device, rows)


def _new_stopping(fit: Fit, monitor: str) -> EarlyStopping:
    """Return the estimator's own patience; best weights are those of held-out rows."""
    recipe = fit.recipe
    return EarlyStopping(
        monitor,
        patience=recipe.n_iter_no_change,
        tol=recipe.tol * (fit.loss.unit if monitor.endswith("loss") else 1.0),  # which is that of y
        restore_best=fit.validation is not None,
        verbose=_prints(recipe),
    )


def _prints(recipe: Recipe) -> bool:
    return bool(recipe.verbose) and recipe.verbose != "bar"


def _shown(recipe: Recipe) -> list[Callback]:
    """Return what `verbose` asks for."""
    if recipe.verbose == "bar":
        return [ProgressBar()]
    return [PrintLog(report=recipe.report)] if recipe.verbose else []


def _trained(fit: Fit) -> Outcome:
    """Run the loop."""
    recipe = fit.recipe
    try:
        return train(
            fit.model,
            fit.batches,
            fit.history,
            fit.settings,
            fit.estimator._score_of(fit.batches, fit.model),
            fit.validation,
            [*fit.callbacks, *_shown(recipe), fit.stopping],
            _FitSource(fit),
            fit.saved,
        )
    except NonFiniteError as error:
        if recipe.strict:
            raise error from None
        raise NonFiniteError(f"{NOT_FINITE} ({error})", error.parameter) from None


class _FitSource(Source):
    """What callbacks see of the estimator and its rows."""

    def __init__(self, fit: Fit) -> None:
        self._fit = fit
        self.began = fit.began

    def parameters(self) -> dict[str, Any]:
        estimator = self._fit.estimator
        params = estimator.get_params(deep=False)
        told = {name: value for name, value in params.items() if name not in MAY_CHANGE}
        classes = getattr(estimator._targets, "classes", None)
        return {"estimator": type(estimator), **told, "classes_": classes}

    def estimator(self, epoch: int) -> Any:
        fit = copy.copy(self._fit)
        fit.n_iter = epoch
        snapshot = object.__new__(type(fit.estimator))
        snapshot.__dict__.update(fit.estimator.__dict__)
        snapshot._take(fit)
        return snapshot

    def training(self) -> Rows:
        fit = self._fit
        return fit.given if fit.parts is None else _rows_of(fit.given, fit.parts[0])

    def validation(self) -> Rows | None:
        fit = self._fit
        return None if fit.parts is None else _rows_of(fit.given, fit.parts[1])


def _rows_of(given: Rows, rows: Any) -> Rows:
    return Rows(*(None if array is None else _safe_indexing(array, rows) for array in given))


def _split(fit: Fit) -> tuple[Any, Any]:
    """Return the training and validation rows, drawn as scikit-learn's networks draw them."""
    from sklearn.model_selection import train_test_split  # it loads half of scikit-learn

    # Shares of classes are kept for two classes only, as there: the same seed gives the same split.
    stratify = fit.y.astype(bool) if fit.estimator._targets.task == "binary" else None
    training, held_out = train_test_split(
        np.arange(len(fit.y)),
        random_state=fit.model.random_state,
        test_size=fit.recipe.validation_fraction,
        stratify=stratify,
    )
    if len(held_out) < 2:
        raise ValueError(
            "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
        )
    for rows, what in ((training, "the training rows"), (held_out, "the validation set")):
        if fit.weight is not None and not fit.weight[rows].any():
            raise ValueError(
                f"all sample weights of {what} are zero: give more rows a positive weight, or set "
                "early_stopping=False"
            )
    return training, held_out


def _batch_size(batch_size: int | str, n_samples: int) -> int:
    if isinstance(batch_size, str):
        return min(DEFAULT_BATCH, n_samples)
    if batch_size > n_samples:
        warn_caller(
            f"Got `batch_size` less than 1 or larger than sample size: {batch_size} rows of {n_samples}. "
            "It is going to be clipped.",
            UserWarning,
        )
    return int(np.clip(batch_size, 1, n_samples))


def _check_finite_parameters(model: Model) -> None:
    for name, array in model.evaluation_parameters.items():
        if not np.isfinite(to_host(array)).all():
            raise NonFiniteError(f"{NOT_FINITE} (first in parameter {name!r}, after the last update)", name)


# -- over the full batch ---------------------------------------------------------------------------


def _fit_full_batch(fit: Fit) -> None:
    """Minimise over all rows at once."""
    recipe, settings, model = fit.recipe, fit.settings, fit.model
    if fit.saved is not None:
        raise ValueError("a fit by L-BFGS cannot be resumed: use an optimizer that goes step by step")
    only_in_steps = {
        "early_stopping": recipe.early_stopping,
        "dropout": recipe.architecture.parameters().get("dropout"),
    }
    for name, value in only_in_steps.items():
        if recipe.strict and value:
            raise ValueError(
                f"{name}={value} needs an optimizer that goes step by step, got LBFGS: use Adam()"
            )
    standardize(fit)
    check_calibration(fit)
    fit.batches = Batches(fit.X, fit.y, fit.weight, int(fit.X.shape[0]), model.dtype, model.device)
    fit.stopping = _new_stopping(fit, "loss")  # not called: L-BFGS knows when it has converged
    fit.n_iter, loss = minimize(
        model,
        fit.batches,
        settings.max_iter,
        recipe.tol,
        _prints(recipe),
        fit.history,
        [*fit.callbacks, *(_shown(recipe) if recipe.verbose == "bar" else [])],
        _FitSource(fit),
    )
    fit.estimator._take(fit)
    fit.estimator.loss_ = fit.estimator.best_loss_ = loss
