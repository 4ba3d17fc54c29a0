"""The training of a fit: scaled targets, updates, a second training on all rows, and calibration."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse
from sklearn.utils.validation import _num_samples

from sknet import ops
from sknet._constraints import shown
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, EarlyStopping, FitView
from sknet.callbacks._callback import MANY, Rows
from sknet.device import active, device_of, namespace, to_host
from sknet.engine import Batches, History, Model
from sknet.engine._batches import ComputedRows, join_leftover
from sknet.engine._fit import Source, load_model_state, model_state
from sknet.engine._inputs import first_input, row_shapes, row_weights
from sknet.engine._loop import Course, Outcome, Validation, train
from sknet.engine._network import chunk_rows, chunk_rows_of, predict_raw
from sknet.estimators._architecture import Perceptron
from sknet.estimators._checks import is_missing, lengths_of, taken_rows
from sknet.estimators._fit import (
    DataSet,
    FitArguments,
    Fitted,
    Network,
    Recipe,
    Request,
    Training,
)
from sknet.estimators._heads import best_temperature
from sknet.estimators._inputs import Sequences, on_host, with_offset
from sknet.estimators._network import weights_of
from sknet.estimators._offset import split_outputs, standardize_targets
from sknet.estimators._scaling import InputScaling, Units, feature_axis, units_of
from sknet.estimators._targets import Bounds, numbers_of
from sknet.estimators._validation import check_some_weight, data_sets, new_score_of, split_rows
from sknet.exceptions import LoadError
from sknet.losses import Loss
from sknet.losses._wrappers import Columns, FunctionLoss, WithOffset, without_offset

MOST_DEVIATIONS = 10.0  # of later targets, in units of the first ones: beyond, fits take many times as long
MOST_USUAL = 100.0  # of half of the later targets: beyond, usual numbers of passes learn nothing
LEAST_DEVIATION = 1 / 30  # of later targets: below, errors that matter to them are small ones of the fit
FEW = 10  # rows, whose deviation tells little


def standardize(network: Network, rows: DataSet, training: Any = None) -> tuple[DataSet, Loss]:
    """Return rows and loss of a first fit with `scale_target` for targets that are standardized."""
    # `training` are the rows that they are standardized by; a fit that continues has standardized targets.
    request = network.request
    recipe, targets = request.recipe, request.estimator._targets
    scaling = recipe.loss.scaling
    if request.continuing:
        check_target_units(_own_part(rows, scaling, network.loss), targets, scaling)
    if not recipe.scale_target or request.continuing:
        if isinstance(recipe.loss, FunctionLoss) and targets.task == "regression" and not request.continuing:
            _warn_of_units(rows.y)
        return rows, network.loss
    assert scaling is not None
    if request.incremental:
        _check_first_part(_own_part(rows, scaling, network.loss), targets, scaling)
    whole = rows.y, rows.weight, rows.offset
    y, weight, offset = (x if x is None or training is None else x[training] for x in whole)
    units = standardize_targets(targets, recipe.loss, y, weight, offset)
    if units is not None:
        units = _begun_with(request, "offset", {"y": units})["y"]
    begun = _begun_with(request, "targets", {"y": Units(targets.mean, targets.scale)})["y"]
    targets.mean, targets.scale = begun.mean, begun.scale
    targets.check_reported(recipe.loss)
    loss = targets.trained(recipe.loss)
    if isinstance(network.loss, WithOffset) and units is not None:
        loss = network.loss.around(loss, units.mean, units.scale)
    network.model.adopt(recipe.optimizer, loss, recipe.alpha)
    return rows._replace(y=targets.encode(rows.y)), loss


def _warn_of_units(y: Any) -> None:
    """Warn of targets that are far from the outputs of a network which begins to train."""
    y = to_host(y).astype(np.float64)
    mean, deviation = np.abs(y.mean(axis=0)).max(), y.std(axis=0)
    if mean > FAR_TARGETS or deviation.max() > FAR_TARGETS or 0 < deviation.min() < 1 / FAR_TARGETS:
        warn_caller(
            "a function as the loss does not say how it changes with the unit of y, so y is not "
            f"standardized: it has a mean of {mean:.3g} and a deviation of {deviation.max():.3g}. Scale y, "
            "as sklearn.compose.TransformedTargetRegressor(regressor, transformer=StandardScaler()) does, "
            "or derive the loss from sknet.losses.Loss and set its attribute `scaling`",
            UserWarning,
        )


def _begun_with(request: Request, what: str, learned: Mapping[str, Units]) -> Mapping[str, Units]:
    """Return the units that a resumed fit has begun with, which an earlier fit may have learned."""
    # If they are of other features or of dense rows, the data are others, which is said when they are
    # compared.
    if request.saved is None:
        return learned
    path, state = request.saved
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


def _own_part(rows: DataSet, scaling: Any, loss: Loss) -> DataSet:
    """Return rows with targets less their offset, where that is in the unit of targets."""
    if isinstance(loss, WithOffset) and scaling is not None and scaling.shifts:
        return rows._replace(y=rows.y - loss.in_units(rows.offset))
    return rows


def _known_columns(rows: DataSet, targets: Any, scaling: Any) -> list[tuple[str, np.ndarray, bool]]:
    """Return known targets in units, by column or of all columns of arrays, and whether they are shifted."""
    y, missing = np.asarray(rows.y, np.float64), is_missing(rows.labels)
    y = y if y.ndim == 2 else y.reshape(-1, 1)
    y = y if missing is None else np.where(missing.reshape(y.shape), np.nan, y)
    found = []
    for name, part, shifts in targets.scaled_columns(y, scaling):
        for k, x in enumerate(part.T):
            where = name if part.shape[1] == 1 else f"column {k} of {name}"
            found.append((where, x if missing is None else x[~np.isnan(x)], shifts))
    return found


def _check_first_part(rows: DataSet, targets: Any, scaling: Any) -> None:
    """Raise a ValueError if the first part of a stream does not tell the unit of the others."""
    for where, x, shifts in _known_columns(rows, targets, scaling):
        if x.size and (np.ptp(x) != 0 if shifts else x.any()):
            continue
        found = f"{x[0]:g}" if x.size else "missing"
        raise ValueError(
            f"scale_target=True standardizes by the first part of a stream, and {where} is {found} "
            f"in all its {len(rows.y)} rows: give a first part whose targets vary as later ones do, or scale "
            "y and set scale_target=False"
        )


def check_target_units(rows: DataSet, targets: Any, scaling: Any) -> None:
    """Refuse targets very far from those that the first fit standardized by; warn of other units."""
    if getattr(targets, "scale", None) is None:
        return
    if scaling is None:
        raise ValueError(
            "the fit that this one continues has standardized its targets, and the loss of this one does not "
            "say by its scaling how to: give the same loss, or call fit with scale_target=False"
        )
    known = [(x, shifts) for _, x, shifts in _known_columns(rows, targets, scaling) if len(x)]
    columns, shifted = zip(*known, strict=True)
    with np.errstate(over="ignore"):
        sizes = np.array([np.sqrt(np.mean(np.square(x))) for x in columns])
        spread = np.where(shifted, [np.std(x) for x in columns], sizes)
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
    elif len(rows.y) >= FEW and varies.size and varies.min() < LEAST_DEVIATION:
        told = f"vary {1 / varies.min():.3g} times less than"
    else:
        return
    warn_caller(
        f"targets {told} those that the first fit was standardized by (scale_target=True), and such fits "
        "learn slowly: begin anew with rows whose targets are like these, or scale y by constants and set "
        "scale_target=False",
        UserWarning,
    )


def standardize_inputs(network: Network, learn: "Callable[[], InputScaling | None]") -> DataSet:
    """Return the rows of a fit with inputs that are standardized as the first fit learns it."""
    request, rows = network.request, network.rows
    estimator, shared, is_own = request.estimator, request.extras.inputs, request.given.y is request.given.X
    if not request.continuing:
        found = learn() if shared is None else shared.learned(learn)
        if found is not None:
            found = found.clipped() if not (request.incremental or is_own) else found
            found = InputScaling(_begun_with(request, "inputs", found.inputs))
        estimator._input_scaling = found
    scaling = estimator._input_scaling
    if scaling is None:
        return rows
    X, dtype = rows.X, network.model.dtype
    if request.continuing and request.incremental:
        scaling = estimator._input_scaling = scaling.followed(X, SAMPLE)
    scaled = scaling.scaled(X, dtype) if shared is None else shared.scaled(X, dtype, scaling)
    if request.continuing:
        check_input_units(X, scaled, scaling)
    rows = rows._replace(X=scaled, unscaled=X)
    return _reconstructed(request, rows, scaling) if is_own else rows


def input_scaling(network: Network, training: Any) -> InputScaling | None:
    """Return means and deviations of the rows that are trained on; members of an ensemble share them."""
    request, rows = network.request, network.rows
    recipe, shared, X, weight = request.recipe, request.extras.inputs, rows.X, rows.sample_weight
    if shared is not None and shared.of_members:
        training = training if isinstance(recipe.validation_split, (tuple, list)) else None
        weight = network.data.undrawn_weight
    weight = row_weights(weights_of(request, X, rows.labels, weight))
    if training is not None and weight is not None:
        check_some_weight(weight[training], "the training rows")
    lengths, n_steps = lengths_of(X), first_input(X).shape[1:2]
    found = {}
    for name, (x, axis) in features_of(network).items():
        steps = lengths if n_steps and x.shape[1:2] == n_steps else None
        found[name] = units_of(x, training, weight, steps, axis, name)
    return InputScaling(found) if found else None


def features_of(network: Network) -> dict[str, tuple[Any, int | None]]:
    """Return the inputs of a first fit that are to be standardized, with the axis of their features."""
    recipe, inputs, X = network.request.recipe, network.request.estimator._inputs, network.rows.X
    if not recipe.scale_inputs or network.data.table is not None or recipe.architecture.is_trained:
        return {}
    named = X if isinstance(X, dict) else {"X": X}
    whole = {} if inputs is None else inputs.integers if isinstance(X, dict) else {"X": inputs.integers}
    first = next((each for each in network.model.module.modules() if each._parameters), None)
    found = {}
    for name, x in named.items():
        if not whole.get(name):
            axis = feature_axis(x.shape, first)
            is_sequence = "lengths" in named and x.ndim == 2  # of numbers
            found[name] = x, None if is_sequence else axis
    return found


def _reconstructed(request: Request, rows: DataSet, scaling: InputScaling) -> DataSet:
    """Return rows whose targets, which are the inputs, have the same units, where the loss allows it."""
    targets, allowed, X = request.estimator._targets, request.recipe.loss.scaling, rows.X
    name = "X" if not isinstance(X, dict) else next(name for name in X if name != "lengths")
    if not request.continuing and name in scaling.inputs and targets.task == "regression":
        targets.units = scaling.inputs[name] if allowed is not None and allowed.shifts else None
    if targets.units is None:
        return rows
    x = X[name] if isinstance(X, dict) else X
    return rows._replace(y=targets.encode(rows.labels) if ops.is_sparse(x) else x)


SAMPLE = 4096  # rows whose units are checked


def check_input_units(X: Any, scaled: Any, scaling: InputScaling) -> None:
    """Refuse inputs very far from those that the first fit standardized by; warn of other units."""
    for name, units in scaling.inputs.items():
        x = X[name] if isinstance(X, dict) else X
        if units.are_near(x, scaled[name] if isinstance(X, dict) else scaled, MOST_DEVIATIONS):
            continue
        with np.errstate(over="ignore"):
            z = units.deviations(x[:SAMPLE])
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


def check_calibration(network: Network, validation: Validation | None) -> None:
    """Raise a ValueError if a fit cannot be calibrated as its estimator asks for."""
    recipe = network.request.recipe
    if recipe.calibrate is None:
        return
    asked, loss = f"calibrate={recipe.calibrate!r}", recipe.loss
    if recipe.calibrate == CONFORMAL:
        _check_conformal(network)
    elif not (loss.has_probabilities and hasattr(loss, "tempered")):
        raise ValueError(
            f"{asked} needs a loss with probabilities from logits, got {shown(loss)}: use 'log_loss', or set "
            "calibrate=None"
        )
    if validation is None:
        raise ValueError(
            f"{asked} needs rows to validate on, and there are none: give X_val and y_val, set "
            "early_stopping=True or validation_split, with an optimizer that goes step by step; or set "
            "calibrate=None"
        )


CONFORMAL = "conformal"


def _check_conformal(network: Network) -> None:
    """Raise a ValueError for a fit without conformal predictions."""
    request, labels = network.request, network.rows.labels
    targets, loss = request.estimator._targets, request.recipe.loss
    are_numbers = targets.task == "regression" and np.ndim(labels) < 3 and targets.are_predicted
    has_a_label = targets.task in ("binary", "multiclass", "ordinal") and np.ndim(labels) == 1
    if not (are_numbers or has_a_label):
        raise ValueError(
            "calibrate='conformal' needs one label a row, or numbers that are predicted as they are; got y "
            f"of shape {np.shape(labels)} for {shown(loss)}: set calibrate=None"
        )
    if not (are_numbers or loss.has_probabilities):
        raise ValueError(f"calibrate='conformal' needs probabilities, and {shown(loss)} has none")
    if request.recipe.refit_on_all:
        raise ValueError("calibrate='conformal' needs rows that are not trained on: set refit_on_all=False")


def conformity_of(estimator: Any, rows: Rows, offset: Any = None) -> np.ndarray:
    """Return by how much held-out targets differ from their predictions, sorted."""
    X, y, weight = with_offset(rows.X, offset), rows.y, rows.sample_weight
    if weight is not None:
        weight = np.asarray(on_host(weight))
        counted = np.flatnonzero(weight.reshape(len(weight), -1).all(axis=1))
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


def temperature_of(training: Training) -> Any:
    """Return the temperature for which the log loss of the held-out rows is smallest."""
    if training.request.recipe.calibrate in (None, CONFORMAL) or training.validation is None:
        return None
    model, batches = training.network.model, training.validation.batches
    with active(model.device, model.precision):
        parts = [batches.take(chosen).X for chosen, _ in batches.parts(None)]
        outputs = np.concatenate([to_host(predict_raw(model, part)) for part in parts]).astype(np.float64)
    y, weight = to_host(batches.y), None if batches.weight is None else to_host(batches.weight)
    loss: Any = without_offset(training.loss)
    offset, y = split_outputs(training.loss, np.zeros_like(outputs), y)
    if weight is not None and 1 < weight.ndim < outputs.ndim:  # a weight for each position of a sequence
        outputs, offset = (z.reshape(-1, outputs.shape[-1]) for z in (outputs, offset))
        y, weight = y.reshape(-1), weight.reshape(-1)
    if not isinstance(loss, Columns):
        return best_temperature(loss, outputs, y, weight, offset)
    each = enumerate(zip(loss.parts(outputs), loss.parts(offset), strict=True))
    of_column = [weight] * y.shape[1] if weight is None or weight.ndim == 1 else weight.T
    return tuple(best_temperature(loss.loss, z, y[:, k], of_column[k], own) for k, (z, own) in each)


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


FIRST = "first_rate"
MAY_CHANGE = ("max_iter", "verbose", "warm_start", "callbacks")  # of a fit that is resumed


class FitSource(Source):
    """Estimator and rows of a fit, or `rows`, all of which are trained on, as callbacks see them."""

    def __init__(self, training: Training, rows: Rows | None = None) -> None:
        self._training, self._rows, request = training, rows, training.request
        self._request, network = request, training.network
        self.monitor, self.measured = network.monitor, network.scoring.directions

    @property
    def began(self) -> dict[str, Any]:
        training, estimator = self._training, self._request.estimator
        compared, began = training.compared, training.network.began
        assert began is not None  # as there is a callback that asks
        found = {"random_state": began.state(), "since": None if compared is None else compared.since}
        if training.start is not None:
            found["start"] = training.start
        if self._request.recipe.first_rate:
            found[FIRST] = self._request.recipe.first_rate
        if estimator._input_scaling is not None:
            found["inputs"] = {name: vars(each) for name, each in estimator._input_scaling.inputs.items()}
        if getattr(estimator._targets, "scale", None) is not None:
            found["targets"] = {"y": vars(Units(estimator._targets.mean, estimator._targets.scale))}
        loss = training.loss
        if isinstance(loss, WithOffset):
            found["offset"] = {"y": vars(Units(np.asarray(loss.center), np.asarray(loss.scale)))}
        return found

    def parameters(self) -> dict[str, Any]:
        estimator = self._request.estimator
        params = estimator.get_params(deep=False)
        told = {name: value for name, value in params.items() if name not in MAY_CHANGE}
        classes = getattr(estimator._targets, "classes", None)
        return {"estimator": type(estimator), **told, "classes_": classes}

    def estimator(self, epoch: int) -> Any:
        estimator = self._request.estimator
        snapshot = object.__new__(type(estimator))
        snapshot.__dict__.update(estimator.__dict__)
        snapshot._take(Fitted(self._training, self._training.network.model, epoch))
        return snapshot

    def training(self) -> Rows:
        if self._rows is not None:
            return self._rows
        given, training = self._request.given.rows, self._training.training
        if self._request.extras.counts is not None:
            given = given._replace(sample_weight=training.sample_weight)
        return _rows_of(given, training.rows)

    def validation(self) -> Rows | None:
        given, held_out = self._request.given, self._training.held_out
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

    def epochs_ahead(self) -> int:
        return MANY  # what lowers the rate ends a block

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

    def __init__(self, training: Training) -> None:
        self._model, self.noted = training.network.model.copy(), Reductions()
        request = training.request
        self.start = model_state(self._model) if request.continuing else None
        if request.saved is not None and "start" in request.saved.state["began"]:
            self.start = request.saved.state["began"]["start"]
            load_model_state(self._model, self.start, request.saved.path)

    def run(self, fitted: Fitted, callbacks: Sequence[Callback]) -> Fitted:
        """Train for as many updates as were best, and return the result in the place of the first one."""
        training, history = fitted.training, History()
        rows, batches, request = _all_rows(training), training.batches, training.request
        everything = sampled(request, rows, self._model, batches.size)
        join_leftover(self._model.materialize(everything.X), everything)
        n_updates = training.stopping.best_step_
        settings = request.settings._replace(
            max_iter=-(-n_updates // everything.n_batches),
            max_steps=n_updates,
            planned_steps=request.settings.max_iter * batches.n_batches,
        )
        score = new_score_of(training.network, self._model, rows, everything)
        shown = [*callbacks, Repeat(self.noted)]
        outcome = train(self._model, everything, history, settings, score, callbacks=shown)
        if outcome.interrupted:
            return fitted
        return fitted._replace(model=self._model, refit_history=history)


def _all_rows(training: Training) -> DataSet:
    X, held_out = training.training._replace(rows=None), training.held_out
    if held_out is None or training.request.given.X_val is None:
        return X
    weights = (X.weight, held_out.weight), (X.sample_weight, held_out.sample_weight)
    return DataSet(
        _joined(X.X, held_out.X),
        _joined(X.labels, held_out.labels),
        _joined_weights(*weights[1], X.n_samples, held_out.n_samples),
        _joined(X.y, held_out.y),
        _joined_weights(*weights[0], X.n_samples, held_out.n_samples),
        unscaled=None if X.unscaled is None else _joined(X.unscaled, held_out.unscaled),
        offset=None if X.offset is None else _joined(X.offset, held_out.offset),
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


def sampled(request: Request, part: DataSet, model: Model, size: int) -> Batches:
    """Return rows in batches of this `size`, of which an epoch draws as the parameter `sampler` says."""
    sampler, targets = request.recipe.sampler, request.estimator._targets
    if sampler is None:
        return part.batches(model, size)
    labels, weight = part.chosen(part.labels), part.weight
    if sampler == "weight":
        if weight is None:
            raise ValueError("sampler='weight' draws rows by weights: give sample_weight or class_weight")
        of_rows = row_weights(weight)
        shares = part.chosen(of_rows)
        # Of weights of targets, which are 0 where one is missing, those within a row remain.
        rest = None if weight.ndim < 2 else (weight.T / np.where(of_rows == 0, 1.0, of_rows)).T
        part = part._replace(weight=rest)
    elif sampler == "balanced":
        if targets.task not in ("binary", "multiclass", "ordinal") or np.ndim(labels) > 1:
            raise ValueError(
                "sampler='balanced' draws classes equally often, and needs one label a row: give a function "
                "(y, sample_weight) that returns a number for each row"
            )
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        shares = 1.0 / counts[codes]
    else:
        shares = sampler(request.estimator._given(labels), part.chosen(part.sample_weight))
    batches = part.batches(model, size)
    batches.draw_by(_checked_shares(shares, part.n_samples, sampler))
    return batches


def _checked_shares(shares: Any, n_samples: int, sampler: Any) -> Any:
    try:
        found = np.asarray(shares, np.float64)
        got = f"shape {found.shape}"
    except (TypeError, ValueError):
        found, got = np.zeros(()), shown(shares)
    if found.shape == (n_samples,):
        wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
        if not len(wrong) and found.any():
            return found
        got = f"{found[wrong[0]]:g} at index {wrong[0]}" if len(wrong) else "zeros only"
    raise ValueError(
        f"sampler={shown(sampler)} must give a finite number of 0 or more for each of {n_samples} rows, some "
        f"above 0; got {got}"
    )


DEFAULT_BATCH = 200
FAR_TARGETS = 10.0  # of targets that are not standardized, which 200 small batches may not reach
MANY_ROWS, LEAST_BATCH, BATCHES = 5000, 64, 150  # of a table for a perceptron (docs/ablation.md)


Divided = tuple[Loss, DataSet, DataSet | None, Batches, Validation | None]  # as `Training` has them


class Trainer:
    """Training on the rows of a fit: in this base class by this process, on those that were given."""

    course: Course | None = None  # that the next part of a stream may begin again

    def divide(self, network: Network) -> Divided:
        """Return the loss, and the rows to train and to validate on, as the network reads them."""
        request, model = network.request, network.model
        table = network.data.table
        rows, held_out_rows = _split(network) if table is None else table.split
        whole = standardize_inputs(network, lambda: input_scaling(network, rows))
        whole, loss = standardize(network, whole, rows)
        training, held_out = data_sets(network, loss, whole, rows, held_out_rows)
        size = self.batch_size(request.recipe, training.n_samples)
        batches, validation = sampled(request, training, model, size), None
        if held_out is not None:
            kept = held_out.batches(model, _rows_at_once(held_out, model))
            score = new_score_of(network, model, held_out, kept, is_training=False)
            validation = Validation(kept, score)
        check_calibration(network, validation)
        return loss, training, held_out, batches, validation

    def train(self, training: Training, callbacks: Sequence[Callback], lasts: bool = False) -> Outcome:
        """Train the model in place; keep what is set up for the next part of a stream, if it shall last."""
        request, model = training.request, training.network.model
        course = Course(
            model,
            training.batches,
            training.history,
            request.settings,
            new_score_of(training.network, model, training.training, training.batches),
            training.validation,
            callbacks,
            FitSource(training),
            request.saved,
        )
        outcome, lasts = course.run(lasts)
        self.course = course if lasts else None
        return outcome

    def n_rows(self, given: FitArguments) -> int:
        X = given.X.X if isinstance(given.X, Sequences) else given.X
        if type(X) is np.ndarray and X.ndim:
            return len(X)
        if not hasattr(X, "shape") and isinstance(X, dict):  # a sparse matrix can be a dict
            return int(_num_samples(first_input(X))) if X else 0
        return int(_num_samples(X))

    def total_weight(self, given: FitArguments) -> float:
        """Return the total weight of the rows of a fit, 1 each without weights; weights are checked later."""
        n_rows, weight = self.n_rows(given), given.sample_weight
        if weight is None:
            return n_rows
        try:
            array = np.abs(np.asarray(on_host(weight), np.float64))
        except (TypeError, ValueError):
            return n_rows
        total = float(array.sum()) if array.ndim == 1 else n_rows  # those of targets are of no rows
        return total if 0 < total < np.inf else n_rows

    def batch_size(self, recipe: Recipe, n_samples: int) -> int:
        """Return the number of rows of a step, at most all."""
        batch_size = recipe.batch_size
        if not isinstance(batch_size, str) and batch_size > n_samples:
            warn_caller(
                f"Got `batch_size` less than 1 or larger than sample size: {batch_size} rows of {n_samples}. "
                "It is going to be clipped.",
                UserWarning,
            )
        return rows_in_step(recipe, n_samples)


def rows_in_step(recipe: Recipe, n_samples: int) -> int:
    """Return the number of rows of a step, at most all."""
    batch_size = recipe.batch_size
    if isinstance(batch_size, str):
        is_ours = recipe.strict and isinstance(recipe.architecture, Perceptron)
        is_large = is_ours and n_samples >= MANY_ROWS
        batch_size = max(LEAST_BATCH, n_samples // BATCHES) if is_large else DEFAULT_BATCH
        batch_size = min(batch_size, DEFAULT_BATCH)
    return int(min(batch_size, n_samples))


def _split(network: Network) -> tuple[Any, Any]:
    request, rows = network.request, network.rows

    def binary() -> Any:
        return rows.y if request.estimator._targets.task == "binary" else None

    return split_rows(request, first_input(rows.X), rows.labels, binary, network.model.random_state)


def _rows_at_once(part: DataSet, model: Model) -> int:
    """Return how many rows are predicted at once."""
    if part.dtypes is None:
        return chunk_rows_of(model, part.X)
    return chunk_rows(model, row_shapes(part.X), part.dtypes)
