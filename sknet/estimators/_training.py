"""The training of a fit: scaled targets, updates, a second training on all rows, and calibration."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse
from sklearn.utils.validation import _num_samples

from sknet import ops
from sknet._constraints import shown
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, EarlyStopping, FitView
from sknet.callbacks._callback import Rows
from sknet.device import active, device_of, namespace, to_host
from sknet.engine import History, Model
from sknet.engine._batches import ComputedRows, join_leftover
from sknet.engine._checkpoint import load_model_state, model_state
from sknet.engine._fit import Source
from sknet.engine._inputs import first_input, row_shapes
from sknet.engine._loop import Outcome, Validation
from sknet.engine._network import chunk_rows, chunk_rows_of, predict_raw
from sknet.engine._scores import row_weights
from sknet.engine._train import train
from sknet.estimators._checks import is_missing, lengths_of, of_seen, taken_rows
from sknet.estimators._fit import DataSet, Fit, FitArguments, fit_extras
from sknet.estimators._heads import Bounds, best_temperature
from sknet.estimators._inputs import Sequences, on_host
from sknet.estimators._scaling import InputScaling, Units, feature_axis, units_of
from sknet.estimators._scoring import LOSS, check_scoring
from sknet.estimators._targets import numbers_of
from sknet.estimators._validation import data_sets, monitored, new_score_of, split_rows
from sknet.exceptions import LoadError
from sknet.losses._wrappers import Columns

__all__ = [
    "CONFORMAL",
    "FitSource",
    "SecondTraining",
    "StoppingInParts",
    "Trainer",
    "check_calibration",
    "conformity_of",
    "features_of",
    "input_scaling",
    "standardize",
    "standardize_inputs",
    "temperature_of",
]


MOST_DEVIATIONS = 10.0  # of later targets, in units of the first ones: beyond, fits take many times as long
MOST_USUAL = 100.0  # of half of the later targets: beyond, usual numbers of passes learn nothing
LEAST_DEVIATION = 1 / 30  # of later targets: below, errors that matter to them are small ones of the fit
FEW = 10  # rows, whose deviation tells little


def standardize(fit: Fit, rows: Any = None) -> None:
    """Let a first fit with `scale_target` train on standardized targets; one that continues has them."""
    recipe, targets = fit.recipe, fit.estimator._targets
    if fit.continuing:
        _check_units(fit, targets, recipe.loss.scaling)
    if not recipe.scale_target or fit.continuing:
        return
    scaling = recipe.loss.scaling
    assert scaling is not None
    if fit.incremental:
        _check_first_part(fit.y, scaling.shifts)
    y, weight = fit.y, fit.weight
    if rows is not None:
        y, weight = y[rows], None if weight is None else weight[rows]
    targets.standardize(y, weight, shifts=scaling.shifts)
    begun = _begun_with(fit, "targets", {"y": Units(targets.mean, targets.scale)})["y"]
    targets.mean, targets.scale = begun.mean, begun.scale
    targets.check_reported(recipe.loss)
    fit.y = targets.encode(fit.y)
    fit.loss = targets.trained(recipe.loss)
    fit.model.adopt(recipe.optimizer, fit.loss, recipe.alpha)


def _begun_with(fit: Fit, what: str, learned: Mapping[str, Units]) -> Mapping[str, Units]:
    """Return the units that a resumed fit has begun with, which an earlier fit may have learned.

    If they are of other features or of dense rows, the data are others, which is said when they are compared.
    """
    if fit.saved is None:
        return learned
    path, state = fit.saved
    found = {name: Units(**each) for name, each in state["began"].get(what, {}).items()}
    try:
        for each in found.values():
            each._check_stored()
    except ValueError as error:
        raise LoadError(f"{path} is damaged: {error}") from None
    forms = [
        {name: (each.mean.shape, each.mean.any()) for name, each in units.items()}
        for units in (found, learned)
    ]
    return found if forms[0] == forms[1] else learned


def _check_first_part(y: Any, shifts: bool) -> None:
    """Raise a ValueError if the first part of a stream does not tell the unit of the others."""
    y = np.asarray(y, np.float64)
    column = (y if y.ndim == 2 else y.reshape(-1, 1)).T
    alike = [np.ptp(each) == 0 if shifts else not each.any() for each in column]
    if any(alike):
        k = alike.index(True)
        where = "y" if len(column) == 1 else f"column {k} of y"
        raise ValueError(
            f"scale_target=True standardizes by the first part of a stream, and {where} is {column[k][0]:g} "
            f"in all its {len(y)} rows: give a first part whose targets vary as later ones do, or scale y "
            "and set scale_target=False"
        )


def _check_units(fit: Fit, targets: Any, scaling: Any) -> None:
    """Refuse targets very far from those that the first fit standardized by; warn of other units."""
    if getattr(targets, "scale", None) is None:
        return
    y = np.asarray(fit.y, np.float64).reshape(len(fit.y), -1)
    missing = is_missing(fit.labels)
    columns = list(y.T) if missing is None else [x[~gone] for x, gone in zip(y.T, missing.T, strict=True)]
    columns = [x for x in columns if len(x)]
    with np.errstate(over="ignore"):
        sizes = np.array([np.sqrt(np.mean(np.square(x))) for x in columns])
        spread = np.array([np.std(x) for x in columns]) if scaling.shifts else sizes
    usual = max(np.median(np.abs(x)) for x in columns)  # whatever single ones are
    if usual > MOST_USUAL:
        raise ValueError(
            f"half of the targets are more than {usual:.3g} times as far from the mean as the deviation of "
            "those that the first fit was standardized by (scale_target=True): in these units nothing is "
            "learned. Begin anew with rows whose targets are like these, or scale y by constants and set "
            "scale_target=False"
        )
    found, varies = (
        sizes.max(),
        spread[np.array([np.ptp(x) for x in columns]) > 0],
    )  # parts of a stream may be constant
    if found > MOST_DEVIATIONS:
        told = f"are {found:.3g} times as large as"
    elif len(y) >= FEW and varies.size and varies.min() < LEAST_DEVIATION:
        told = f"vary {1 / varies.min():.3g} times less than"
    else:
        return
    warn_caller(
        f"targets {told} those that the first fit was standardized by (scale_target=True), and such fits "
        "learn slowly: begin anew with rows whose targets are like these, or scale y by constants and set "
        "scale_target=False",
        UserWarning,
    )


def standardize_inputs(fit: Fit, learn: "Callable[[], InputScaling | None]") -> None:
    """Let the network read inputs that are standardized as a first fit learns it."""
    estimator, shared = fit.estimator, fit_extras(fit.estimator).inputs
    if not fit.continuing:
        found = learn() if shared is None else shared.learned(learn)
        is_clipped = not fit.incremental and fit.given.y is not fit.given.X
        if found is not None:
            found = found.clipped() if is_clipped else found
            found = InputScaling(_begun_with(fit, "inputs", found.inputs))
        estimator._input_scaling = found
    scaling = estimator._input_scaling
    if scaling is None:
        return
    if fit.continuing and fit.incremental:
        scaling = estimator._input_scaling = scaling.followed(fit.X, SAMPLE)
    fit.unscaled, dtype = fit.X, fit.model.dtype
    fit.X = scaling.scaled(fit.X, dtype) if shared is None else shared.scaled(fit.unscaled, dtype, scaling)
    if fit.continuing:
        _check_input_units(fit.unscaled, scaling)
    if fit.given.y is fit.given.X:
        _reconstruct(fit, scaling)


def input_scaling(fit: Fit, rows: Any) -> InputScaling | None:
    """Return means and deviations of the rows that are trained on; members of an ensemble share them."""
    recipe, extras = fit.recipe, fit_extras(fit.estimator)
    weight = fit.row_weight
    if extras.inputs is not None and extras.inputs.of_members:
        rows = rows if isinstance(recipe.validation_split, (tuple, list)) else None
        weight = of_seen(fit.labels, fit.undrawn_weight, fit.dtype)
        weight = fit.estimator._weighted(recipe, fit.labels, weight, fit.incremental)
    weight = row_weights(weight)
    lengths, n_steps = lengths_of(fit.X), first_input(fit.X).shape[1:2]
    found = {}
    for name, (x, axis) in features_of(fit).items():
        steps = lengths if n_steps and x.shape[1:2] == n_steps else None
        found[name] = units_of(x, rows, weight, steps, axis, name)
    return InputScaling(found) if found else None


def features_of(fit: Fit) -> dict[str, tuple[Any, int | None]]:
    """Return the inputs of a first fit that are to be standardized, with the axis of their features."""
    recipe, inputs = fit.recipe, fit.estimator._inputs
    if not recipe.scale_inputs or fit.encoder is not None or recipe.architecture.is_trained:
        return {}
    named = fit.X if isinstance(fit.X, dict) else {"X": fit.X}
    whole = {} if inputs is None else inputs.integers if isinstance(fit.X, dict) else {"X": inputs.integers}
    first = next((each for each in fit.model.module.modules() if each._parameters), None)
    found = {}
    for name, x in named.items():
        if not whole.get(name):
            axis = feature_axis(x.shape, first)
            is_sequence = "lengths" in named and x.ndim == 2  # of numbers
            found[name] = x, None if is_sequence else axis
    return found


def _reconstruct(fit: Fit, scaling: InputScaling) -> None:
    """Let targets that are the inputs have the same units, where the loss allows it."""
    targets, allowed = fit.estimator._targets, fit.recipe.loss.scaling
    name = "X" if not isinstance(fit.X, dict) else next(name for name in fit.X if name != "lengths")
    if not fit.continuing and name in scaling.inputs and targets.task == "regression":
        targets.units = scaling.inputs[name] if allowed is not None and allowed.shifts else None
    if targets.units is not None:
        x = fit.X[name] if isinstance(fit.X, dict) else fit.X
        fit.y = targets.encode(fit.labels) if ops.is_sparse(x) else x


SAMPLE = 4096  # rows whose units are checked


def _check_input_units(X: Any, scaling: InputScaling) -> None:
    """Refuse inputs very far from those that the first fit standardized by; warn of other units."""
    for name, units in scaling.inputs.items():
        with np.errstate(over="ignore"):
            z = units.deviations((X[name] if isinstance(X, dict) else X)[:SAMPLE])
            z = np.where(np.isnan(z), 0.0, z)  # what is missing
            z = z if z.ndim == 2 else z.reshape(-1, 1)
            sizes = np.sqrt(np.mean(np.square(z), axis=0)) if len(z) else np.zeros(1)
        if not sizes.max() > MOST_DEVIATIONS:
            continue
        worst = int(sizes.argmax())
        usual = float(np.median(z, axis=0).max())
        where = f"feature {worst} of {name}" if z.shape[1] > 1 else name
        if usual > MOST_USUAL:
            raise ValueError(
                f"half of the values of {where} are more than {usual:.3g} times as far from the mean as the "
                "deviation of those that the first fit was standardized by (scale_inputs=True). Begin anew "
                "with rows like these, or scale X by constants and set scale_inputs=False"
            )
        warn_caller(
            f"{where} is {sizes.max():.3g} times as large as in the rows that the first fit was standardized "
            "by (scale_inputs=True), and such fits learn slowly: begin anew with rows like these, or scale X "
            "by constants and set scale_inputs=False",
            UserWarning,
        )


def check_calibration(fit: Fit) -> None:
    """Raise a ValueError if a fit cannot be calibrated as its estimator asks for."""
    if fit.recipe.calibrate is None:
        return
    asked, loss = f"calibrate={fit.recipe.calibrate!r}", fit.recipe.loss
    if fit.recipe.calibrate == CONFORMAL:
        _check_conformal(fit)
    elif not (loss.has_probabilities and hasattr(loss, "tempered")):
        raise ValueError(
            f"{asked} needs a loss with probabilities from logits, got {shown(loss)}: use 'log_loss', or set "
            "calibrate=None"
        )
    if fit.validation is None:
        raise ValueError(
            f"{asked} needs rows to validate on, and there are none: give X_val and y_val, set "
            "early_stopping=True or validation_split, with an optimizer that goes step by step; or set "
            "calibrate=None"
        )


CONFORMAL = "conformal"


def _check_conformal(fit: Fit) -> None:
    """Raise a ValueError for a fit without conformal predictions."""
    targets = fit.estimator._targets
    are_numbers = targets.task == "regression" and np.ndim(fit.labels) < 3 and targets.are_predicted
    has_a_label = targets.task in ("binary", "multiclass", "ordinal") and np.ndim(fit.labels) == 1
    if not (are_numbers or has_a_label):
        raise ValueError(
            "calibrate='conformal' needs one label a row, or numbers that are predicted as they are; got y "
            f"of shape {np.shape(fit.labels)} for {shown(fit.recipe.loss)}: set calibrate=None"
        )
    if not (are_numbers or fit.recipe.loss.has_probabilities):
        raise ValueError(f"calibrate='conformal' needs probabilities, and {shown(fit.recipe.loss)} has none")
    if fit.recipe.refit_on_all:
        raise ValueError("calibrate='conformal' needs rows that are not trained on: set refit_on_all=False")


def conformity_of(estimator: Any, rows: Rows) -> np.ndarray:
    """Return by how much held-out targets differ from their predictions, sorted."""
    X, y, weight = rows
    if weight is not None:
        counted = np.flatnonzero(np.asarray(on_host(weight)))
        X, y = taken_rows(X, counted), taken_rows(y, counted)
    targets, y = estimator._targets, np.asarray(on_host(y))
    if targets.task != "regression":
        probable = np.asarray(on_host(estimator.predict_proba(X)), np.float64)
        return np.sort(1.0 - probable[np.arange(len(y)), numbers_of(y.reshape(-1), targets.classes)])
    parts = on_host(estimator._predicted(X, "bounds", Bounds(estimator.model_.loss_function)))
    low, center, high = np.moveaxis(np.asarray(parts, np.float64), 1, 0)
    y = y.reshape(center.shape).astype(np.float64)
    there = ~np.isnan(y).any(axis=1)
    y, low, center, high = (each[there] for each in (y, low, center, high))
    with np.errstate(divide="ignore", invalid="ignore"):  # where bounds are the prediction
        found = np.fmax((center - y) / (center - low), (y - center) / (high - center))
    return np.sort(np.nan_to_num(found, nan=0.0, posinf=np.inf), axis=0)


def temperature_of(fit: Fit) -> Any:
    """Return the temperature for which the log loss of the held-out rows is smallest."""
    if fit.recipe.calibrate in (None, CONFORMAL) or fit.validation is None:
        return None
    model, batches = fit.model, fit.validation.batches
    with active(model.device, model.precision):
        parts = [batches.take(chosen).X for chosen, _ in batches.parts(None)]
        outputs = np.concatenate([to_host(predict_raw(model, part)) for part in parts]).astype(np.float64)
    y, weight = to_host(batches.y), None if batches.weight is None else to_host(batches.weight)
    loss: Any = fit.loss
    if weight is not None and 1 < weight.ndim < outputs.ndim:  # a weight for each position of a sequence
        outputs = outputs.reshape(-1, outputs.shape[-1])
        y, weight = y.reshape(-1), weight.reshape(-1)
    if not isinstance(loss, Columns):
        return best_temperature(loss, outputs, y, weight)
    each = enumerate(loss.parts(outputs))
    of_column = [weight] * y.shape[1] if weight is None or weight.ndim == 1 else weight.T
    return tuple(best_temperature(loss.loss, part, y[:, k], of_column[k]) for k, part in each)


class StoppingInParts(EarlyStopping):
    """Early stopping over calls of `partial_fit`, each of which is one epoch."""

    _ends = False

    def on_epoch_end(self, fit: FitView) -> Literal["stop"] | None:
        answer = super().on_epoch_end(fit)
        self._ends = answer is not None
        return answer

    def on_fit_end(self, fit: FitView) -> None:
        if self._ends or fit.failed:
            super().on_fit_end(fit)


MAY_CHANGE = ("max_iter", "verbose", "warm_start", "callbacks")  # of a fit that is resumed


class FitSource(Source):
    """Estimator and rows of a fit, or `rows`, all of which are trained on, as callbacks see them."""

    def __init__(self, fit: Fit, rows: Rows | None = None) -> None:
        self._fit, self._rows = fit, rows
        self.monitor = fit.monitor
        self.measured = fit.scoring.directions
        self._since = None if fit.compared is None else fit.compared.since

    @property
    def began(self) -> dict[str, Any]:
        fit, estimator = self._fit, self._fit.estimator
        found = {"random_state": fit.began.state(), "since": self._since}
        if fit.start is not None:
            found["start"] = fit.start
        if estimator._input_scaling is not None:
            found["inputs"] = {name: vars(each) for name, each in estimator._input_scaling.inputs.items()}
        if getattr(estimator._targets, "scale", None) is not None:
            found["targets"] = {"y": vars(Units(estimator._targets.mean, estimator._targets.scale))}
        return found

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
        if self._rows is not None:
            return self._rows
        given = self._fit.given.rows
        if fit_extras(self._fit.estimator).counts is not None:
            given = given._replace(sample_weight=self._fit.sample_weight)
        return _rows_of(given, self._fit.training.rows)

    def validation(self) -> Rows | None:
        given, held_out = self._fit.given, self._fit.held_out
        if held_out is None or self._rows is not None:
            return None
        return _rows_of(given.rows if given.X_val is None else given.validation_rows, held_out.rows)


def _rows_of(given: Rows, rows: Any) -> Rows:
    if rows is None:
        return given
    return Rows(*(taken_rows(array, rows) for array in given))


class Reductions(Callback):
    """Remembers after which updates plateaus have lowered the learning rate."""

    order = 1  # after what lowers it

    def __init__(self) -> None:
        self.found_: list[tuple[int, int]] = []

    def on_epoch_end(self, fit: FitView) -> None:
        self.found_.append((fit.step, fit.model.progress.reductions))

    def state(self) -> dict[str, Any]:
        return {"found": [list(pair) for pair in self.found_]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.found_ = [(int(step), int(count)) for step, count in state["found"]]


class Repeat(Callback):
    """Lowers the learning rate after as many updates as in another fit."""

    def __init__(self, reductions: Reductions) -> None:
        self.reductions = reductions

    def on_epoch_end(self, fit: FitView) -> None:
        counts = [count for step, count in self.reductions.found_ if step <= fit.step]
        if counts:
            fit.model.progress = fit.model.progress._replace(reductions=counts[-1])


class SecondTraining:
    """Trains a model anew on all rows."""

    def __init__(self, fit: Fit) -> None:
        self._model, self.noted = fit.model.copy(), Reductions()
        if fit.continuing:
            fit.start = model_state(self._model)
        if fit.saved is not None and "start" in fit.saved.state["began"]:
            fit.start = fit.saved.state["began"]["start"]
            load_model_state(self._model, fit.start, fit.saved.path)

    def run(self, fit: Fit, callbacks: Sequence[Callback]) -> None:
        """Train for as many updates as were best, and let the fit have the result."""
        rows, batches, history = _all_rows(fit), fit.batches, History()
        everything = rows.batches(self._model, batches.size)
        join_leftover(self._model.materialize(everything.X), everything)
        n_updates = fit.stopping.best_step_
        settings = fit.settings._replace(
            max_iter=-(-n_updates // everything.n_batches),
            max_steps=n_updates,
            planned_steps=fit.settings.max_iter * batches.n_batches,
        )
        trained = copy.copy(fit)
        trained.model = self._model
        score = new_score_of(trained, rows, everything)
        shown = [*callbacks, Repeat(self.noted)]
        outcome = train(self._model, everything, history, settings, score, callbacks=shown)
        if not outcome.interrupted:
            fit.model, fit.refit_history = self._model, history


def _all_rows(fit: Fit) -> DataSet:
    """Return all rows of X, and those of X_val."""
    X, held_out = fit.training._replace(rows=None), fit.held_out
    scaled = fit.training.unscaled is not None
    if held_out is None or fit.given.X_val is None:
        return X
    weights = (X.weight, held_out.weight), (X.sample_weight, held_out.sample_weight)
    return DataSet(
        _joined(X.X, held_out.X),
        _joined(X.labels, held_out.labels),
        _joined_weights(*weights[1], X.n_samples, held_out.n_samples),
        _joined(X.y, held_out.y),
        _joined_weights(*weights[0], X.n_samples, held_out.n_samples),
        unscaled=_joined(X.unscaled, held_out.unscaled) if scaled else None,
    )


def _joined(first: Any, second: Any) -> Any:
    """Return the rows of two arrays, on the device of the first."""
    if isinstance(first, Mapping):
        return {name: _joined(array, second[name]) for name, array in first.items()}
    if ops.is_sparse(first) and isinstance(first.data, np.ndarray):
        return scipy.sparse.vstack([first, second], format="csr")
    if isinstance(first, ComputedRows):
        first = first[:]
    with active(device_of(first)):
        return namespace(first).concatenate([first, second])


def _joined_weights(first: Any, second: Any, n_first: int, n_second: int) -> Any:
    if first is None and second is None:
        return None
    dtype = (second if first is None else first).dtype
    ones = [np.ones(n, dtype) for n in (n_first, n_second)]
    given = zip((first, second), ones, strict=True)
    return np.concatenate([one if weight is None else weight for weight, one in given])


DEFAULT_BATCH = 200


class Trainer:
    """Training on the rows of a fit: in this base class by this process, on those that were given."""

    def take_rows(self, fit: Fit) -> None:
        """Set the rows to train and to validate on, and what is measured there."""
        model, recipe = fit.model, fit.recipe
        self.measure(fit)
        rows, held_out = fit.split if fit.encoder is not None else _split(fit)
        standardize_inputs(fit, lambda: input_scaling(fit, rows))
        standardize(fit, rows)
        fit.training, fit.held_out = data_sets(fit, rows, held_out)
        fit.batches = fit.training.batches(model, self.batch_size(recipe.batch_size, fit.training.n_samples))
        if fit.held_out is not None:
            kept = fit.held_out.batches(model, _rows_at_once(fit.held_out, model))
            fit.validation = Validation(kept, new_score_of(fit, fit.held_out, kept))
        check_calibration(fit)

    def train(self, fit: Fit, callbacks: Sequence[Callback]) -> Outcome:
        """Train the model in place."""
        return train(
            fit.model,
            fit.batches,
            fit.history,
            fit.settings,
            new_score_of(fit, fit.training, fit.batches),
            fit.validation,
            callbacks,
            self.source(fit),
            fit.saved,
        )

    def n_rows(self, given: FitArguments) -> int:
        """Return how many rows a fit is given."""
        X = given.X.X if isinstance(given.X, Sequences) else given.X
        if not hasattr(X, "shape") and isinstance(X, dict):  # a sparse matrix can be a dict
            return int(_num_samples(first_input(X))) if X else 0
        return int(_num_samples(X))

    def measure(self, fit: Fit) -> None:
        """Set what is measured in each epoch, and which of it decides when to stop."""
        scoring = fit.recipe.scoring
        if scoring is None and not getattr(fit.estimator._targets, "are_predicted", True):
            scoring = LOSS
        fit.scoring = check_scoring(scoring, type(fit.estimator).__name__)
        fit.monitor = monitored(fit)

    def standardize(self, fit: Fit, y: Any) -> None:
        """Let a first fit with `scale_target` train on targets standardized as others are."""
        fit.y, fit.weight = y, None
        standardize(fit)
        fit.y = fit.estimator._targets.encode(fit.labels)

    def source(self, fit: Fit, rows: Rows | None = None) -> Source:
        """Return what callbacks see of the estimator and its rows."""
        return FitSource(fit, rows)

    def batch_size(self, batch_size: int | str, n_samples: int) -> int:
        """Return how many rows a step has, at most all."""
        if isinstance(batch_size, str):
            return min(DEFAULT_BATCH, n_samples)
        if batch_size > n_samples:
            warn_caller(
                f"Got `batch_size` less than 1 or larger than sample size: {batch_size} rows of {n_samples}. "
                "It is going to be clipped.",
                UserWarning,
            )
        return int(min(batch_size, n_samples))


def _split(fit: Fit) -> tuple[Any, Any]:
    def binary() -> Any:
        return fit.y if fit.estimator._targets.task == "binary" else None

    return split_rows(fit, first_input(fit.X), fit.labels, binary, fit.model.random_state)


def _rows_at_once(part: DataSet, model: Model) -> int:
    """Return how many rows are predicted at once."""
    if part.dtypes is None:
        return chunk_rows_of(model, part.X)
    return chunk_rows(model, row_shapes(part.X), part.dtypes)
