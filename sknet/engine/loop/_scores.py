"""Scores that are summed up batch by batch: accuracy and R2."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from sknet.core import Tensor
from sknet.device import to_host
from sknet.losses import Loss

__all__ = ["Accuracy", "RSquared", "Score"]

NARROW = 64  # classes up to which columns are gone through instead of rows


class Score(ABC):
    """A score over rows that come in parts, higher is better.

    Examples
    --------
    >>> import numpy as np
    >>> score = Accuracy()
    >>> score.add(np.array([[0.2], [-1.0]]), np.array([[1.0], [1.0]]), None)
    >>> score.result()
    0.5
    """

    @abstractmethod
    def add(self, output: Any, target: Any, weight: Any) -> None:
        """Take in some rows.

        Parameters
        ----------
        output : array of shape (n_samples, n_outputs)
            What the network returned there.
        target : array of shape (n_samples,) or (n_samples, n_outputs)
            Encoded targets, as the loss reads them.
        weight : array of shape (n_samples,) or None
            Sample weights.
        """

    @abstractmethod
    def result(self) -> float:
        """Return the score of all rows so far; NaN if a prediction was not finite."""


class Accuracy(Score):
    """Share of rows with all labels right, of the weight of all rows.

    Targets with as many axes as the output are 0/1 labels, predicted where the output is above the
    threshold; targets with one axis less are class numbers, predicted by the largest output.

    Parameters
    ----------
    threshold : float, default=0.0
        Of the loss: 0 for logits.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine import Accuracy
    >>> score = Accuracy()
    >>> score.add(np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0, 0]), None)
    >>> score.result()
    0.5
    """

    def __init__(self, threshold: float = 0.0) -> None:
        self._threshold = threshold
        self._right = self._all = 0.0
        self._finite = True

    def add(self, output: Any, target: Any, weight: Any) -> None:
        output, target = to_host(output), to_host(target)
        if target.ndim == output.ndim:
            right = ((output > self._threshold) == (target > 0.5)).all(axis=1)
        else:
            right = _is_largest(output, target)
        weight = None if weight is None else to_host(weight)
        self._right += float(right.sum() if weight is None else weight[right].sum())
        self._all += float(len(right) if weight is None else weight.sum())
        self._finite = self._finite and bool(np.isfinite(output.sum()))

    def result(self) -> float:
        return self._right / self._all if self._finite and self._all else float("nan")


def _is_largest(output: Any, target: Any) -> Any:
    """Tell for which rows the target is the number of the largest output, the first of equal ones."""
    n_rows, n_classes = output.shape
    if not 1 < n_classes <= NARROW:
        return output.argmax(axis=1) == target
    # Column by column: a search in each short row would guess wrong at nearly every branch.
    columns = np.ascontiguousarray(output.T)
    largest = columns.max(axis=0)
    if np.count_nonzero(columns == largest) != n_rows:  # equal ones, or what is not finite
        return output.argmax(axis=1) == target
    places = target.astype(np.intp) * n_rows + np.arange(n_rows)
    return columns.reshape(-1).take(places) == largest


class RSquared(Score):
    """Coefficient of determination, the mean over outputs; scikit-learn's `r2_score`.

    Parameters
    ----------
    target : array of shape (n_samples,) or (n_samples, n_outputs)
        All targets that will be added: the variance to explain is computed from them at once, for
        sums of squares that are taken apart later lose their digits.
    weight : array of shape (n_samples,) or None
        Their weights.
    loss : Loss
        Its inverse link turns outputs into predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine import RSquared
    >>> from sknet.losses import SquaredError
    >>> target = np.array([1.0, 2.0, 3.0])
    >>> score = RSquared(target, None, SquaredError())
    >>> score.add(target.reshape(-1, 1), target, None)
    >>> score.result()
    1.0
    """

    def __init__(self, target: Any, weight: Any, loss: Loss) -> None:
        self._predict = loss.predict
        target = _columns(to_host(target))
        weight = None if weight is None else to_host(weight).astype(np.float64)
        mean = np.average(target, axis=0, weights=weight)
        squares = (target - mean) ** 2
        self._total = squares.sum(axis=0) if weight is None else weight @ squares
        self._residual = np.zeros_like(self._total)

    def add(self, output: Any, target: Any, weight: Any) -> None:
        predicted = to_host(self._predict(Tensor(output)).data)
        residual = (_columns(to_host(target)) - _columns(predicted)) ** 2
        self._residual += (
            residual.sum(axis=0) if weight is None else to_host(weight).astype(np.float64) @ residual
        )

    def result(self) -> float:
        if not np.isfinite(self._residual).all():
            return float("nan")
        constant = self._total == 0
        ratio = self._residual / np.where(constant, 1.0, self._total)
        # For a constant target there is nothing to explain: 1 if it is met exactly, else 0.
        return float(np.where(constant, self._residual == 0, 1.0 - ratio).mean())


def _columns(array: Any) -> Any:
    array = np.asarray(array, dtype=np.float64)
    return array.reshape(len(array), -1)
