"""Losses of probabilities: those that a network returns, and those that are its targets."""

import math
from numbers import Integral
from typing import Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, finite_numbers, reject, shape_error
from sknet.losses._classes import (
    check_classes,
    class_counts,
    class_values,
    class_weights,
    of_class,
)


class NLL(Loss):
    r"""Negative log likelihood of the true classes, from probabilities.

    For a network that ends in a softmax. `LogLoss` computes the same from logits, with fewer
    operations and full precision: prefer it if the network can end before the softmax.

    Parameters
    ----------
    class_weight : array-like of shape (n_classes,) or dict, default=None
        How much each class counts, as for `LogLoss`.
    ignore_index : int, default=None
        A target that is ignored, as for `LogLoss`.

    See Also
    --------
    LogLoss : The same from logits.

    Notes
    -----
    :math:`\ell(p, y) = -\log p_y`, where logarithms are clamped at -100 (or at that of the smallest
    normal number, -87 in float32), as in PyTorch's ``binary_cross_entropy``. There the
    gradient is 0. PyTorch's ``nll_loss`` reads log probabilities instead.

    Examples
    --------
    >>> from sknet.losses import NLL
    >>> NLL().values([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]], [0, 2]).numpy()
    array([0.1054, 0.6931])
    """

    tasks = ("multiclass",)
    of_probabilities = True

    _parameter_constraints = {"class_weight": ["array-like", dict, None], "ignore_index": [Integral, None]}

    def __init__(self, class_weight: Any = None, ignore_index: int | None = None) -> None:
        self.class_weight = class_weight
        self.ignore_index = ignore_index

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return class_values(self, self._class_values, as_tensor(output), as_tensor(target))

    def _class_values(self, p: Tensor, y: Tensor) -> Tensor:
        values, weights = -_log(of_class(p, y)), class_weights(self, p)
        return values if weights is None else values * ops.take(weights, ops.squeeze(y, -1), from_end=False)

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return class_counts(self, as_tensor(output), as_tensor(target))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        check_classes(y, name, n_outputs, self.ignore_index)


class BinaryCrossEntropy(Loss):
    r"""Log loss of labels that are 0 or 1, from probabilities.

    For a network that ends in a sigmoid, with one output or one for each of several labels.
    `LogLoss` computes the same from logits, with fewer operations and full precision: prefer it if
    the network can end before the sigmoid.

    See Also
    --------
    LogLoss : The same from logits.

    Notes
    -----
    Summed over outputs,

    .. math:: \ell(p, y) = -y \log p - (1 - y) \log(1 - p), \qquad 0 \le y \le 1,

    where logarithms are clamped at -100 (or at that of the smallest normal number, -87 in
    float32), as in PyTorch's ``binary_cross_entropy``. There the gradient is 0.

    Examples
    --------
    >>> from sknet.losses import BinaryCrossEntropy
    >>> BinaryCrossEntropy().values([[0.9], [0.5]], [1, 0]).numpy()
    array([0.1054, 0.6931])
    """

    tasks = ("binary", "multilabel")
    of_probabilities = True

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        p, y = self.pair(output, target)
        return -self.total(y * _log(p) + (1.0 - y) * _log(1.0 - p))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject((y < 0) | (y > 1), y, name, "between 0 and 1 for BinaryCrossEntropy")


class KLDivergence(Loss):
    r"""Kullback-Leibler divergence of the predicted distribution from the target distribution.

    For targets that are distributions themselves: shares of votes, or what another network
    predicts (distillation). The output is logits, a column for each outcome.

    Notes
    -----
    Along the last axis [1]_, with :math:`q` the softmax of the logits,

    .. math:: \ell(z, y) = \sum_k y_k (\log y_k - \log q_k).

    The first term does not depend on the output; it makes 0 the smallest value. PyTorch's ``kl_div``
    reads log probabilities instead.

    References
    ----------
    .. [1] S. Kullback and R. A. Leibler, "On Information and Sufficiency", The Annals of
       Mathematical Statistics 22(1), 1951.

    Examples
    --------
    >>> from sknet.losses import KLDivergence
    >>> KLDivergence().values([[0.0, 0.0], [0.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]).numpy()
    array([0.    , 0.6931])
    """

    tasks = ("regression",)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim < 2 or z.shape[-1] < 2:  # the softmax of a single outcome is always 1
            raise shape_error(self, z.shape, y.shape, expected="(n_samples, n_outcomes), as the output has")
        z, y = self.pair(z, y)
        return self.total(ops.xlogy(y, y) - y * ops.log_softmax(z, axis=-1))

    def predict(self, output: Tensor) -> Tensor:
        return ops.softmax(as_tensor(output), axis=-1)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        if y.ndim < 2 or y.shape[-1] < 2:
            raise ValueError(f"{name} must have a column for each outcome, but its shape is {y.shape}")
        reject(y < 0, y, name, "0 or more for KLDivergence, whose targets are probabilities")
        totals = y.sum(axis=-1)
        reject(np.abs(totals - 1) > 1e-4, totals, f"the sum over {name}'s columns", "1 for KLDivergence")


def _log(p: Tensor) -> Tensor:
    """Return the logarithm, clamped at -100 or at that of the smallest normal number."""
    return ops.log(ops.clip(p, min=max(math.exp(-100.0), float(np.finfo(p.dtype).tiny))))
