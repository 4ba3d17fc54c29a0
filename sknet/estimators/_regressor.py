"""What regressors add: predictions through the loss's inverse link."""

from collections.abc import Callable
from typing import Any, Self

from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sknet.engine import Batches, Model, RSquared, Score
from sknet.estimators._base import BaseNet, goes_in_steps
from sknet.estimators._frozen import FrozenRegressor, gives_deviations
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._recipe import Recipe
from sknet.estimators._targets import RealTargets

__all__ = ["BaseRegressor"]


class BaseRegressor(RegressorMixin, BaseNet):
    """Abstract base of the regressors."""

    _numeric_targets = True

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> RealTargets:
        return RealTargets(y)

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return lambda: RSquared(batches.y, batches.weight, model.loss_function)

    @available_if(goes_in_steps)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        self
            Fitted. If the call fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return self._fit_part(X, y, sample_weight)

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
            What the loss estimates: means, medians or quantiles.
        """
        prediction = self._predicted(X, "means", self._link("predict"))
        return self._targets.decode(prediction)

    @available_if(gives_deviations)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_std(self, X: Any) -> Any:
        """Predict standard deviations, if the loss is ``"gaussian_nll"``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations.
        """
        return self._targets.decode(self._predicted(X, "deviations", self._link("predict_std")))

    def freeze(self) -> FrozenRegressor:
        """Return a predictor without any training state: small, picklable, fast for single rows.

        Returns
        -------
        FrozenRegressor
            With the parameters as they are now.
        """
        check_is_fitted(self)
        label = self._architecture.label(self.model_.module)
        return FrozenRegressor(self.model_, self._targets, self.n_features_in_, label)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
