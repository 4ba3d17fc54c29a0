"""The procedure of a fit: check, encode, build or take up the network, hold rows out, train, take over."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet._random import RandomSnapshot
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, Checkpoint, EarlyStopping, PrintLog, ProgressBar
from sknet.callbacks._callback import check_callbacks, fresh_callbacks
from sknet.callbacks._checkpoint import saved_fit
from sknet.device import to_host
from sknet.engine import Model
from sknet.engine._inputs import first_input, n_rows
from sknet.engine._lbfgs import minimize
from sknet.engine._loop import Outcome
from sknet.estimators._checks import check_weights, drawn_weights, filled
from sknet.estimators._fit import (
    Compared,
    DataSet,
    Fit,
    FitArguments,
    Recipe,
    fit_extras,
    is_auto,
    recipe_of,
)
from sknet.estimators._network import checked_inputs, encode_targets, take_model
from sknet.estimators._scoring import HELD_OUT, LOSS
from sknet.estimators._training import (
    CONFORMAL,
    FitSource,
    SecondTraining,
    StoppingInParts,
    Trainer,
    check_calibration,
    conformity_of,
    input_scaling,
    standardize,
    standardize_inputs,
    temperature_of,
)
from sknet.estimators._validation import check_given, data_sets
from sknet.exceptions import LoadError, NonFiniteError

if TYPE_CHECKING:
    pass

__all__ = ["fit_network", "is_nearly_flat", "not_converged", "read_part"]

FEWEST_LAST = 10  # epochs at the end of a fit that tell whether its loss still falls
SMALL_SHARE = 0.05  # of all that the loss fell by: a fit that gains less at its end has nearly converged

NOT_FINITE = (
    "Solver produced non-finite parameter weights. The input data may contain large values and need to be "
    "preprocessed."
)


def fit_network(
    estimator: Any,
    given: FitArguments,
    *,
    incremental: bool = False,
    classes: Any = None,
    callbacks: Any = None,
    resume_from: Any = None,
    beside: Sequence[Callback] = (),
    trainer: "Trainer | None" = None,
) -> None:
    """Fit an estimator; its fitted attributes are set at the end."""
    trainer = trainer or Trainer()
    recipe = _decided(recipe_of(estimator), given, trainer, incremental, estimator._is_full_batch())
    continuing = hasattr(estimator, "model_") and (incremental or estimator.warm_start)
    fit = Fit(estimator, recipe, incremental, continuing, given, classes=classes)
    check_given(fit)
    asked = [*recipe.callbacks, *check_callbacks(callbacks, f"{type(estimator).__name__}.fit")]
    fit.callbacks = fresh_callbacks(asked, estimator.callbacks_ if continuing else ())
    fit.beside = [*beside, *fit_extras(estimator).callbacks]
    if incremental:
        _refuse_checkpoints(fit)
    else:
        resumed = fit_extras(estimator).start if resume_from is None else resume_from
        fit.saved = saved_fit(fit.callbacks, resumed)
        if fit.saved is not None and fit.saved.state["began"] is None:
            raise LoadError(f"{fit.saved.path} is of a fit of a Model, not of an estimator")
    _check_rows(fit)
    take_model(fit)
    if estimator._is_full_batch():
        _fit_full_batch(fit)
    else:
        _fit_in_steps(fit, trainer)


MOST_WITHOUT = 10_000  # rows that are trained on without holding some out, as HistGradientBoosting does


def _decided(
    recipe: Recipe, given: FitArguments, trainer: Trainer, incremental: bool, is_full_batch: bool
) -> Recipe:
    """Return the recipe with ``early_stopping="auto"`` decided by the rows."""
    if not is_auto(recipe.early_stopping):
        return recipe
    holds_out = recipe.validation_split is not None or trainer.n_rows(given) > MOST_WITHOUT
    stops = given.X_val is not None or (holds_out and not incremental)
    return recipe._replace(early_stopping=stops and not is_full_batch)


def _refuse_checkpoints(fit: Fit) -> None:
    """Raise a ValueError for what would save a fit in parts, of which it sees one."""
    if any(isinstance(callback, Checkpoint) for callback in fit.callbacks):
        name = type(fit.estimator).__name__
        raise ValueError(
            f"{name}.partial_fit takes no Checkpoint, which saves a fit of rows that are there as a whole. "
            "Save the estimator after each part instead, sknet.save(estimator, path): it keeps all that the "
            "next part goes on from. Or train on batches with Model.train, which takes a Checkpoint"
        )


def _check_rows(fit: Fit) -> None:
    """Check inputs, targets and weights, and encode the targets."""
    estimator, recipe, given = fit.estimator, fit.recipe, fit.given
    if recipe.encoder is not None and not fit.continuing:
        from sknet.estimators._encoding import encode_rows  # it loads what reads tables

        y = encode_rows(fit)
    else:
        fit.X, y = checked_inputs(fit, given.X, given.y)
    rows, dtype = first_input(fit.X), fit.dtype
    fit.labels, fit.undrawn_weight = y, check_weights(given.sample_weight, rows, dtype, y=y)
    drawn = drawn_weights(fit_extras(estimator).counts, given.sample_weight)
    fit.sample_weight = check_weights(drawn, rows, dtype, y=y)
    if not fit.continuing:
        estimator._targets = estimator._new_targets(recipe, filled(y), fit.classes)
    elif not fit.incremental:
        estimator._check_continued(filled(y))
    encode_targets(fit)


def read_part(estimator: Any, recipe: Recipe, given: FitArguments, dtype: Any, dtypes: Any = None) -> DataSet:
    """Return a part of the rows of a fit, checked and encoded as the fit has learned to."""
    fit = Fit(estimator, recipe, incremental=False, continuing=True, given=given, dtypes=dtypes)
    fit.X, fit.labels = checked_inputs(fit, given.X, given.y)
    fit.sample_weight = check_weights(
        given.sample_weight, first_input(fit.X), dtype, y=fit.labels, may_be_zeros=True
    )
    encode_targets(fit)
    if estimator._input_scaling is not None:
        fit.X = estimator._input_scaling.scaled(fit.X, dtype)
    return DataSet(fit.X, fit.labels, fit.sample_weight, fit.y, fit.weight, dtypes=fit.dtypes)


# -- in steps --------------------------------------------------------------------------------------


def _fit_in_steps(fit: Fit, trainer: Trainer) -> None:
    """Train by an optimizer that goes step by step."""
    recipe = fit.recipe
    fit.model.materialize(fit.X)
    if fit.began is None:  # without an encoder, nothing has been drawn yet but weights
        if fit.saved is not None:
            fit.model.random_state.set_state(fit.saved.state["began"]["random_state"])
        if fit.callbacks or fit.beside:  # which may ask for the state of the fit
            fit.began = RandomSnapshot(fit.model.random_state)
    trainer.take_rows(fit)
    fit.stopping = _new_stopping(fit)
    if fit.continuing:
        # `partial_fit` goes on in place, and is undone if it fails: copies take longer with every part.
        fit.history = fit.estimator.history_ if fit.incremental else fit.estimator.history_.copy()
    if _can_compare(fit) and fit.estimator._stopping is not None:  # None: `slim` has left it out
        fit.stopping.load_state(fit.estimator._stopping)
        if fit.incremental and fit.compared is not None and fit.estimator.stopped_early_:
            return _warn_of_the_end(fit)
    if fit.saved is not None and fit.compared is not None:
        fit.compared = replace(fit.compared, since=fit.saved.state["began"]["since"])
    second = SecondTraining(fit) if recipe.refit_on_all else None
    outcome = _trained(fit, trainer, [] if second is None else [second.noted])
    _check_finite_parameters(fit.model)
    fit.temperature = temperature_of(fit)
    fit.n_iter = outcome.n_iter
    fit.stopped_early = fit.compared is not None and outcome.stopped_by is fit.stopping
    if second is not None and not outcome.interrupted:
        second.run(fit, _shown(recipe))
        _check_finite_parameters(fit.model)
    fit.estimator._batch = fit.batches.like()
    fit.estimator._take(fit)
    _conform(fit)
    is_inner = bool(fit_extras(fit.estimator).callbacks)
    ended_at_limit = not (fit.incremental or outcome.stopped_by or outcome.interrupted or is_inner)
    if ended_at_limit and not (recipe.strict and is_nearly_flat(fit.history["loss"])):
        warn_caller(not_converged(fit.settings.max_iter, advises=recipe.strict), ConvergenceWarning)


def is_nearly_flat(losses: Sequence[float]) -> bool:
    """Tell whether the last tenth of the epochs, ten at least, lowered the loss by little."""
    n_last = max(FEWEST_LAST, len(losses) // 10)
    if len(losses) <= n_last:
        return False
    whole = losses[0] - losses[-1]
    return whole > 0 and losses[-1 - n_last] - losses[-1] <= SMALL_SHARE * whole


def _conform(fit: Fit) -> None:
    """Let the held-out rows decide how large intervals and sets are."""
    targets = fit.estimator._targets
    if fit.recipe.calibrate == CONFORMAL:
        rows = FitSource(fit).validation()
        assert rows is not None
        targets.conformity = conformity_of(fit.estimator, rows)
    elif targets.conformity is not None:
        targets.conformity = None


def not_converged(max_iter: int, *, advises: bool = True) -> str:
    """Return the warning of a fit that ended at its last epoch; the message begins as scikit-learn's."""
    said = (
        f"Stochastic Optimizer: Maximum iterations ({max_iter}) reached and the optimization hasn't "
        "converged yet."
    )
    advice = (
        " The loss still falls. Raise max_iter or the learning rate, as optimizer=Adam(lr=0.01); "
        "early_stopping=True ends where held-out rows are predicted best, and a larger tol ends sooner."
    )
    return said + advice if advises else said


def _new_stopping(fit: Fit) -> EarlyStopping:
    """Return the estimator's own patience; best weights are those of held-out rows."""
    recipe = fit.recipe
    kind = StoppingInParts if fit.incremental and recipe.early_stopping else EarlyStopping
    return kind(
        fit.monitor,
        patience=recipe.n_iter_no_change,
        tol=recipe.tol * (fit.loss.unit if fit.monitor.removeprefix(HELD_OUT) == LOSS else 1.0),
        restore_best=bool(recipe.early_stopping),
        verbose=_prints(recipe),
    )


def _prints(recipe: Recipe) -> bool:
    return bool(recipe.verbose) and recipe.verbose != "bar"


def _shown(recipe: Recipe) -> list[Callback]:
    """Return what `verbose` asks for."""
    if recipe.verbose == "bar":
        return [ProgressBar()]
    return [PrintLog(report=recipe.report)] if recipe.verbose else []


def _can_compare(fit: Fit) -> bool:
    """Tell whether this fit goes on comparing with what the fit before has found best."""
    if fit.held_out is None or not fit.recipe.early_stopping:
        return fit.continuing
    higher_is_better = bool(fit.scoring.directions[fit.monitor.removeprefix(HELD_OUT)])
    # scikit-learn's networks go on comparing with the best on other rows, and their trajectory is followed.
    digests = fit.held_out.digests() if fit.recipe.strict else []
    fit.compared = Compared(fit.monitor, higher_is_better, digests, fit.history.n_epochs)
    before = getattr(fit.estimator, "_compared", None) if fit.continuing else None
    if before is None or not before.is_like(fit.compared):
        return False
    fit.compared = before
    return True


def _warn_of_the_end(fit: Fit) -> None:
    """Say that a training in parts has ended; nothing has been changed."""
    warn_caller(
        f"this {type(fit.estimator).__name__} has stopped early, after epoch {fit.history.n_epochs}, and has "
        f"the weights of epoch {fit.best_epoch}: partial_fit leaves it as it is. Set early_stopping=False to "
        "go on, or call fit to begin anew.",
        UserWarning,
    )


def _trained(fit: Fit, trainer: Trainer, more: Sequence[Callback] = ()) -> Outcome:
    """Run the loop."""
    recipe = fit.recipe
    try:
        callbacks = [*fit.callbacks, *fit.beside, *_shown(recipe), fit.stopping, *more]
        return trainer.train(fit, callbacks)
    except NonFiniteError as error:
        if recipe.strict:
            raise error from None
        raise NonFiniteError(f"{NOT_FINITE} ({error})", error.parameter) from None


def _check_finite_parameters(model: Model) -> None:
    memory = model.memory
    flat = memory.flat
    is_all = type(flat) is np.ndarray and not memory.frozen and not model.optimizer.averaging
    if is_all and math.isfinite(flat.dot(flat)):  # it can overflow; then each is looked at
        return
    for name, array in model.evaluation_parameters.items():
        if not np.isfinite(to_host(array)).all():
            raise NonFiniteError(f"{NOT_FINITE} (first in parameter {name!r}, after the last update)", name)


# -- over the full batch ---------------------------------------------------------------------------


def _fit_full_batch(fit: Fit) -> None:
    """Minimize over all rows at once."""
    recipe, settings, model = fit.recipe, fit.settings, fit.model
    if fit.saved is not None:
        raise ValueError("a fit by L-BFGS cannot be resumed: use an optimizer that goes step by step")
    only_in_steps = {
        "early_stopping": recipe.early_stopping,
        "dropout": recipe.architecture.parameters().get("dropout"),
        "validation_split": recipe.validation_split,
        "scoring": recipe.scoring,
    }
    asked = [f"{name}={value!r}" for name, value in only_in_steps.items() if value and recipe.strict]
    if asked or fit.given.X_val is not None:
        raise ValueError(
            f"{(asked or ['X_val'])[0]} needs an optimizer that goes step by step, got LBFGS: use Adam()"
        )
    standardize_inputs(fit, lambda: input_scaling(fit, None))
    standardize(fit)
    check_calibration(fit)
    fit.training, _ = data_sets(fit, None, None)
    fit.batches = fit.training.batches(model, n_rows(fit.X))
    fit.stopping = _new_stopping(fit)  # not called: L-BFGS knows when it has converged
    fit.n_iter, loss = minimize(
        model,
        fit.batches,
        settings.max_iter,
        recipe.tol,
        _prints(recipe),
        fit.history,
        [*fit.callbacks, *fit.beside, *(_shown(recipe) if recipe.verbose == "bar" else [])],
        FitSource(fit),
    )
    fit.estimator._take(fit)
    fit.estimator.loss_ = fit.estimator.best_loss_ = loss
