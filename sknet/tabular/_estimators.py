"""TabularClassifier and TabularRegressor: labels, probabilities and numbers from raw tables."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from sknet._fields import Arrays, Each, Together
from sknet._frames import as_array
from sknet._params import described_by, store_parameters
from sknet._validation import StrOptions
from sknet.estimators._checks import accuracy_of_seen, check_weights, r2_of_seen, score_weights
from sknet.estimators._classifier import class_weighted
from sknet.estimators._inputs import dense_targets, with_offset
from sknet.estimators._layers import chosen_classes, chosen_predictions
from sknet.estimators._targets import (
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    RealTargets,
    kind_of_labels,
    prediction_of,
)
from sknet.losses import Loss
from sknet.losses._wrappers import has_offset
from sknet.tabular._base import CONSTRAINTS, BaseTabular
from sknet.tabular._frozen import FrozenTabularClassifier, FrozenTabularRegressor, check_bounds
from sknet.tabular._members import Members
from sknet.tabular._predicting import Classifies, Regresses


@described_by(BaseTabular)
class TabularClassifier(ClassifierMixin, Classifies, BaseTabular):
    """Classification of raw tables, by an ensemble of small networks with measured defaults.

    Columns of any kind, and sums of two numbers that tell more than both, are encoded by `TableEncoder`. In
    each of `n_folds` folds, members of two kinds are trained on all rows that are not held out: smooth ones,
    small and strongly regularized, and sharp ones, larger and trained to convergence. The held-out rows
    determine the weights with which the kinds are mixed. Everything that depends on targets, encoders
    included, sees only the training rows of its fold. Of several classes there may be a third kind, which
    compares rows by learned distances, see `neighbors`. Where there are 50,000 rows or more, sharp members
    that gain nothing in the first fold are left out.

    Parameters
    ----------
    loss : str or Loss, default="log_loss"
        The loss to minimize; see `sknet.losses`.
    members : int or "auto", default="auto"
        Networks of each kind in each fold; "auto" is 1 smooth one, or 2 for several classes of fewer than
        1,000 rows, and 1 sharp one. Neighbors are always one member, of all folds.
    neighbors : "auto" or None, default="auto"
        Whether the shares of the classes among similar rows are mixed as well: with "auto", of several
        classes with log loss, from 1,000 rows of up to 200 columns on and below 20,000, where no column has
        a direction and there is no offset. The model then holds the encoded rows of the fit, unless the mix
        has no use for them.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or a list of those
        The sorted labels; with several columns of labels, a list.
    temperature_ : dict of str to float
        Divisor of the outputs of each kind; above 1 if they were overconfident.
    oof_prediction_ : ndarray of shape (n_samples, n_classes)
        Out-of-fold probabilities; NaN for rows that no fold has held out;
        for the rows of ``X_val``, if those are held out.
    oof_score_ : float
        Accuracy on those rows, or the value of `scoring`.

    See Also
    --------
    sknet.TableEncoder : The encoding of the columns.
    sknet.MLPClassifier : A single network, with ``encoder="table"``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sknet.tabular import TabularClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"kind": rng.choice(["a", "b"], 200), "size": rng.normal(size=200)})
    >>> y = (X["kind"] == "a") & (X["size"] > 0)
    >>> clf = TabularClassifier(budget=0.1, random_state=0).fit(X, y)
    >>> clf.oof_score_ > 0.9
    True
    """

    _numeric_targets = False
    _parameter_constraints = CONSTRAINTS | {
        "neighbors": [StrOptions({"auto"}), None],
        "class_weight": [dict, list, StrOptions({"balanced"}), None],
    }
    _stored_fields = {
        "classes_": [np.ndarray, Each(list, np.ndarray)],
    }

    def __init__(
        self,
        *,
        loss: str | Loss = "log_loss",
        categorical_features: Any = "from_dtype",
        columns: Any = None,
        monotonic_cst: Any = None,
        n_folds: int | str = "auto",
        members: int | str = "auto",
        budget: float | str = 1.0,
        smooth: Members | str | None = "auto",
        sharp: Members | str | None = "auto",
        neighbors: str | None = "auto",
        class_weight: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        device: str | None = "cpu",
        random_state: Any = None,
        scoring: Any = None,
        verbose: bool | int | str = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _new_targets(self, y: Any, loss: Loss) -> "ClassTargets | ColumnTargets | OrderedTargets":
        if "ordinal" in loss.tasks:
            return OrderedTargets(y, order=getattr(loss, "order", None))
        is_of_columns = kind_of_labels(y) == "multiclass-multioutput"
        targets = ColumnTargets(y) if is_of_columns else ClassTargets(y)
        if targets.task != "multilabel":
            targets.check_several(type(self).__name__)
        return targets

    def _weighted(self, y: Any, weight: Any) -> Any:
        if self.class_weight is None:
            return weight
        return class_weighted(self.class_weight, self._targets, y, weight).astype(np.float32)

    def _chosen(self, X: Any, target: Any) -> Any:
        is_of_labels = self._targets.task == "multilabel" or isinstance(self.classes_, list)
        target = self.predict(X) if target is None and not is_of_labels else target
        return chosen_classes(self, X, target)

    def _by_error(self) -> bool:
        return self._targets.task == "multiclass" and not isinstance(self._targets, ColumnTargets)

    def _take_targets(self, y: Any) -> None:
        self.classes_ = self._targets.classes

    def _take_oof(self, y: Any, outputs: Any, rows: np.ndarray, weight: Any) -> None:
        self.oof_score_ = _accuracy(self._made(outputs, "labels"), y[rows], weight)
        kind = "probabilities" if self._loss_function.has_probabilities else "decisions"
        found = self._headed(outputs, prediction_of(self, kind)[1])
        self.oof_prediction_ = np.full((len(y), found.shape[1]), np.nan, found.dtype)
        self.oof_prediction_[rows] = found

    def freeze(self) -> "FrozenTabularClassifier":
        """Return a predictor without training state: smaller, picklable, and fast for single rows.

        Returns
        -------
        FrozenTabularClassifier
            A copy of the members as they are now; its predictions are the same to the bit.
        """
        return FrozenTabularClassifier(self._frozen_parts())

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the accuracy: the share of rows with all labels right.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            As for `predict`.

        Returns
        -------
        float
            The accuracy.
        """
        return _accuracy(self.predict(X, offset=offset), y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


def _accuracy(found: Any, y: Any, weight: Any) -> float:
    """Return the share of rows with all labels right."""
    found, y = np.asarray(found), as_array(dense_targets(y))
    y = y[:, 0] if found.ndim == 1 and y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != found.shape:
        raise ValueError(f"y has the shape {y.shape}, expected that of the predictions, {found.shape}")
    if (seen := score_weights(y, weight)) is not None:
        return accuracy_of_seen(y, found, seen)
    weight, right = check_weights(weight, found, np.float64), found == y
    return float(np.average(right.reshape(len(right), -1).all(axis=1), weights=weight))


@described_by(BaseTabular)
class TabularRegressor(RegressorMixin, Regresses, BaseTabular):
    """Regression on raw tables, by an ensemble of small networks with measured defaults.

    Columns of any kind, and sums of two numbers that tell more than both, are encoded by `TableEncoder`. In
    each of `n_folds` folds, members of two kinds are trained on all rows that are not held out: smooth ones,
    small and strongly regularized, and sharp ones, larger and trained to convergence. The held-out rows
    determine the weights with which the kinds are mixed. Targets are standardized if the loss allows it, and
    sharp members learn logarithms of means where effects of columns multiply. Predictions stay within the
    range of the training targets, unless `extrapolate` is true. What members leave of the targets of similar
    rows may be added, see `neighbors`. Where there are 50,000 rows or more, sharp members that gain nothing
    in the first fold are left out.

    Parameters
    ----------
    loss : str or Loss, default="squared_error"
        The loss to minimize: "squared_error", "absolute_error", "huber", "poisson", ``Quantile([0.1, 0.5,
        0.9])`` or another of `sknet.losses`.
    members : int or "auto", default="auto"
        Networks of each kind in each fold; "auto" is 1 smooth one and 2 sharp ones. Neighbors are
        always one member, of all folds.
    neighbors : "auto" or None, default="auto"
        Whether means of what the networks leave of the targets of similar rows are added, times a factor:
        with "auto", to the means of one target with squared error, from 1,000 rows of up to 200 columns on
        and below 20,000, those of `X_val` included, where no column has a direction, there is no offset and
        the budget is not in seconds. The model then holds encoded rows of the fit, unless held-out rows gain
        too little.
    extrapolate : bool, default=False
        Whether predictions may be smaller than the smallest target of the fit, and larger than the largest,
        as they always may after a fit with `offset`. Within these bounds, rows unlike those of the fit do
        less harm; prices that rise need more.

    Attributes
    ----------
    temperature_ : dict of str to float
        Always 1; only classifiers are calibrated.
    oof_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Out-of-fold predictions; NaN for rows that no fold has held out;
        for the rows of ``X_val``, if those are held out.
    oof_score_ : float
        R2 on those rows, or the value of `scoring`.

    See Also
    --------
    sknet.TableEncoder : The encoding of the columns.
    sknet.MLPRegressor : A single network, with ``encoder="table"``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sknet.tabular import TabularRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"kind": rng.choice(["a", "b"], 300), "size": rng.normal(size=300)})
    >>> y = np.where(X["kind"] == "a", 1.0, -1.0) * X["size"]
    >>> reg = TabularRegressor(budget=0.1, random_state=0).fit(X, y)
    >>> reg.oof_score_ > 0.9
    True
    """

    _numeric_targets = True
    _parameter_constraints = CONSTRAINTS | {
        "neighbors": [StrOptions({"auto"}), None],
        "extrapolate": ["boolean"],
    }
    _stored_fields = {
        "_bounds": [Together(float, float), Together(Arrays("f", "n_outputs"), Arrays("f", "n_outputs"))],
    }

    def _check_stored(self) -> None:
        super()._check_stored()
        check_bounds(self)

    def __init__(
        self,
        *,
        loss: str | Loss = "squared_error",
        categorical_features: Any = "from_dtype",
        columns: Any = None,
        monotonic_cst: Any = None,
        n_folds: int | str = "auto",
        members: int | str = "auto",
        budget: float | str = 1.0,
        smooth: Members | str | None = "auto",
        sharp: Members | str | None = "auto",
        neighbors: str | None = "auto",
        extrapolate: bool = False,
        cv: Any = None,
        n_jobs: int | None = None,
        device: str | None = "cpu",
        random_state: Any = None,
        scoring: Any = None,
        verbose: bool | int | str = "auto",
    ) -> None:
        store_parameters(self, locals())

    def _new_targets(self, y: Any, loss: Loss) -> RealTargets:
        return RealTargets(y)

    def _chosen(self, X: Any, target: Any) -> Any:
        return chosen_predictions(self, X, target)

    def _take_targets(self, y: Any) -> None:
        lowest, highest = (x if y.dtype.kind == "f" else x.astype(np.float64) for x in (y.min(0), y.max(0)))
        if self.extrapolate or has_offset(self._loss_function):  # rates of single rows have no range
            lowest, highest = (x + np.zeros(lowest.shape) for x in (-np.inf, np.inf))
        self._bounds = lowest, highest

    def _take_oof(self, y: Any, outputs: Any, rows: np.ndarray, weight: Any) -> None:
        from sklearn.metrics import r2_score  # slow to import

        found = self._bounded(self._made(outputs, "means"))
        self.oof_prediction_ = np.full(y.shape, np.nan, found.dtype)
        self.oof_prediction_[rows] = found
        several = len(rows) > 1
        # It is the same in all units, of which one has no squares that overflow.
        _, digits = np.frexp(np.abs(y).max())
        known, found = (np.ldexp(np.asarray(each, np.float64), -digits) for each in (y[rows], found))
        if weight is not None and weight.ndim == 2:
            self.oof_score_ = r2_of_seen(known, found, weight.astype(np.float64))
            return
        self.oof_score_ = float(r2_score(known, found, sample_weight=weight)) if several else np.nan

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the coefficient of determination of the predictions, R2.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; those that are missing, NaN, are not scored.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Weights of samples, or of targets.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            As for `predict`.

        Returns
        -------
        float
            At most 1; predicting the mean of y scores 0. Several outputs are averaged.
        """
        y = dense_targets(y)
        if (seen := score_weights(y, sample_weight)) is not None:
            return r2_of_seen(y, self.predict(X, offset=offset), seen)
        return float(super().score(with_offset(X, offset), y, sample_weight))

    def freeze(self) -> "FrozenTabularRegressor":
        """Return a predictor without training state: smaller, picklable, and fast for single rows.

        Returns
        -------
        FrozenTabularRegressor
            A copy of the members as they are now; its predictions are the same to the bit.
        """
        return FrozenTabularRegressor(self._frozen_parts(), self._bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
