"""Base of classifiers: labels, probabilities, class weights."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from sknet._constraints import is_number, shown
from sknet._fields import ABOVE_ZERO, ABSENT, Arrays, Each
from sknet._frames import gaps_in, is_collection
from sknet._late import available_if
from sknet.device import to_host
from sknet.engine import Batches, Model, Score
from sknet.engine._layer_outputs import Chosen
from sknet.estimators._base import BaseNet, goes_in_steps
from sknet.estimators._checks import (
    accuracy_of_seen,
    ignored_label,
    is_missing,
    lengths_of,
    score_weights,
    step_weights,
    targets_to_score,
    without_ignored,
)
from sknet.estimators._fit import FitArguments, Fitted, Recipe
from sknet.estimators._heads import gives_probabilities, gives_sets
from sknet.estimators._inputs import as_host, follows_namespace, on_host, with_offset
from sknet.estimators._layers import chosen_classes
from sknet.estimators._targets import (
    ClassEncoder,
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    PositionTargets,
    conformal_sets,
    counted_labels,
    kind_of_labels,
    label_weights,
    naming_labels,
    refuse_ignored,
)

if TYPE_CHECKING:
    from sknet.estimators._frozen import FrozenClassifier

MOST = float(np.finfo(np.float64).max)  # an int may be larger than any float of NumPy


def class_weighted(class_weight: Any, targets: ClassEncoder, y: Any, weight: Any, like: Any = None) -> Any:
    """Return the weights of rows multiplied by those of their classes."""
    of_class = _of_classes(class_weight, targets, y, y if like is None else like)
    found = of_class if weight is None else (weight.T * of_class.T).T.astype(weight.dtype)
    if not found.any():
        raise ValueError("class_weight: at least one sample must have a positive weight, got zeros only")
    return found


def _of_classes(class_weight: Any, targets: ClassEncoder, y: Any, like: Any) -> Any:
    """Return the weight of each row's class; "balanced" counts the classes of `like`."""
    _check_class_weight(class_weight)
    if isinstance(class_weight, str) and getattr(targets, "ignored", None) is not None:
        raise ValueError(
            "class_weight='balanced' counts labels of rows, and the loss ignores some positions: pass the "
            "weights of the classes as a dict"
        )
    if is_missing(y) is not None or is_missing(like) is not None:
        return _of_seen_labels(class_weight, y, like)
    if isinstance(class_weight, str) and like is not y:
        both = np.concatenate([like, y])
        return compute_sample_weight(class_weight, both, indices=np.arange(len(like)))[len(like) :]
    if np.ndim(y) > 2 and not isinstance(class_weight, dict):
        raise ValueError(
            f"class_weight={class_weight!r} counts labels of rows, and a row of y has the shape "
            f"{y.shape[1:]}: pass the weights of the classes as a dict"
        )
    one_label = targets.task != "multilabel" and not isinstance(targets, ColumnTargets)
    if not (isinstance(class_weight, dict) and one_label):
        return compute_sample_weight(class_weight, y)
    weights = np.array(label_weights(class_weight, targets.classes), dtype=np.float64)
    # A label that is ignored is no class, and its weight counts nothing.
    return weights.take(np.searchsorted(targets.classes, y), mode="clip")


def _of_seen_labels(class_weight: Any, y: Any, like: Any) -> Any:
    """Return the product of the weights of the labels of each row that are there."""
    if isinstance(class_weight, dict):
        raise ValueError("class_weight of several labels must be a list with a dict for each, or 'balanced'")
    found = np.ones(len(y))
    gone, unknown = gaps_in(y), gaps_in(like)
    for k, (column, known) in enumerate(zip(y.T, like.T, strict=True)):
        seen, known = ~gone[:, k], known[~unknown[:, k]]
        if isinstance(class_weight, str):
            both = np.concatenate([known, column[seen]])
            weight = compute_sample_weight(class_weight, both, indices=np.arange(len(known)))[len(known) :]
        else:
            weight = compute_sample_weight(class_weight[k], column[seen])
        found[seen] *= weight
    return found


def _check_class_weight(class_weight: Any) -> None:
    for part in class_weight if isinstance(class_weight, list) else [class_weight]:
        if isinstance(class_weight, list) and not isinstance(part, dict):
            raise ValueError(
                f"class_weight as a list must hold one dict for each label of y, got {shown(part)} in it"
            )
        for label, value in part.items() if isinstance(part, dict) else ():
            if not (is_number(value) and 0 <= value <= MOST):
                raise ValueError(
                    f"class_weight[{shown(label)}] must be a finite number >= 0, got {shown(value)}"
                )


class BaseClassifier(ClassifierMixin, BaseNet):
    _numeric_targets = False
    _holds_out_every_class: bool = True

    _several_columns = True  # whether each column of y may have classes of its own
    _targets: ClassEncoder
    _stored_fields = {
        "classes_": [np.ndarray, Each(list, np.ndarray)],
        "temperature_": [
            Arrays("f", "n_columns"),
            Arrays("f", "n_members", "n_columns"),
            ABOVE_ZERO,
            None,
            ABSENT,
        ],
    }

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> ClassEncoder:
        is_foreign = recipe.architecture.is_foreign
        if np.ndim(y) > 2:
            return PositionTargets(y, classes, getattr(recipe.loss, "ignore_index", None))
        of_columns = (is_foreign or self._several_columns) and _is_of_columns(y)
        if is_foreign and of_columns and _are_of_one_kind(classes):
            targets: ClassEncoder = PositionTargets(y, classes, getattr(recipe.loss, "ignore_index", None))
        elif "ordinal" in recipe.loss.tasks:
            targets = OrderedTargets(y, classes, getattr(recipe.loss, "order", None))
        elif self._several_columns and (of_columns or _has_columns(classes)):
            targets = ColumnTargets(y, classes)
        else:
            targets = ClassTargets(y, classes)
        if recipe.strict:
            targets.check_several(type(self).__name__)
        return targets

    def _counted(self, given: FitArguments) -> FitArguments:
        if ignored_label(self) is None:
            return given
        if is_collection(given.X):
            refuse_ignored(self.loss, "on Dask collections")
        return without_ignored(self, given)

    def _check_continued(self, y: Any) -> None:
        if self._targets.task == "multilabel":
            return
        found = self._targets.found_in(y)
        if self._targets.unlike(found):
            raise ValueError(
                "warm_start can only be used where `y` has the same classes as in the previous call to fit. "
                f"Previously got {self.classes_}, `y` has {found}"
            )

    def _check_classes(self, classes: Any) -> None:
        if not self.__sklearn_is_fitted__():
            if classes is None:
                raise ValueError(
                    "classes must be passed on the first call to partial_fit: classes=[...], all labels that "
                    "will occur."
                )
        elif classes is not None and self._targets.unlike(classes):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: "
                f"{self.classes_!r}"
            )

    def _weighted(self, recipe: Recipe, y: Any, weight: Any, incremental: bool, like: Any = None) -> Any:
        if recipe.class_weight is None:
            return weight
        if incremental and recipe.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all of y, and partial_fit sees a part: pass the weights of "
                "the classes as a dict, from sklearn.utils.class_weight.compute_class_weight('balanced', "
                "classes=..., y=...)"
            )
        return class_weighted(recipe.class_weight, self._targets, y, weight, like)

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return self._targets.new_score(model.loss_function)

    def _take_targets(self) -> None:
        self.classes_ = self._targets.classes

    def _take(self, fitted: Fitted) -> None:
        self.__dict__.pop("temperature_", None)
        if fitted.temperature is not None:
            several = isinstance(fitted.temperature, tuple)
            self.temperature_ = np.array(fitted.temperature) if several else fitted.temperature
        super()._take(fitted)

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
    ) -> Self:
        """Continue training for one epoch on some rows; pass all `classes` in the first call."""
        classes = as_host(classes)
        if ignored_label(self) is not None and classes is not None and not _has_columns(classes):
            classes = np.asarray(classes)[counted_labels(classes, ignored_label(self))]
        self._check_classes(classes)
        validation = X_val, y_val, sample_weight_val
        given = FitArguments(X, y, sample_weight, *validation, offset=offset, offset_val=offset_val)
        return self._fit_part(given, classes)

    @follows_namespace
    def predict(self, X: Any) -> Any:
        """Predict labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The most probable label, for each column of y; a 0/1 indicator matrix if rows have several labels.
        """
        return self._answered(X, "labels")

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities of the classes, in the order of `classes_`."""
        return self._answered(X, "probabilities")

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
        return self._answered(X, "log_probabilities")

    def _chosen(self, X: Any, target: Any) -> Chosen:
        return chosen_classes(self, X, target)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: the share of rows all of whose labels are predicted correctly.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Weights of samples, or of labels: a row has the mean weight of its labels. Missing labels (NaN)
            have the weight 0.

        Returns
        -------
        float
            The accuracy.
        """
        y, predicted, weight = targets_to_score(y), on_host(self.predict(X)), on_host(sample_weight)
        if (seen := score_weights(y, weight)) is not None:
            return accuracy_of_seen(y, predicted, seen)
        counted = counted_labels(y, ignored_label(self))
        if not counted.all():
            return _accuracy_of(counted, np.asarray(y) == predicted, lengths_of(X), weight)
        if weight is None and _are_integers_alike(y, predicted):  # which takes longer to check than to count
            return float((y == predicted).mean())
        if isinstance(self._targets, PositionTargets) and np.ndim(y) > 1:
            right, lengths = np.asarray(y) == predicted, lengths_of(X)
            if lengths is None:
                return float(np.average(right.reshape(len(right), -1).mean(axis=1), weights=weight))
            return float(np.average(right, weights=step_weights(lengths, right.shape[1], weight, np.float64)))
        if not isinstance(self._targets, ColumnTargets):
            from sklearn.metrics import accuracy_score  # it loads half of scikit-learn

            with naming_labels(y):
                return float(accuracy_score(y, predicted, sample_weight=weight))
        return float(np.average((np.asarray(y) == predicted).all(axis=1), weights=weight))

    def freeze(self) -> "FrozenClassifier":
        """Return a predictor without training state: small, picklable, and fast for single rows.

        Returns
        -------
        FrozenClassifier
            A copy of the parameters as they are now.
        """
        check_is_fitted(self)
        from sknet.estimators._frozen import FrozenClassifier  # fits do without it

        return self._frozen_as(FrozenClassifier, self._temperature)

    @property
    def _temperature(self) -> Any:
        found = self.__dict__.get("temperature_")
        return tuple(found.tolist()) if isinstance(found, np.ndarray) else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        loss = self._loss
        is_ordinal = loss is not None and "ordinal" in loss.tasks
        tags.classifier_tags.multi_label = not is_ordinal
        tags.target_tags.multi_output = self._several_columns and not is_ordinal
        return tags


class Decisions(BaseClassifier):
    """A classifier that shows its raw outputs."""

    @follows_namespace
    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict the most probable labels; a 0/1 indicator matrix if rows have several labels.

        `X` holds inputs as for `fit`. `offset`, of shape (n_samples,) or (n_samples, n_outputs), is added to
        the outputs of a network that was fitted with an offset; None adds 0. Each column of labels has its
        own prediction.
        """
        return self._answered(with_offset(X, offset), "labels")

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict probabilities of the classes, in the order of `classes_`."""
        return self._answered(with_offset(X, offset), "probabilities")

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_log_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
        return self._answered(with_offset(X, offset), "log_probabilities")

    @available_if(gives_sets)
    @follows_namespace
    def predict_set(self, X: Any, coverage: float = 0.9, *, offset: Any = None) -> Any:
        """Predict sets of classes that contain the true class with a given probability.

        A share `coverage` of sets contains the true class, for rows like those that were held out (split
        conformal prediction). `X` and `offset` are as for `predict`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), dtype=bool
            Whether each class is in the set of the row; no set is empty.
        """
        return conformal_sets(self._targets, to_host(self.predict_proba(X, offset=offset)), coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the accuracy: the share of rows all of whose labels are predicted correctly.

        `X`, `y`, `sample_weight` and `offset` are as for `fit`: a row has the mean weight of its labels, and
        missing labels (NaN) have the weight 0.
        """
        return super().score(with_offset(X, offset), y, sample_weight)

    @follows_namespace
    def decision_function(self, X: Any, *, offset: Any = None) -> Any:
        """Return the network's raw outputs: logits, or whatever the loss expects.

        `X` and `offset` are as for `predict`. Two classes have one column, which is positive where the second
        class is more likely; several columns of labels have an array each, and ordered classes log
        probabilities.
        """
        return self._answered(with_offset(X, offset), "decisions")

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_samples(self, X: Any, n_draws: int = 30, *, random_state: Any = None) -> Any:
        """Predict probabilities several times with the dropout of training: Monte Carlo dropout.

        Normalization layers use their running statistics. The spread of the `n_draws`, the first axis of the
        result, shows how uncertain the network is; their mean is a prediction. `X` holds inputs as for `fit`,
        and `random_state` draws the units to drop (Y. Gal, Z. Ghahramani, "Dropout as a Bayesian
        approximation", ICML 2016).

        Raises
        ------
        ValueError
            If the network has no dropout, or each column of y has its own classes.
        """
        check_is_fitted(self)
        if isinstance(self._targets, ColumnTargets):
            raise ValueError(
                "predict_samples needs one label a row, and each column of y has its own classes"
            )
        return self._drawn(X, "probabilities", n_draws, random_state)


def _accuracy_of(counted: Any, right: Any, lengths: Any, weight: Any) -> float:
    """Return the share of labels that are right, among those that count."""
    if not counted.any():
        raise ValueError("every label of y is one that the loss ignores: there is nothing to score")
    counts = counted.astype(np.float64)
    if counts.ndim > 1 and lengths is not None:
        counts *= step_weights(lengths, counts.shape[1], None, np.float64)
    if weight is not None:
        counts *= np.asarray(weight).reshape(-1, *[1] * (counts.ndim - 1))
    return float(np.average(right, weights=counts))


def _is_of_columns(y: Any) -> bool:
    if type(y) is np.ndarray and y.ndim == 1:
        return False
    return kind_of_labels(y) == "multiclass-multioutput"


def _are_of_one_kind(classes: Any) -> bool:
    """Tell whether classes are given that all positions of a sequence share."""
    return classes is not None and not _has_columns(classes)


def _has_columns(classes: Any) -> bool:
    return isinstance(classes, (list, tuple)) and any(np.ndim(of_column) for of_column in classes)


def _are_integers_alike(*arrays: Any) -> bool:
    """Tell whether all are vectors of integers, equally long."""
    if not all(type(x) is np.ndarray and x.ndim == 1 and x.dtype.kind in "iu" for x in arrays):
        return False
    return len({len(x) for x in arrays}) == 1
