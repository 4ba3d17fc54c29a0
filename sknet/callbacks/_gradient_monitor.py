"""How large gradients are."""

import math
from numbers import Integral
from typing import Any

import numpy as np

from sknet._params import Interval
from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView
from sknet.device import to_host

__all__ = ["GradientMonitor"]


class GradientMonitor(Callback):
    """Measure the gradient after an epoch: its norm for each parameter, and in all.

    The gradient is that of one batch at the weights that the epoch ended with, the next batch each time. It
    is computed beside the training, which stays as it is: the same bits, one more forward and backward
    pass. The norm of all is in the history as ``gradient_norm``.

    Parameters
    ----------
    every : int, default=1
        Epochs from one measurement to the next.

    Attributes
    ----------
    norms_ : dict of str to list of float
        Euclidean norms of the gradient, by parameter.
    weight_norms_ : dict of str to list of float
        Euclidean norms of the parameters themselves.
    epochs_ : list of int
        After which epochs of the fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import GradientMonitor
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0.1, random_state=0, callbacks=[GradientMonitor(every=5)]).fit(X, y)
    >>> monitor = clf.callbacks_[0]
    >>> monitor.epochs_[:2], sorted(monitor.norms_)
    ([5, 10], ['0.bias', '0.weight', '2.bias', '2.weight'])
    """

    order = -1
    _parameter_constraints = {"every": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, every: int = 1) -> None:
        self.every = every

    def on_fit_begin(self, fit: FitView) -> None:
        self.norms_: dict[str, list[float]] = {}
        self.weight_norms_: dict[str, list[float]] = {}
        self.epochs_: list[int] = []

    def on_epoch_end(self, fit: FitView) -> None:
        if fit.epoch % self.every:
            return
        model = fit.model
        X, y, weight = _batch(fit.batches, len(self.epochs_))
        gradient = model.backward(model.loss(model(X), y, weight))
        norms = {name: _norm(array) for name, array in gradient.items()}
        for name, norm in norms.items():
            self.norms_.setdefault(name, []).append(norm)
            self.weight_norms_.setdefault(name, []).append(_norm(model.parameters[name]))
        self.epochs_.append(fit.epoch)
        fit.record["gradient_norm"] = math.hypot(*norms.values())


def _batch(batches: Any, number: int) -> Any:
    """Return a batch in which some row counts."""
    for k in range(batches.n_batches):
        chosen = (number + k) % batches.n_batches
        if batches.in_a_row(None, chosen, 1):
            break
    return batches.take(batches.part(None, chosen)[0])


def _norm(array: Any) -> float:
    return float(np.linalg.norm(to_host(array).astype(np.float64)))
