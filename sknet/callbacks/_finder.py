"""Which learning rates a network can be trained with."""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from sknet._params import Interval
from sknet.callbacks._callback import Answer, Callback
from sknet.callbacks._optional import optional
from sknet.callbacks._view import FitView
from sknet.exceptions import NonFiniteError
from sknet.optim.schedules import Exponential

__all__ = ["LearningRateFinder"]

POSITIVE = Interval(Real, 0, None, closed="neither")
MEMORY = 0.9  # how much of the mean of the losses before goes into the next
FEWEST = 5  # losses that tell something


class LearningRateFinder(Callback):
    """Train a copy of the model with ever larger learning rates before the fit begins, and note the losses.

    The fit itself stays as it is, to the bit: neither its weights nor its random state are touched.

    Parameters
    ----------
    min_lr, max_lr : float, default=1e-6, 1.0
        The range of rates, which grow by the same factor from step to step.
    n_steps : int, default=100
        How many rates.
    divergence : float, default=4.0
        The test ends early where the smoothed loss is that many times the smallest one.
    stop : bool, default=False
        Whether the fit ends after the test, before its first step.

    Attributes
    ----------
    rates_, losses_ : ndarray of shape (n_rates,)
        The rates tried, and the loss of the batch before the step with each of them.
    suggestion_ : float
        A tenth of the rate at which the smoothed loss is smallest: NaN if the loss has not fallen.

    Notes
    -----
    The learning rate range test of Smith, "Cyclical Learning Rates for Training Neural Networks" (2017).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import LearningRateFinder
    >>> X, y = load_iris(return_X_y=True)
    >>> finder = LearningRateFinder(max_lr=10.0)
    >>> clf = MLPClassifier(batch_size=16, tol=0.1, random_state=0, callbacks=[finder]).fit(X, y)
    >>> 1e-3 < clf.callbacks_[0].suggestion_ < 1
    True
    """

    _parameter_constraints = {
        "min_lr": [POSITIVE],
        "max_lr": [POSITIVE],
        "n_steps": [Interval(Integral, 2, None, closed="left")],
        "divergence": [Interval(Real, 1, None, closed="neither")],
        "stop": ["boolean"],
    }

    def __init__(
        self,
        min_lr: float = 1e-6,
        max_lr: float = 1.0,
        *,
        n_steps: int = 100,
        divergence: float = 4.0,
        stop: bool = False,
    ) -> None:
        self.min_lr = min_lr
        self.max_lr = max_lr
        self.n_steps = n_steps
        self.divergence = divergence
        self.stop = stop

    _loaded: Mapping[str, Any] = {}

    def on_fit_begin(self, fit: FitView) -> Answer:
        if fit.epoch and self._loaded:  # resumed: the rates were tried before the first step
            self.rates_, self.losses_ = self._loaded["rates"], self._loaded["losses"]
            self.suggestion_ = self._loaded["suggestion"]
            return None
        if self.min_lr >= self.max_lr:
            raise ValueError(
                f"LearningRateFinder tries rates from min_lr to max_lr, got min_lr={self.min_lr} and "
                f"max_lr={self.max_lr}: min_lr must be smaller"
            )
        factor = (self.max_lr / self.min_lr) ** (1 / (self.n_steps - 1))
        model = fit.model.copy()
        optimizer = _with_rate(model.optimizer, Exponential(self.min_lr, factor, unit="step"))
        model.adopt(optimizer, model.loss_function, model.alpha, anew=True)
        losses = self._tested(model, fit.batches)
        self.losses_ = np.array(losses)
        self.rates_ = self.min_lr * factor ** np.arange(len(losses))
        self.suggestion_ = _suggested(self.rates_, _smoothed(self.losses_))
        return "stop" if self.stop else None

    def state(self) -> dict[str, Any]:
        """Return what was found."""
        return {"rates": self.rates_, "losses": self.losses_, "suggestion": self.suggestion_}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Keep what was found, if the fit is resumed; one that continues another tries anew."""
        self._loaded = state

    def _tested(self, model: Any, batches: Any) -> list[float]:
        """Return the losses of the steps, up to the one that diverges."""
        losses: list[float] = []
        mean, best = 0.0, math.inf
        for X, y, weight in _endless(model, batches):
            try:
                result = model.step(X, y, weight)
            except NonFiniteError:
                break
            losses.append(result.loss)
            mean = MEMORY * mean + (1 - MEMORY) * losses[-1]
            smoothed = mean / (1 - MEMORY ** len(losses))
            best = min(best, smoothed)
            # Losses below zero, as those of a density, have no multiple that would say anything.
            if len(losses) == self.n_steps or (best > 0 and smoothed > self.divergence * best):
                break
        return losses

    def plot(self, ax: Any = None) -> Any:
        """Plot losses over rates, with the suggestion; it needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where; None makes a new figure.

        Returns
        -------
        Axes
            The same.

        Raises
        ------
        AttributeError
            Before a fit: the object that has run is the fitted estimator's, in its `callbacks_`.
        """
        if not hasattr(self, "rates_"):
            raise AttributeError(
                "this LearningRateFinder has not run: fit the estimator, and plot the one in its callbacks_"
            )
        if ax is None:
            ax = optional("matplotlib.pyplot", "LearningRateFinder.plot", "plot").subplots()[1]
        ax.plot(self.rates_, self.losses_, alpha=0.3)
        ax.plot(self.rates_, _smoothed(self.losses_), label="loss")
        if not math.isnan(self.suggestion_):
            ax.axvline(self.suggestion_, linestyle="--", label=f"suggestion {self.suggestion_:.2g}")
        ax.set(xscale="log", xlabel="learning rate", ylabel="loss")
        ax.legend()
        return ax


def _endless(model: Any, batches: Any) -> Any:
    """Yield batches in which some row counts, epoch after epoch, each in an order of its own."""
    while True:
        order = model.random_state.permutation(batches.n_samples)
        for number in range(batches.n_batches):
            if batches.in_a_row(order, number, 1):
                yield batches.take(batches.part(order, number)[0])


def _with_rate(optimizer: Any, schedule: Any) -> Any:
    """Return an optimizer like this one with another learning rate, wherever that is set in it."""
    changed = clone(optimizer)
    names = [name for name in changed.get_params() if f"__{name}".endswith("__lr")]
    names = [name for name in names if "lr__" not in name]  # those inside of a schedule
    if not changed.goes_in_steps or not names:
        raise ValueError(f"LearningRateFinder needs an optimizer with a learning rate, got {optimizer!r}")
    return changed.set_params(**dict.fromkeys(names, schedule))


def _smoothed(losses: Any) -> Any:
    """Return running means with exponential weights, each divided by the sum of its weights."""
    means, mean = np.empty(len(losses)), 0.0
    for i, loss in enumerate(losses):
        mean = MEMORY * mean + (1 - MEMORY) * loss
        means[i] = mean / (1 - MEMORY ** (i + 1))
    return means


def _suggested(rates: Any, losses: Any) -> float:
    """Return a tenth of the rate at which the loss is smallest, if it has fallen."""
    lowest = int(np.argmin(losses)) if len(losses) >= FEWEST else 0
    return float(rates[lowest] / 10) if lowest else math.nan
