"""What is predicted from mixed raw outputs; of ensembles, and of what they are frozen into."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sknet._available import available_if
from sknet.core import Tensor, no_grad
from sknet.engine.extend import Head
from sknet.estimators.extend import (
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    RealTargets,
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    interval_head,
    probability_head,
)
from sknet.losses import Loss

__all__ = ["Classifies", "Predicts", "Regresses"]


class Predicts(ABC):
    """Abstract base of what predicts from raw outputs."""

    _loss_function: Loss

    @abstractmethod
    def _outputs(self, X: Any) -> np.ndarray:
        """Return the mixed raw outputs, of shape (n_samples, n_outputs)."""

    def _headed(self, outputs: np.ndarray, head: Head | None) -> np.ndarray:
        """Return what a head, such as a link of the loss, makes of outputs."""
        if head is None:
            return outputs
        with no_grad():
            found: np.ndarray = head(Tensor(outputs)).numpy()
        return found


class Classifies(Predicts):
    """Labels and probabilities."""

    _targets: "ClassTargets | ColumnTargets | OrderedTargets"

    def _decided(self, outputs: np.ndarray) -> np.ndarray:
        return self._headed(outputs, self._targets.deciding(self._loss_function))

    def _labels(self, outputs: np.ndarray) -> Any:
        return self._targets.decode(self._decided(outputs), self._loss_function.threshold)

    def predict(self, X: Any) -> Any:
        """Predict labels.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The most probable label, in each column of labels; for several labels a row, a 0/1 indicator.
        """
        return self._labels(self._outputs(X))

    def decision_function(self, X: Any) -> Any:
        """Return the mixed raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes), or a list of those
            For two classes one column, positive where the second is more likely.
        """
        outputs = self._outputs(X)
        return self._targets.decisions(self._decided(outputs))

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities, which are calibrated by a temperature for each kind of members."""
        return self._probable(X, "predict")

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
        return self._probable(X, "log_predict")

    def _probable(self, X: Any, link: str) -> Any:
        outputs = self._outputs(X)
        head = probability_head(self._loss_function, self._targets, None, link)
        return self._targets.per_column(self._headed(outputs, head))


class Regresses(Predicts):
    """Numbers."""

    _targets: RealTargets
    _bounds: tuple[Any, Any]

    def _means(self, outputs: np.ndarray) -> np.ndarray:
        found = self._targets.decode(self._headed(outputs, self._loss_function.predict))
        # Of several outputs scikit-learn's checks ask for double precision.
        dtype = np.float64 if self._targets.n_outputs > 1 else found.dtype
        clipped: np.ndarray = np.clip(found, *self._bounds).astype(dtype)
        return clipped

    def predict(self, X: Any) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What the loss estimates: means, medians or quantiles; not beyond the targets of the fit, unless
            ``extrapolate`` is true.
        """
        return self._means(self._outputs(X))

    @available_if(gives_deviations)
    def predict_std(self, X: Any) -> Any:
        """Predict standard deviations, if the loss is ``"gaussian_nll"``."""
        return self._found(X, "predict_std")

    @available_if(gives_quantiles)
    def predict_quantiles(self, X: Any) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross."""
        return self._found(X, "predict_quantiles")

    @available_if(gives_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.8) -> Any:
        """Predict intervals in which a share of the targets is expected, half of the rest on each side."""
        outputs = self._outputs(X)
        head = interval_head(self._loss_function, coverage)
        return self._targets.decode(self._headed(outputs, head))

    def _found(self, X: Any, name: str) -> Any:
        outputs = self._outputs(X)
        return self._targets.decode(self._headed(outputs, getattr(self._loss_function, name)))
