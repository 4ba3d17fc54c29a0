"""What regressors add: predictions by the loss's inverse link."""

from collections.abc import Callable
from typing import Any

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sknet.engine import Batches, Model, RSquared, Score
from sknet.estimators._base import BaseMLP
from sknet.estimators._frozen import FrozenRegressor
from sknet.estimators._recipe import Recipe
from sknet.estimators._targets import RealTargets

__all__ = ["RegressorMLP"]


class RegressorMLP(RegressorMixin, BaseMLP):
    """Abstract base of the regressors."""

    _numeric_targets = True

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> RealTargets:
        return RealTargets(y)

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return lambda: RSquared(batches.y, batches.weight, model.loss_function)

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

    def freeze(self) -> FrozenRegressor:
        """Return a predictor without any training state: small, picklable, fast for single rows.

        Returns
        -------
        FrozenRegressor
            With the parameters as they are now.
        """
        check_is_fitted(self)
        return FrozenRegressor(self.model_, self._targets, self._network_parameters["activation"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
