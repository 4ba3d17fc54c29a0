"""Losses for classification."""

from typing import Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, as_tensor
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses._base import Loss, check_task, finite_numbers, reject, shape_error


class LogLoss(Loss):
    r"""Logistic loss, the negative log likelihood of the true classes; also known as cross-entropy.

    Parameters
    ----------
    multilabel : bool, default=False
        Whether each output is a label of its own that a sample has or has not. Otherwise the
        outputs are classes that exclude each other.

    See Also
    --------
    sklearn.metrics.log_loss : The same loss, from probabilities.

    Notes
    -----
    With logits :math:`z`, for one output and for every output of a multilabel task

    .. math:: \ell(z, y) = \log(1 + e^z) - y z, \qquad y \in \{0, 1\},

    summed over the labels; for classes that exclude each other [1]_

    .. math:: \ell(z, y) = \log \sum_k e^{z_k} - z_y, \qquad y \in \{0, \ldots, K - 1\}.

    Both are computed from the logits, so that no logit is too large. scikit-learn clips
    probabilities instead, and differs where a probability is within rounding of 0 or 1.

    References
    ----------
    .. [1] C. M. Bishop, "Pattern Recognition and Machine Learning", 2006, section 4.3.

    Examples
    --------
    >>> from sknet.losses import LogLoss
    >>> loss = LogLoss()
    >>> loss.values([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [0, 2]).numpy()
    array([0.2395, 1.0986])
    >>> loss.predict([[0.0], [2.0]]).numpy()
    array([[0.5   ],
           [0.8808]])
    """

    tasks = ("binary", "multiclass", "multilabel")

    _parameter_constraints = {"multilabel": ["boolean"]}

    def __init__(self, multilabel: bool = False) -> None:
        self.multilabel = multilabel

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z = as_tensor(output)
        if not self._is_bernoulli(z):
            return self._categorical(z, as_tensor(target))
        z, y = self.pair(z, target)
        return self.total(ops.softplus(z) - y * z)

    def predict(self, output: Tensor) -> Tensor:
        z = as_tensor(output)
        return ops.sigmoid(z) if self._is_bernoulli(z) else ops.softmax(z, axis=-1)

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of what `predict` returns, accurate also where that is nearly 0.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_outputs), dtype=floating
            Logits.

        Returns
        -------
        Tensor of shape (n_samples, n_outputs)
            Log probabilities.

        Examples
        --------
        >>> LogLoss().log_predict([[-1000.0]]).numpy()
        array([[-1000.]])
        """
        z = as_tensor(output)
        return ops.log_sigmoid(z) if self._is_bernoulli(z) else ops.log_softmax(z, axis=-1)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        if self.multilabel or n_outputs == 1:
            reject((y != 0) & (y != 1), y, name, f"0 or 1 for {self!r}")
            return
        classes = "a class, an integer from 0" + ("" if n_outputs is None else f" to {n_outputs - 1}")
        bad = (y < 0) | (y != np.floor(y))
        reject(bad if n_outputs is None else bad | (y >= n_outputs), y, name, classes)

    def for_task(self, task: str) -> Loss:
        check_task(task)
        if task == "multilabel":
            return self if self.multilabel else LogLoss(multilabel=True)
        if self.multilabel and task in self.tasks:
            raise ValueError(
                f"LogLoss(multilabel=True) is for targets of several 0/1 labels; the task here is {task}. "
                "Use LogLoss(), which also turns to several labels by itself where the target asks for it."
            )
        return super().for_task(task)

    def _is_bernoulli(self, z: Tensor) -> bool:
        return bool(self.multilabel) or z.ndim == 1 or z.shape[-1] == 1

    def _categorical(self, z: Tensor, y: Tensor) -> Tensor:
        if z.ndim != 2:
            raise ShapeError(
                f"LogLoss got an output of shape {z.shape}; it must have shape (n_samples, n_classes). "
                "Flatten the output before the last layer."
            )
        if y.shape != z.shape[:1]:
            raise shape_error(self, z.shape, y.shape, expected=f"{z.shape[:1]}, one class number a row")
        if np.dtype(y.dtype).kind not in "iu":
            raise DtypeError(
                f"LogLoss got targets of dtype {y.dtype} for {z.shape[1]} classes; they must be integers. "
                "Cast class numbers with astype; use LogLoss(multilabel=True) for 0/1 labels."
            )
        # The log probability and not logsumexp(z) - z[y]: near zero it keeps its digits in float32.
        chosen = ops.take_along_axis(ops.log_softmax(z, axis=-1), ops.expand_dims(y, axis=-1), axis=-1)
        return -ops.reshape(chosen, y.shape)
