"""Base of regressors: predictions through the loss's inverse link."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sknet._late import available_if
from sknet._params import described_by
from sknet.device import active, to_device
from sknet.engine import Batches, Model, Score
from sknet.engine._layer_outputs import Chosen
from sknet.engine._optimizer import mean_loss
from sknet.estimators._base import BaseNet, goes_in_steps
from sknet.estimators._checks import lengths_of, r2_of_seen, score_weights, step_weights, targets_to_score
from sknet.estimators._fit import FitArguments, Recipe
from sknet.estimators._heads import (
    check_deviations,
    gives_deviations,
    gives_intervals,
    gives_quantiles,
)
from sknet.estimators._inputs import as_host, follows_namespace, on_host, with_offset
from sknet.estimators._layers import chosen_predictions
from sknet.estimators._targets import ArrayTargets, RealTargets
from sknet.losses._wrappers import Averaged, WithOffset

if TYPE_CHECKING:
    from sknet.estimators._frozen import FrozenRegressor

LARGE = 1e140  # squares of larger targets may be infinite


class BaseRegressor(RegressorMixin, BaseNet):
    _numeric_targets = True

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> RealTargets:
        if recipe.scale_target and recipe.loss.scaling is None:
            raise ValueError(
                f"scale_target=True does not fit {recipe.loss!r}, which does not say how it changes with the "
                "unit of its targets: set scale_target=False. A loss of your own says it by its scaling"
            )
        if y.ndim > 2:
            return ArrayTargets(y, recipe.loss, may_be_ids=False)
        return RealTargets(y, recipe.loss.columns_per_target)

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return self._targets.new_score(batches, model.loss_function)

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
        validation = X_val, y_val, sample_weight_val
        given = FitArguments(X, y, sample_weight, *validation, offset=offset, offset_val=offset_val)
        return self._fit_part(given)

    @follows_namespace
    def predict(self, X: Any) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The estimate that belongs to the loss: means, medians or quantiles.
        """
        return self._answered(X, "means")

    def _chosen(self, X: Any, target: Any) -> Chosen:
        return chosen_predictions(self, X, target)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination of the predictions, R2.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Weights of samples, or of targets. Missing targets (NaN) have the weight 0.

        Returns
        -------
        float
            At most 1; predicting the mean of y scores 0. Several outputs are averaged. For targets that only
            the loss can read: the concordance index for times and events, see `Cox.score`, otherwise minus
            the mean loss.
        """
        from sklearn.metrics import r2_score  # it loads half of scikit-learn

        if self.__sklearn_is_fitted__() and getattr(self._targets, "n_columns", None) is not None:
            score = getattr(self._loss, "score", None)
            if score is None:
                return self._minus_loss(X, y, sample_weight)
            return score(on_host(y), on_host(self.predict(X)), on_host(sample_weight))
        y, predicted, weight = targets_to_score(y), on_host(self.predict(X)), on_host(sample_weight)
        if np.ndim(y) > 2:
            y, predicted, weight = counted_values(np.asarray(y), predicted, lengths_of(X), weight)
        if (seen := score_weights(y, weight)) is not None:
            return r2_of_seen(y, predicted, seen)
        is_real = type(y) is np.ndarray and y.dtype.kind == "f" and y.size > 0
        if is_real and LARGE < (most := float(np.abs(y).max())) < np.inf:
            y, predicted = y / most, predicted / most  # of which the squares are finite
        with np.errstate(under="ignore", over="ignore"):  # tiny targets count nothing beside others
            return float(r2_score(y, predicted, sample_weight=weight))

    def _minus_loss(self, X: Any, y: Any, sample_weight: Any) -> float:
        """Return minus the mean loss of targets that predictions cannot be compared with."""
        model = self.model_
        output, y = to_device(self._predicted(as_host(X)), model.device), np.asarray(on_host(y), model.dtype)
        y, loss = self._targets.encode(y), model.loss_function
        loss = loss.loss if isinstance(loss, Averaged) else loss
        if isinstance(loss, WithOffset):  # which the outputs have already
            y = loss.joined(y, np.zeros((len(y), self._targets.n_outputs)))
        with active(model.device, model.precision):
            return -mean_loss(model, output, y, on_host(sample_weight))[0]

    def freeze(self) -> "FrozenRegressor":
        """Return a predictor without training state: small, picklable, and fast for single rows.

        Returns
        -------
        FrozenRegressor
            A copy of the parameters as they are now.
        """
        check_is_fitted(self)
        from sknet.estimators._frozen import FrozenRegressor  # fits do without it

        return self._frozen_as(FrozenRegressor)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def counted_values(y: Any, predicted: Any, lengths: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return targets and predictions of three and more axes as tables, of sequences the steps that count."""
    if lengths is None:
        return y.reshape(len(y), -1), predicted.reshape(len(y), -1), weight
    counts = step_weights(lengths, y.shape[1], weight, np.float64)
    steps = counts > 0
    return y[steps].reshape(steps.sum(), -1), predicted[steps].reshape(steps.sum(), -1), counts[steps]


class UncertainRegressor(BaseRegressor):
    """Abstract base of the regressors that also say how sure they are, if their loss learns that."""

    @follows_namespace
    def predict(self, X: Any, return_std: bool = False, *, offset: Any = None) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return standard deviations as well, of an ensemble or with the loss ``"gaussian_nll"``.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Numbers added to the outputs of a network that was fitted with an offset; None adds 0.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The estimate that belongs to the loss: means, medians, or the quantile nearest to 0.5.
        std : ndarray of the same shape
            Standard deviations, if `return_std`.

        Raises
        ------
        ValueError
            If `return_std` is true for a single network with another loss.
        """
        X = with_offset(X, offset)
        prediction = self._answered(X, "means")
        if not return_std:
            return prediction
        check_deviations(self._loss)
        return prediction, self._answered(X, "deviations")

    @described_by(BaseRegressor.score)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, offset: Any = None) -> float:
        """Return the coefficient of determination of the predictions, R2.

        Parameters
        ----------
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            As for `predict`.
        """
        return super().score(with_offset(X, offset), y, sample_weight)

    @follows_namespace
    def predict_samples(self, X: Any, n_draws: int = 30, *, random_state: Any = None) -> Any:
        """Predict several times with the dropout of training: Monte Carlo dropout.

        Normalization layers use their running statistics. The spread of the draws shows the uncertainty.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        n_draws : int, default=30
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Draws the units to drop.

        Returns
        -------
        ndarray of shape (n_draws, n_samples, ...)
            Predictions; their mean and standard deviation over the first axis summarize them.

        Raises
        ------
        ValueError
            If the network has no dropout.

        Notes
        -----
        Y. Gal, Z. Ghahramani, "Dropout as a Bayesian approximation", ICML 2016.
        """
        check_is_fitted(self)
        return self._drawn(X, "means", n_draws, random_state)

    @available_if(gives_deviations)
    @follows_namespace
    def predict_std(self, X: Any, *, offset: Any = None) -> Any:
        """Predict standard deviations, of an ensemble or with the loss ``"gaussian_nll"``."""
        return self._answered(with_offset(X, offset), "deviations")

    @available_if(gives_quantiles)
    @follows_namespace
    def predict_quantiles(self, X: Any, *, offset: Any = None) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross.

        The result has shape (n_samples, n_quantiles), or (n_samples, n_quantiles, n_outputs).
        """
        return self._answered(with_offset(X, offset), "quantiles")

    @available_if(gives_intervals)
    @follows_namespace
    def predict_interval(self, X: Any, coverage: float = 0.8, *, offset: Any = None) -> Any:
        """Predict central intervals that contain a share `coverage` of the targets.

        Lower and upper bounds have shape (n_samples, 2), or (n_samples, 2, n_outputs) for several targets.
        """
        return self._answered(with_offset(X, offset), "interval", coverage)
