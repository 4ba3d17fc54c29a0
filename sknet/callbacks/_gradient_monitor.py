"""Norms of gradients."""

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from sknet._fields import COUNT, Arrays, Each, Items
from sknet._params import Interval
from sknet.callbacks._callback import Callback
from sknet.callbacks._view import FitView
from sknet.device import to_host

__all__ = ["GradientMonitor"]


class GradientMonitor(Callback):
    """Measure the gradient after an epoch: its norm for each parameter, and its total norm.

    The gradient is that of one batch, a different one each time, at the weights after the epoch. Computing
    it takes one more forward and backward pass, and does not affect training. The total norm is in the
    history as ``gradient_norm``.

    Parameters
    ----------
    every : int, default=1
        Number of epochs between measurements.

    Attributes
    ----------
    norms_ : dict of str to list of float
        Euclidean norms of the gradient, by parameter.
    weight_norms_ : dict of str to list of float
        Euclidean norms of the parameters themselves.
    epochs_ : list of int
        The epochs of the measurements.

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
    needs = "batches"
    _parameter_constraints = {"every": [Interval(Integral, 1, None, closed="left")]}
    _stored_fields = {
        "epochs_": Each(list, COUNT),
        "norms_": dict[str, list[float]],
        "weight_norms_": dict[str, list[float]],
    }

    def __init__(self, every: int = 1) -> None:
        self.every = every

    _loaded: Mapping[str, Any] = {}
    _state_fields = {
        "epochs": Each(list, COUNT),
        **dict.fromkeys(("norms", "weight_norms"), Items(str, [Arrays("f", "n"), list[float]])),
    }

    def on_fit_begin(self, fit: FitView) -> None:
        known = self._loaded if fit.epoch else {}  # of a fit that is resumed
        self.epochs_: list[int] = list(known.get("epochs", []))
        self.norms_: dict[str, list[float]] = _columns(known.get("norms", {}))
        self.weight_norms_: dict[str, list[float]] = _columns(known.get("weight_norms", {}))

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

    def state(self) -> dict[str, Any]:
        """Return the norms so far."""
        return {
            "epochs": list(self.epochs_),
            "norms": {name: np.array(column) for name, column in self.norms_.items()},
            "weight_norms": {name: np.array(column) for name, column in self.weight_norms_.items()},
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Keep these norms if the fit is resumed; a fit that continues another starts with none."""
        self._loaded = state


def _batch(batches: Any, number: int) -> Any:
    """Return a batch of positive weight."""
    for k in range(batches.n_batches):
        chosen = (number + k) % batches.n_batches
        if batches.in_a_row(None, chosen, 1):
            break
    return batches.take(batches.part(None, chosen)[0])


def _columns(arrays: Mapping[str, Any]) -> dict[str, list[float]]:
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}


def _norm(array: Any) -> float:
    return float(np.linalg.norm(to_host(array).astype(np.float64)))
