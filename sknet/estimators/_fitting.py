"""The procedure of a fit: check, encode, hold out, train; a fit that fails leaves the estimator unchanged."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _num_features

from sknet._frames import all_finite
from sknet._random import RandomSnapshot
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, Checkpoint, EarlyStopping, FitView, PrintLog, ProgressBar
from sknet.callbacks._callback import Rows, check_callbacks, fresh_callbacks
from sknet.callbacks._checkpoint import SavedFit
from sknet.device import to_host
from sknet.engine import History, Model
from sknet.engine._checks import check_range
from sknet.engine._fit import saved_fit
from sknet.engine._inputs import first_input, n_rows
from sknet.engine._lbfgs import minimize
from sknet.engine._loop import Course, Outcome
from sknet.engine._model_copies import rollback_of
from sknet.estimators._architecture import Perceptron
from sknet.estimators._checks import check_weights, drawn_weights, filled, weighted_targets
from sknet.estimators._fit import (
    FIRST_RATE,
    HELD_OUT,
    LOSS,
    Compared,
    Data,
    DataSet,
    FitArguments,
    Fitted,
    Network,
    Recipe,
    Request,
    Training,
    are_plain_and_valid,
    are_same,
    first_rate,
    fit_extras,
    is_auto,
    most_epochs,
    recipe_of,
)
from sknet.estimators._network import checked_inputs, encode_targets, take_model
from sknet.estimators._training import (
    CONFORMAL,
    FIRST,
    SAMPLE,
    FitSource,
    SecondTraining,
    StoppingInParts,
    Trainer,
    check_calibration,
    check_input_units,
    check_target_units,
    conformity_of,
    input_scaling,
    rows_in_step,
    standardize,
    standardize_inputs,
    temperature_of,
)
from sknet.estimators._validation import check_given, check_measured
from sknet.exceptions import LoadError, NonFiniteError
from sknet.losses import Loss
from sknet.optim.schedules import InverseTime

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
    arguments = given, incremental, classes, callbacks, resume_from, beside
    network = take_model(read_data(new_request(estimator, trainer, *arguments)))
    if estimator._is_full_batch():
        _fit_full_batch(network)
        return
    fitted = _fit_in_steps(network, trainer)
    if fitted is not None and trainer.course is not None:
        NextPart(fitted, trainer.course).keep(estimator)


# -- request and data ------------------------------------------------------------------------------


def new_request(
    estimator: Any,
    trainer: Trainer,
    given: FitArguments,
    incremental: bool,
    classes: Any,
    callbacks: Any,
    resume_from: Any,
    beside: Sequence[Callback],
) -> Request:
    """Return what a fit is asked for, once it is known to be without contradictions."""
    extras, caller = fit_extras(estimator), type(estimator).__name__
    recipe = recipe_of(estimator)  # whose parameters are valid
    is_full_batch = estimator._is_full_batch()
    recipe = _decided_by_rows(recipe, given, trainer, incremental, is_full_batch)
    continuing = (incremental or estimator.warm_start) and hasattr(estimator, "model_")
    check_given(recipe, given, incremental, caller)
    asked = [*recipe.callbacks, *check_callbacks(callbacks, f"{caller}.fit")]
    fresh = fresh_callbacks(asked, estimator.callbacks_ if continuing else ())
    saved = None
    if incremental:
        _refuse_checkpoints(fresh, caller)
    else:
        saved = saved_fit(fresh, extras.start if resume_from is None else resume_from)
        if saved is not None and saved.state["began"] is None:
            raise LoadError(f"{saved.path} is of a fit of a Model, not of an estimator")
    first = _begun_with(estimator, continuing, saved)
    is_of_search = saved is not None and saved is extras.start  # whose fits are as if each began anew
    penalty = None if incremental else OF_NUMBERS if isinstance(estimator, RegressorMixin) else OF_CLASSES
    recipe = _following(recipe, given, trainer, penalty, is_full_batch, None if is_of_search else first)
    if is_of_search and recipe.first_rate != first:
        saved = None  # a fit for all of these epochs begins at another rate
    beside = [*beside, *extras.callbacks]
    return Request(estimator, recipe, given, incremental, continuing, classes, fresh, beside, saved)


MOST_WITHOUT = 10_000  # rows that are trained on without holding some out, as HistGradientBoosting does


def _decided_by_rows(
    recipe: Recipe, given: FitArguments, trainer: Trainer, incremental: bool, is_full_batch: bool
) -> Recipe:
    """Return the recipe with a network's plan, and ``early_stopping="auto"``, decided by the rows."""
    if recipe.plan is not None:
        n_rows = trainer.n_rows(given)
        recipe = recipe._replace(plan=None) if incremental else _planned(recipe, n_rows, given.X)
    if not is_auto(recipe.early_stopping):
        return recipe
    if incremental or given.X_val is not None:
        stops = given.X_val is not None
    else:
        has_many = trainer.n_rows(given) > MOST_WITHOUT and recipe.plan is None  # a plan ends at its best
        stops = recipe.validation_split is not None or has_many
    return recipe._replace(early_stopping=stops and not is_full_batch)


# The penalty beside the losses of all rows, which is smaller for fewer rows, for more, and for few columns,
# on which a curve needs large weights (docs/ablation.md).
OF_CLASSES, OF_NUMBERS, LEAST_ROWS, MOST_ROWS, LEAST_COLUMNS = 3.0, 5.0, 200, 1000, 4
# The rate of the default optimizer is higher for fewer rows, up to a multiple, and at first for few epochs.
LEAST_RATE, ROWS_OF_RATE, LARGEST_RATE = 1e-3, 2000, 5.0
FEW_EPOCHS = 10


def _following(
    recipe: Recipe,
    given: FitArguments,
    trainer: Trainer,
    penalty: float | None,
    is_full_batch: bool,
    first: float | None,
) -> Recipe:
    """Return the recipe with a rate and a penalty that follow the rows; without a penalty, for a part."""
    is_open = recipe.has_open_rate and isinstance(recipe.architecture, Perceptron) and penalty is not None
    if not is_open and not is_auto(recipe.alpha):
        return recipe
    n_rows = max(1, trainer.n_rows(given))
    if is_open:
        rate = _rounded(LEAST_RATE * min(LARGEST_RATE, max(1.0, ROWS_OF_RATE / n_rows)))
        if first is None:  # nothing is continued
            share = 0.0 if recipe.early_stopping else min(1.0, FEW_EPOCHS / recipe.settings.max_iter)
            first = _rounded(FIRST_RATE * share**2)
        # The optimizer was made of its name, for this fit.
        recipe.optimizer.lr = InverseTime(first, round(1 / first), rate) if first > rate else rate
    if is_auto(recipe.alpha):
        alpha = 1e-4
        if penalty is not None and not recipe.early_stopping:  # held-out rows do what a penalty does
            share = 1.0 if is_full_batch else rows_in_step(recipe, n_rows) / n_rows
            alpha = penalty * share * min(1.0, trainer.total_weight(given) / LEAST_ROWS, MOST_ROWS / n_rows)
            alpha *= min(1.0, _n_columns(given.X) / LEAST_COLUMNS) ** 2
        recipe = recipe._replace(alpha=alpha)
    return recipe


def _rounded(rate: float) -> float:
    return float(f"{rate:.2g}")


def _begun_with(estimator: Any, continuing: bool, saved: SavedFit | None) -> float | None:
    """Return the first rate of the fit that is continued, 0 if it is no default; None if nothing is."""
    if saved is not None:
        return float(saved.state["began"].get(FIRST, 0.0))
    return first_rate(estimator.model_.optimizer) if continuing else None


def _n_columns(X: Any) -> float:
    """Return how many columns a table has; other inputs count as many, and are checked later."""
    try:
        return float(_num_features(X)) if len(getattr(X, "shape", (1, 1))) == 2 else np.inf
    except (TypeError, LookupError):
        return np.inf


def _planned(recipe: Recipe, n_rows: int, X: Any) -> Recipe:
    """Return the recipe of a fit along the plan of its network: to the end, as the rate is low only there."""
    from sknet.optim.schedules import OneCycle  # most fits have no plan

    plan = recipe.plan
    assert plan is not None
    n_rows, sides = max(n_rows, 1), sorted(getattr(X, "shape", ())[1:])[-2:]  # channels are fewer
    epochs = round(min(plan["work"] / n_rows ** (1 / 3), plan["pixels"] / max(n_rows * math.prod(sides), 1)))
    settings = recipe.settings._replace(max_iter=int(min(max(epochs, plan["least"]), plan["most"])))
    optimizer = recipe.optimizer.with_lr(OneCycle(plan["peak"]))
    return recipe._replace(settings=settings, optimizer=optimizer, n_iter_no_change=math.inf)


def _refuse_checkpoints(callbacks: Sequence[Callback], caller: str) -> None:
    """Raise a ValueError for what would save a fit in parts, of which it sees one."""
    if any(isinstance(callback, Checkpoint) for callback in callbacks):
        raise ValueError(
            f"{caller}.partial_fit takes no Checkpoint, which saves a fit of rows that are there as a whole. "
            "Save the estimator after each part instead, sknet.save(estimator, path): it keeps all that the "
            "next part goes on from. Or train on batches with Model.train, which takes a Checkpoint"
        )


def read_data(request: Request) -> Data:
    """Return the rows of a fit, with inputs, targets and weights checked and targets encoded."""
    estimator, recipe, given, table = request.estimator, request.recipe, request.given, None
    if recipe.encoder is not None and not request.continuing:
        from sknet.estimators._encoding import encode_rows  # it loads what reads tables

        X, y, table = encode_rows(request)
    else:
        X, y = checked_inputs(request, given.X, given.y)
    rows, dtype, counts = first_input(X), request.dtype(X), request.extras.counts
    weighted = weighted_targets(estimator, y)
    weight = undrawn = check_weights(given.sample_weight, rows, dtype, y=weighted)
    if counts is not None:
        weight = check_weights(drawn_weights(counts, given.sample_weight), rows, dtype, y=weighted)
    if not request.continuing:
        estimator._targets = estimator._new_targets(recipe, filled(y), request.classes)
    elif not request.incremental:
        estimator._check_continued(filled(y))
    return Data(request, *encode_targets(request, DataSet(X, y, weight)), undrawn, table)


def read_part(estimator: Any, recipe: Recipe, given: FitArguments, dtype: Any, dtypes: Any = None) -> DataSet:
    """Return a part of the rows of a fit, checked and encoded as the fit has learned to."""
    request = Request(estimator, recipe, given, continuing=True)
    X, labels = checked_inputs(request, given.X, given.y)
    weighted = weighted_targets(estimator, labels)
    weight = check_weights(given.sample_weight, first_input(X), dtype, y=weighted, may_be_zeros=True)
    rows, _ = encode_targets(request, DataSet(X, labels, weight, dtypes=dtypes))
    scaling = estimator._input_scaling
    return rows if scaling is None else rows._replace(X=scaling.scaled(rows.X, dtype))


# -- in steps --------------------------------------------------------------------------------------


def _fit_in_steps(network: Network, trainer: Trainer) -> Fitted | None:
    """Train by an optimizer that goes step by step; None where a training in parts has ended before."""
    request = network.request
    training, has_ended = _prepared(network, trainer)
    if has_ended:
        _warn_of_the_end(training)
        return None
    second = SecondTraining(training) if request.recipe.refit_on_all else None
    if second is not None:
        training = training._replace(start=second.start)
    outcome = _trained(training, trainer, [] if second is None else [second.noted])
    _check_finite_parameters(network.model)
    stopped = training.compared is not None and outcome.stopped_by is training.stopping
    fitted = Fitted(training, network.model, outcome.n_iter, stopped, temperature=temperature_of(training))
    if second is not None and not outcome.interrupted:
        fitted = second.run(fitted, _shown(request.recipe))
        _check_finite_parameters(fitted.model)
    estimator, is_strict = request.estimator, request.recipe.strict
    estimator._batch = training.batches.like()
    estimator._take(fitted)
    _conform(training)
    is_inner = bool(request.extras.callbacks)
    is_whole = request.incremental or outcome.stopped_by or outcome.interrupted or request.recipe.plan
    ended_at_limit = not (is_whole or is_inner)
    if ended_at_limit and not (is_strict and is_nearly_flat(training.history["loss"])):
        is_short = request.recipe.first_rate > 0
        told = not_converged(request.settings.max_iter, advises=is_strict, is_short=is_short)
        warn_caller(told, ConvergenceWarning)
    return fitted


def is_nearly_flat(losses: Sequence[float]) -> bool:
    """Tell whether the last tenth of the epochs, ten at least, lowered the loss by little."""
    # On small sets the loss falls on, slowly, long after scores have stopped: the share of what it fell by is
    # 0.2 to 3 % on scikit-learn's, and 10 % where it falls in a line.
    n_last = max(FEWEST_LAST, len(losses) // 10)
    if len(losses) <= n_last:
        return False
    whole = losses[0] - losses[-1]
    return whole > 0 and losses[-1 - n_last] - losses[-1] <= SMALL_SHARE * whole


def _conform(training: Training) -> None:
    """Let the held-out rows decide how large intervals and sets are."""
    estimator = training.request.estimator
    targets = estimator._targets
    if training.request.recipe.calibrate == CONFORMAL:
        rows, held_out = FitSource(training).validation(), training.held_out
        assert rows is not None
        assert held_out is not None
        targets.conformity = conformity_of(estimator, rows, held_out.chosen(held_out.offset))
    elif targets.conformity is not None:
        targets.conformity = None


def _prepared(network: Network, trainer: Trainer) -> tuple[Training, bool]:
    """Return what is trained on and when it ends, and whether a training in parts has ended before."""
    request = network.request
    estimator, saved, continuing = request.estimator, request.saved, request.continuing
    scoring, monitor = check_measured(request)
    network.model.materialize(network.rows.X)
    network = network._replace(scoring=scoring, monitor=monitor)
    if network.began is None:  # without an encoder, nothing has been drawn yet but weights
        if saved is not None:
            network.model.random_state.set_state(saved.state["began"]["random_state"])
        if request.callbacks or request.beside:  # which may ask for the state of the fit
            network = network._replace(began=RandomSnapshot(network.model.random_state))
    parts = trainer.divide(network)
    # `partial_fit` goes on in place, and is undone if it fails: copies take longer with every part.
    history = History() if not continuing else estimator.history_
    history = history.copy() if continuing and not request.incremental else history
    training = Training(network, *parts, history, _new_stopping(network, parts[0]))
    compared, can_compare = _compared(training)
    if can_compare and estimator._stopping is not None:  # None: `slim` has left it out
        training.stopping.load_state(estimator._stopping)
        if request.incremental and compared is not None and estimator.stopped_early_:
            return training._replace(compared=compared), True
    if saved is not None and compared is not None:
        compared = replace(compared, since=saved.state["began"]["since"])
    return training if compared is None else training._replace(compared=compared), False


def not_converged(max_iter: int, *, advises: bool = True, is_short: bool = False) -> str:
    """Return the warning of a fit that ended at its last epoch; the message begins as scikit-learn's."""
    said = (
        f"Stochastic Optimizer: Maximum iterations ({max_iter}) reached and the optimization hasn't "
        "converged yet."
    )
    ways = "max_iter" if is_short else "max_iter or the learning rate, as lr=0.01"
    advice = (
        f" The loss still falls. Raise {ways}; "
        "early_stopping=True ends where held-out rows are predicted best, and a larger tol ends sooner."
    )
    return said + advice if advises else said


def _new_stopping(network: Network, loss: Loss) -> EarlyStopping:
    """Return the estimator's own patience; best weights are those of held-out rows."""
    request, recipe, monitor = network.request, network.request.recipe, network.monitor
    kind = StoppingInParts if request.incremental and recipe.early_stopping else EarlyStopping
    return kind(
        monitor,
        patience=recipe.n_iter_no_change,
        tol=recipe.tol * (loss.unit if monitor.removeprefix(HELD_OUT) == LOSS else 1.0),
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


def _compared(training: Training) -> tuple[Compared | None, bool]:
    """Return which epochs are compared, and whether with what the fit before has found best."""
    request, held_out, network = training.request, training.held_out, training.network
    if held_out is None or not request.recipe.early_stopping:
        return None, request.continuing
    higher_is_better = bool(network.scoring.directions[network.monitor.removeprefix(HELD_OUT)])
    # scikit-learn's networks go on comparing with the best on other rows, and their trajectory is followed.
    digests = held_out.digests() if request.recipe.strict else []
    compared = Compared(network.monitor, higher_is_better, digests, training.history.n_epochs)
    before = getattr(request.estimator, "_compared", None) if request.continuing else None
    return (compared, False) if before is None or not before.is_like(compared) else (before, True)


def _warn_of_the_end(training: Training) -> None:
    """Warn that a training in parts has ended, and that nothing was changed."""
    name, last, best = (
        type(training.request.estimator).__name__,
        training.history.n_epochs,
        training.best_epoch,
    )
    warn_caller(
        f"this {name} has stopped early, after epoch {last}, and has the weights of epoch {best}: "
        "partial_fit leaves it as it is. Set early_stopping=False to go on, or call fit to begin anew.",
        UserWarning,
    )


def _trained(training: Training, trainer: Trainer, more: Sequence[Callback] = ()) -> Outcome:
    """Run the loop."""
    request = training.request
    try:
        shown = _shown(request.recipe)
        callbacks = [*request.callbacks, *request.beside, *shown, training.stopping, *more]
        return trainer.train(training, callbacks, request.incremental and NextPart.is_possible(training))
    except NonFiniteError as error:
        raise _of_solver(error, request.recipe) from None


def _of_solver(error: NonFiniteError, recipe: Recipe) -> NonFiniteError:
    """Return an error of steps as an estimator says it."""
    return error if recipe.strict else NonFiniteError(f"{NOT_FINITE} ({error})", error.parameter)


def _check_finite_parameters(model: Model) -> None:
    memory = model.memory
    flat = memory.flat
    is_all = type(flat) is np.ndarray and not memory.frozen and not model.optimizer.averaging
    if is_all and math.isfinite(flat.dot(flat)):  # it can overflow; then each is looked at
        return
    for name, array in model.evaluation_parameters.items():
        if not all_finite(to_host(array)):
            raise NonFiniteError(f"{NOT_FINITE} (first in parameter {name!r}, after the last update)", name)


# -- in parts ----------------------------------------------------------------------------------------

PART = "part"  # key of the last part among what a model keeps for the next one


class NextPart:
    """Shortcut that trains the next part of a stream, if the part has the form of the one before."""

    def __init__(self, fitted: Fitted, course: Course) -> None:
        training = fitted.training
        request, rows = training.request, training.training
        self._course, self._recipe, self._loss = course, request.recipe, training.loss
        self._rates = tuple(vars(fitted.model.optimizer).values())  # which steps read anew
        self._shape, self._dtypes = rows.read.shape, (rows.read.dtype, rows.labels.dtype)
        self._stopping, self._attributes = training.stopping, dict[str, Any]()

    @staticmethod
    def is_possible(training: Training) -> bool:
        """Tell whether nothing that was decided for a part depends on its values."""
        request, rows = training.request, training.training
        estimator, recipe, (X, y, *more) = request.estimator, request.recipe, request.given
        is_table = type(X) is type(y) is np.ndarray and X.ndim == 2 and y.ndim == 1 and len(y) > 1
        return (
            is_table
            and X.dtype.kind == "f"
            and y.dtype.kind in "iuf"
            and rows.read is X
            and rows.labels is y
            and all(each is None for each in (*more, recipe.class_weight, recipe.sampler, recipe.scoring))
            and recipe.calibrate is None
            and not (recipe.frozen or estimator._frozen or request.callbacks or request.beside)
            and estimator._inputs is None
            and (isinstance(recipe.batch_size, str) or recipe.batch_size <= len(y))  # else, it warns
            and are_plain_and_valid(estimator)
        )

    def is_like(self, estimator: Any, given: FitArguments) -> bool:
        """Tell whether other rows have the form of this part, and the estimator is as it was left."""
        X, y, weight, *held_out, groups, offset, offset_val = given
        return (
            type(X) is type(y) is np.ndarray
            and X.shape == self._shape
            and y.shape == X.shape[:1]
            and (X.dtype, y.dtype) == self._dtypes
            and weight is held_out[0] is held_out[1] is held_out[2] is groups is offset is offset_val is None
            and are_same(self._rates, tuple(vars(estimator.model_.optimizer).values()))
            and list(attributes := _attributes_of(estimator)) == list(self._attributes)
            and all(map(is_, attributes.values(), self._attributes.values()))
            and not {"feature_names_in_", "_skl_callbacks", "_fit_extras"} & attributes.keys()
            and self._course.is_valid()
            and (y.dtype.kind != "f" or all_finite(y))
        )

    def read(self, estimator: Any, X: Any) -> tuple[Any, Any]:
        """Return rows in units, and these units; None for rows that are not finite."""
        scaling = estimator._input_scaling
        if scaling is None:
            return X if all_finite(X) else None, None
        scaling = scaling.followed(X, SAMPLE)
        return self._course.scaled(X, scaling.of_table), scaling

    def train(self, estimator: Any, given: FitArguments, X: Any, scaling: Any) -> None:
        """Train on other rows, which are like this part, as they were read."""
        course, recipe, model, targets = self._course, self._recipe, estimator.model_, estimator._targets
        if scaling is not None:
            check_input_units(given.X, X, scaling)
            estimator.__dict__["_input_scaling"] = scaling
        y = targets.encode(given.y)
        self._loss.check_target(y, n_outputs=targets.n_outputs)
        check_target_units(DataSet(X, given.y, None, y), targets, recipe.loss.scaling)
        check_range(y, model.dtype, "y")
        try:
            outcome = course.again(X, y, estimator._score_of)
        except NonFiniteError as error:
            raise _of_solver(error, recipe) from None
        _check_finite_parameters(model)
        estimator._take_part(self._stopping, outcome.n_iter)
        if not outcome.interrupted:
            self.keep(estimator)

    def end(self) -> None:
        """Leave the steps to parts of the same form that are read in another way."""
        self._course.end()

    def keep(self, estimator: Any) -> None:
        """Store this in the estimator's model until the next part."""
        self._attributes = _attributes_of(estimator)
        if estimator.model_._idle_steps is not None:
            estimator.model_._idle_steps.put(PART, self)


def _attributes_of(estimator: Any) -> dict[str, Any]:
    """Return parameters and fitted attributes; the model is compared elsewhere."""
    found: dict[str, Any] = vars(estimator).copy()
    del found["model_"]
    return found


def train_again(estimator: Any, given: FitArguments) -> bool:
    """Train on another part of a stream as on the one before; tell whether it is like that."""
    idle = getattr(estimator.__dict__.get("model_"), "_idle_steps", None)
    part = None if idle is None else idle.take(PART)
    if part is None:
        return False
    X, scaling = part.read(estimator, given.X) if part.is_like(estimator, given) else (None, None)
    if X is None:
        part.end()
        return False
    with AllOrNothing(estimator, in_place=True):
        part.train(estimator, given, X, scaling)
    return True


# -- over the full batch ---------------------------------------------------------------------------


def _fit_full_batch(network: Network) -> None:
    """Minimize over all rows at once."""
    request, model = network.request, network.model
    recipe, estimator = request.recipe, request.estimator
    if request.saved is not None:
        raise ValueError("a fit by L-BFGS cannot be resumed: use an optimizer that goes step by step")
    only_in_steps = {
        "early_stopping": recipe.early_stopping,
        "dropout": recipe.architecture.parameters().get("dropout"),
        "validation_split": recipe.validation_split,
        "scoring": recipe.scoring,
        "sampler": recipe.sampler,
    }
    asked = [f"{name}={value!r}" for name, value in only_in_steps.items() if value and recipe.strict]
    if asked or request.given.X_val is not None:
        raise ValueError(
            f"{(asked or ['X_val'])[0]} needs an optimizer that goes step by step, got LBFGS: use Adam()"
        )
    rows = standardize_inputs(network, lambda: input_scaling(network, None))
    rows, loss = standardize(network, rows)
    check_calibration(network, None)
    batches, history = rows.batches(model, n_rows(rows.X)), History()
    stopping = _new_stopping(network, loss)  # not called: L-BFGS knows when it has converged
    training = Training(network, loss, rows, None, batches, None, history, stopping)
    n_iter, least = minimize(
        model,
        batches,
        request.settings.max_iter,
        recipe.tol,
        _prints(recipe),
        history,
        [*request.callbacks, *request.beside, *(_shown(recipe) if recipe.verbose == "bar" else [])],
        FitSource(training),
    )
    estimator._take(Fitted(training, model, n_iter))
    estimator.loss_ = estimator.best_loss_ = least


class AllOrNothing:
    """A context manager that restores an estimator if its block raises."""

    def __init__(self, estimator: BaseEstimator, *, in_place: bool) -> None:
        self._estimator, self._attributes = estimator, estimator.__dict__.copy()
        model = self._attributes.get("model_") if in_place else None
        self._restore: list[Callable[[], None]] = []
        if model is not None:
            self._restore += [rollback_of(model), _history_rollback(self._attributes["history_"])]
        for source in (estimator.random_state, None if model is None else model.random_state):
            if isinstance(source, RandomState):
                self._restore.append(RandomSnapshot(source).restore)

    def __enter__(self) -> None:
        """Everything has been noted already."""

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is None:
            return
        self._estimator.__dict__.clear()
        self._estimator.__dict__.update(self._attributes)
        for each in self._restore:
            each()


def _history_rollback(history: History) -> Callable[[], None]:
    """Return a function that removes later epochs from a history."""
    before = {name: (len(column), column[-1:]) for name, column in history.items()}

    def restore() -> None:
        for name in list(history):
            if name not in before:
                del history[name]
                continue
            length, last = before[name]
            del history[name][length:]
            history[name][-1:] = last  # a callback may have amended it

    return restore


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for scikit-learn's class, without callbacks."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            raise TypeError(
                "scikit-learn has callbacks from version 1.9 on, and this one is older: use "
                "callbacks=[...] with those of sknet.callbacks"
            )

    def with_callbacks(method: Any) -> Any:
        return method


class SupportsCallbacks(CallbackSupportMixin):
    """scikit-learn's support of its callbacks, which says where sknet's own belong."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks of `sklearn.callback`; callbacks of sknet are given as the parameter `callbacks`.

        A fit is one of their tasks, and every epoch a task in it; a `partial_fit` is a fit of one epoch, as
        in scikit-learn.

        Parameters
        ----------
        *callbacks : object
            Objects of scikit-learn's callback protocol; without any, those that were set are removed.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        TypeError
            If an argument is a callback of sknet, or not a callback.
        """
        for callback in callbacks:
            kind = callback if isinstance(callback, type) else type(callback)
            if issubclass(kind, Callback):
                shown = f"{kind.__name__}(...)" if isinstance(callback, type) else repr(callback)
                name, given = type(self).__name__, f"callbacks=[{shown}]"
                way = f"fit(X, y, {given})"
                if "callbacks" in self._get_param_names():
                    way = f"{name}({given}), or to one fit, {way}"
                raise TypeError(
                    f"set_callbacks of {name} is for callbacks of scikit-learn, and {kind.__name__} is one "
                    f"of sknet's: give it as {way}"
                )
        return super().set_callbacks(*callbacks)


def fit_as_task(
    estimator: Any, rows: Rows, fit: Callable[[list[Callback]], None], *, is_part: bool = False
) -> None:
    """Run a fit; if it fails, the estimator is as it was before."""
    if "_skl_callbacks" not in estimator.__dict__:  # nobody would be told, also inside of another estimator
        with AllOrNothing(estimator, in_place=is_part):
            fit([])
    else:
        _fit_as_task(estimator, rows, fit, is_part)


@with_callbacks  # type: ignore[untyped-decorator, unused-ignore]
def _fit_as_task(estimator: Any, rows: Rows, fit: Callable[[list[Callback]], None], is_part: bool) -> None:
    context = estimator._init_callback_context(max_subtasks=1 if is_part else most_epochs(estimator))
    data = {"estimator": estimator, "X": rows.X, "y": rows.y, "metadata": _metadata(rows)}
    with AllOrNothing(estimator, in_place=is_part):
        context.call_on_fit_task_begin(**data)
        fit([_EpochTasks(context, estimator)])
        context.call_on_fit_task_end(**data, reconstruction_attributes={})


class _EpochTasks(Callback):
    """Makes every epoch a task of scikit-learn's."""

    order = 1

    def __init__(self, context: Any, estimator: Any) -> None:
        self.context = context
        self.estimator = estimator

    def on_epoch_begin(self, fit: FitView) -> None:
        self._task = self.context.subcontext(task_name="epoch")
        self._task.call_on_fit_task_begin(**self._data(fit))

    def on_epoch_end(self, fit: FitView) -> Literal["stop"] | None:
        return "stop" if self._task.call_on_fit_task_end(**self._data(fit)) else None

    def _data(self, fit: FitView) -> dict[str, Any]:
        """Return what a callback may ask for; functions are called if it does."""

        def learned() -> dict[str, Any]:
            before = self.estimator.__dict__
            return {name: x for name, x in vars(fit.estimator).items() if before.get(name, self) is not x}

        return {
            "estimator": self.estimator,
            "X": lambda: _training(fit).X,
            "y": lambda: _training(fit).y,
            "metadata": lambda: _metadata(_training(fit)),
            "reconstruction_attributes": learned,
        }


def _training(fit: FitView) -> Rows:
    rows = fit.training
    return Rows(None, None) if rows is None else rows


def _metadata(rows: Rows) -> dict[str, Any] | None:
    return None if rows.sample_weight is None else {"sample_weight": rows.sample_weight}
