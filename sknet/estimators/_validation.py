"""The validation of a fit: on which rows, what is measured there, and what decides when to stop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from sklearn.utils.validation import check_consistent_length

from sknet.callbacks.extend import Rows, naming_classes
from sknet.device import active, device_of
from sknet.engine import Batches, History, Model, Score
from sknet.engine.extend import Gathered, each_input, first_input, take_rows
from sknet.estimators._company import counts_of
from sknet.estimators._in_training import in_training
from sknet.estimators._input import check_weights
from sknet.estimators._network import checked_inputs
from sknet.estimators._padding import without_padding
from sknet.estimators._scoring import HELD_OUT, LOSS, SCORE, evaluated
from sknet.estimators._splitting import check_validation_split, given_split, held_out_fraction
from sknet.losses import SquaredError
from sknet.persistence import digest

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = [
    "Compared",
    "DataSet",
    "Given",
    "check_given",
    "data_sets",
    "monitored",
    "new_score_of",
    "split_rows",
]

FEWEST = 2  # rows of a validation: R2 of a single one is not defined


class Given(NamedTuple):
    """The arguments of `fit`, as they came in."""

    X: Any
    y: Any
    sample_weight: Any = None
    X_val: Any = None
    y_val: Any = None
    sample_weight_val: Any = None
    groups: Any = None

    @property
    def rows(self) -> Rows:
        """X, y and their weights."""
        return Rows(self.X, self.y, self.sample_weight)

    @property
    def validation_rows(self) -> Rows:
        """X_val, y_val and their weights."""
        return Rows(self.X_val, self.y_val, self.sample_weight_val)


class DataSet(NamedTuple):
    """Rows, as a user gave them and as a loss reads them."""

    X: Any
    labels: Any
    sample_weight: Any
    y: Any
    weight: Any
    rows: Any = None
    dtypes: Any = None

    @property
    def n_samples(self) -> int:
        """How many rows count."""
        return len(self.y) if self.rows is None else len(self.rows)

    def batches(self, model: Model, size: int) -> Batches:
        """Return the rows in batches of this `size`, ready for a model."""
        return Batches(self.X, self.y, self.weight, size, model.dtype, model.device, self.rows, self.dtypes)

    def chosen(self, array: Any, among: Any = None) -> Any:
        """Return the rows of an array that count, or some `among` them; None stays None."""
        rows = self.rows if among is None else among if self.rows is None else self.rows[among]
        if array is None or rows is None:
            return array

        def taken(each: Any) -> Any:
            with active(device_of(each)):
                return take_rows(each, rows)

        return each_input(taken, array)

    def digests(self) -> list[Any]:
        """Return digests of inputs, targets and weights."""
        chosen = [self.chosen(array) for array in (self.X, self.y, self.weight)]
        return [None if array is None else each_input(digest, array) for array in chosen]


@dataclass(frozen=True)
class Compared:
    """Since when the epochs of a history can be compared: they have one monitor and one validation."""

    monitor: str
    higher_is_better: bool
    digests: list[Any]
    since: int

    def is_like(self, other: "Compared") -> bool:
        """Tell whether another fit compares by the same number on the same rows."""
        return replace(self, since=other.since) == other

    def best_epoch(self, history: History) -> int | None:
        """Return the epoch of a history, from 1, that was best; None if no number is finite."""
        values = np.array(history.get(self.monitor, [])[self.since :])
        values = np.where(np.isfinite(values), values if self.higher_is_better else -values, -np.inf)
        return self.since + 1 + int(values.argmax()) if np.isfinite(values).any() else None


# -- arguments -------------------------------------------------------------------------------------------


def check_given(fit: "Fit") -> None:
    """Raise a ValueError for arguments and parameters that contradict each other."""
    given, recipe, caller = fit.given, fit.recipe, type(fit.estimator).__name__
    check_validation_split(recipe.validation_split, caller)
    for name, partner in (("X_val", "y_val"), ("y_val", "X_val"), ("sample_weight_val", "X_val")):
        if getattr(given, name) is not None and getattr(given, partner) is None:
            raise ValueError(f"{name} is given without {partner}: a validation needs inputs and targets")
    if given.X_val is not None and recipe.validation_split is not None:
        raise ValueError(
            "X_val and validation_split are both given, and each says which rows to validate on: set "
            "validation_split=None, or call fit without X_val"
        )
    if given.groups is not None:
        _check_groups(fit)
    if recipe.refit_on_all and not recipe.early_stopping:
        raise ValueError(
            "refit_on_all=True needs early_stopping=True, which finds out how many updates are best"
        )
    if fit.incremental:
        _check_part(fit)


def _check_groups(fit: "Fit") -> None:
    given, recipe = fit.given, fit.recipe
    if given.X_val is not None:
        raise ValueError("groups decide nothing where X_val is given: leave them out")
    if recipe.validation_split is None and not recipe.early_stopping:
        raise ValueError(
            "groups decide which rows are held out, and none are: set early_stopping=True or validation_split"
        )


def _check_part(fit: "Fit") -> None:
    """Raise a ValueError for what needs all rows at once, where a part is seen."""
    recipe = fit.recipe
    if recipe.early_stopping and fit.given.X_val is None:
        raise ValueError(
            "partial_fit does not support early_stopping=True without X_val and y_val: it sees a part of the "
            "rows, and what is held out of one part may be trained on with another. Give the same X_val and "
            "y_val in every call."
        )
    for name, is_set in (
        ("validation_split", recipe.validation_split is not None),
        ("refit_on_all=True", recipe.refit_on_all),
    ):
        if is_set:
            raise ValueError(
                f"partial_fit does not support {name}: it sees a part of the rows. Call fit, or give X_val "
                "and y_val in every call."
            )


# -- rows ------------------------------------------------------------------------------------------------


def data_sets(fit: "Fit", rows: Any, held_out_rows: Any) -> tuple[DataSet, DataSet | None]:
    """Return the rows to train on, and those to validate on, if there are any."""
    whole = DataSet(fit.X, fit.labels, fit.sample_weight, fit.y, fit.weight, dtypes=fit.dtypes)
    if rows is None:
        return whole, None if fit.given.X_val is None else _given_rows(fit)
    training, held_out = whole._replace(rows=rows), _undrawn(fit, whole)._replace(rows=held_out_rows)
    for part, what in ((training, "the training rows"), (held_out, "the validation set")):
        weight = part.chosen(part.weight)
        if weight is not None and not weight.any():
            raise ValueError(
                f"all sample weights of {what} are zero: give more rows a positive weight, or set "
                "early_stopping=False"
            )
    return training, held_out


def _undrawn(fit: "Fit", whole: DataSet) -> DataSet:
    """Return all rows, with the weights that they have where they are held out."""
    if counts_of(fit.estimator) is None:
        return whole
    weight = fit.estimator._weighted(fit.recipe, fit.labels, fit.undrawn_weight, fit.incremental)
    weight = without_padding(fit.estimator._targets, fit.X, fit.y, weight, fit.dtype)
    return whole._replace(sample_weight=fit.undrawn_weight, weight=weight)


def split_rows(
    fit: "Fit", X: Any, y: Any, binary: Callable[[], Any], random_state: RandomState
) -> tuple[Any, Any]:
    """Return the numbers of the training and the held-out rows; None where all are trained on."""
    recipe, groups = fit.recipe, fit.given.groups
    if fit.given.X_val is not None or (recipe.validation_split is None and not recipe.early_stopping):
        return None, None
    if groups is not None:
        groups = np.asarray(groups)
        with naming("groups"):
            check_consistent_length(y, groups)
    if recipe.validation_split is not None:
        pair = given_split(recipe.validation_split, X, y, groups, random_state)
        few = f"validation_split holds out {len(pair[1])} row(s), and a validation needs at least {FEWEST}"
    else:
        # Shares of classes are kept for two classes only, as in scikit-learn: the same seed, the same split,
        # unless that leaves a class out.
        labels, fraction = binary(), recipe.validation_fraction
        stratify = None if labels is None else labels.astype(bool)
        of_class = y if fit.estimator._holds_out_every_class and np.ndim(y) == 1 else None
        pair = held_out_fraction(
            len(y), fraction, random_state, stratify=stratify, groups=groups, labels=of_class
        )
        few = "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
    if len(pair[1]) < FEWEST:
        raise ValueError(few)
    return pair


def _given_rows(fit: "Fit") -> DataSet:
    """Return the rows of X_val, checked as those of X are."""
    estimator, recipe, given, targets = fit.estimator, fit.recipe, fit.given, fit.estimator._targets
    with naming("X_val and y_val do not fit X and y"):
        X, labels = checked_inputs(fit, given.X_val, given.y_val, reset=False)
    with naming("sample_weight_val"):
        sample_weight = check_weights(given.sample_weight_val, first_input(X), fit.dtype)
    if len(labels) < FEWEST:
        raise ValueError(f"X_val has {len(labels)} row, and a validation needs at least {FEWEST}")
    _check_classes(targets, labels)
    with naming("y_val"):
        y = targets.encode(labels)
        fit.loss.check_target(y, name="y_val", n_outputs=targets.n_outputs)
    weight = estimator._weighted(recipe, labels, sample_weight, fit.incremental, like=fit.labels)
    weight = without_padding(targets, X, y, weight, fit.dtype)
    return DataSet(X, labels, sample_weight, y, weight)


def _check_classes(targets: Any, labels: Any) -> None:
    """Raise a ValueError if labels of the validation do not occur in the training."""
    classes = getattr(targets, "classes", None)
    if (
        targets.task not in ("binary", "multiclass")
        or not isinstance(classes, np.ndarray)
        or labels.ndim != 1
    ):
        return
    unseen = np.setdiff1d(labels, classes)
    if len(unseen):
        raise ValueError(
            f"y_val has classes {unseen.tolist()} that are not among those of y, {classes.tolist()}: leave "
            "their rows out of the validation, or let the training see some of them"
        )


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Let the errors of checks that know of X and y only say what they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from error


# -- scores ----------------------------------------------------------------------------------------------


def monitored(fit: "Fit") -> str:
    """Return the column of the history that decides when to stop: by default the training loss."""
    monitor, caller = fit.recipe.monitor, type(fit.estimator).__name__
    if not fit.recipe.early_stopping:
        if monitor is not None:
            fit.scoring.check_monitor(monitor, caller)
        return LOSS
    # A squared error is what R2 measures, on a scale that a tolerance can be given for. For any other loss,
    # R2 and accuracy get worse while it still improves.
    default = SCORE if isinstance(fit.recipe.loss, SquaredError) else LOSS
    return HELD_OUT + fit.scoring.monitored(monitor, default, caller)[0]


def new_score_of(fit: "Fit", part: DataSet, batches: Batches) -> Callable[[], Score]:
    """Return a function that creates empty scores for some rows."""
    if fit.scoring.scorers is None:
        return fit.estimator._score_of(batches, fit.model)  # type: ignore[no-any-return]
    scorers, is_training = fit.scoring.scorers, part is not fit.held_out
    what = "the training rows" if is_training else "the validation rows"
    decides = "" if is_training else fit.monitor.removeprefix(HELD_OUT)
    needs_inputs = any(scorer.looks_at_inputs for scorer in scorers)

    def compute(outputs: Any, rows: Any) -> dict[str, float]:
        inputs = part.chosen(part.X, rows) if needs_inputs else object()
        estimator = in_training(fit.estimator, fit.model, inputs, outputs)
        labels, weight = part.chosen(part.labels, rows), part.chosen(part.sample_weight, rows)
        with naming_classes(getattr(fit.estimator._targets, "classes", None), labels, what):
            found = evaluated(scorers, estimator, inputs, labels, weight, what)
            if np.isnan(found.get(decides, 0.0)):
                raise ValueError(
                    f"scoring {fit.monitor!r} decides when to stop, and is nan in an epoch whose "
                    "predictions are finite: give a scorer that is defined for the validation rows"
                )
        return found

    return lambda: Gathered(batches.n_samples, compute, [scorer.name for scorer in scorers])
