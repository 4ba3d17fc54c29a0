"""Numbers: the targets of a regression."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from sknet.engine import Batches, RSquared, Score
from sknet.losses import Loss
from sknet.losses.extend import Standardized

__all__ = ["RealTargets"]


class RealTargets:
    """Targets of a regression, in their own units or standardized.

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Real numbers.

    Attributes
    ----------
    task : str
        ``"regression"``.
    n_outputs : int
        Columns of the targets.
    mean, scale : ndarray of shape (n_outputs,) or None
        By what targets are shifted and divided for the loss; None before `standardize`.

    Examples
    --------
    >>> RealTargets(np.zeros((5, 2))).n_outputs
    2
    >>> targets = RealTargets(np.array([8.0, 12.0]))
    >>> targets.standardize(np.array([[8.0], [12.0]]), None, shifts=True).encode(np.array([12.0]))
    array([[1.]])
    """

    task = "regression"
    mean: Any = None
    scale: Any = None

    def __init__(self, y: Any) -> None:
        self.n_outputs = 1 if y.ndim == 1 else y.shape[1]

    def standardize(self, y: Any, weight: Any, *, shifts: bool) -> Self:
        """Learn mean and scale from the rows of a training.

        Parameters
        ----------
        y : array of shape (n_samples, n_outputs)
            Targets.
        weight : array of shape (n_samples,) or None
            Their weights.
        shifts : bool
            Subtract means and divide by standard deviations; otherwise divide by means.

        Returns
        -------
        self
            A column that does not vary is divided by 1.
        """
        y = np.asarray(y, np.float64)
        mean = np.average(y, axis=0, weights=weight)
        scale = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight)) if shifts else mean
        # A deviation that rounding alone can have made is none.
        tiny = len(y) * np.finfo(np.float64).eps * np.abs(mean) if shifts else 0.0
        self.mean, self.scale = mean if shifts else np.zeros_like(mean), np.where(scale > tiny, scale, 1.0)
        return self

    def encode(self, y: Any) -> Any:
        """Return targets of shape (n_samples, n_outputs).

        Raises
        ------
        ValueError
            If y has another number of columns than before.
        """
        y = y.reshape(-1, 1) if y.ndim == 1 else y
        if y.shape[1] != self.n_outputs:
            raise ValueError(f"y must have {self.n_outputs} column(s) as in the fit before, got {y.shape[1]}")
        return y if self.scale is None else (y - self.mean) / self.scale

    def trained(self, loss: Loss) -> Loss:
        """Return the loss to train with, for these targets."""
        loss = loss.for_task(self.task)
        return (
            loss
            if self.scale is None
            else Standardized(loss, tuple(self.mean.tolist()), tuple(self.scale.tolist()))
        )

    def new_score(self, batches: Batches, loss: Any) -> Callable[[], Score]:
        """Return a function that creates an empty score of the rows of `batches`, by the `loss` of a fit."""
        loss = loss if self.scale is None else loss.loss  # of standardized predictions, as the targets are
        return lambda: RSquared(batches.y, batches.weight, loss)

    def head(self, loss: Any) -> Any:
        """Return what makes predictions of raw outputs: a link of the `loss`."""
        return loss.predict

    def restore(self, prediction: Any) -> Any:
        """Return a `prediction` as a reconstruction, which has all columns."""
        return prediction

    def decode(self, prediction: Any) -> Any:
        """Return a `prediction` without the axis of a single target, which is the last."""
        return prediction.reshape(prediction.shape[:-1]) if self.n_outputs == 1 else prediction
