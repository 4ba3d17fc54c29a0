"""What regressors add: predictions by the loss's inverse link."""

from collections.abc import Callable
from typing import Any

from sklearn.base import RegressorMixin

from sknet.core import Tensor
from sknet.engine import Batches, Model, RSquared, Score
from sknet.estimators._base import BaseMLP
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
        X, output = self._outputs(X)
        return self._like(self._targets.decode(self.model_.loss_function.predict(Tensor(output)).data), X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
