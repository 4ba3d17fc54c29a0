"""The learning rate range test."""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._fields import Arrays
from sknet._late import optional
from sknet._params import Interval
from sknet.callbacks._callback import Answer, Callback, FitView
from sknet.exceptions import NonFiniteError
from sknet.optim.schedules import Exponential

POSITIVE = Interval(Real, 0, None, closed="neither")
MEMORY = 0.9  # weight of earlier losses in the running mean
FEWEST = 5  # the least number of losses for a suggestion


class LearningRateFinder(Callback):
    """Train a copy of the model with increasing learning rates before the fit, and record the losses.

    The fit itself is not affected: neither its weights nor its random state change.

    Parameters
    ----------
    min_lr, max_lr : float, default=1e-6, 1.0
        The range of rates, which grow by the same factor from step to step.
    n_steps : int, default=100
        Number of rates.
    divergence : float, default=4.0
        The test ends early if the smoothed loss exceeds the smallest one by this factor.
    stop : bool, default=False
        Whether the fit ends after the test, before its first step.

    Attributes
    ----------
    rates_, losses_ : ndarray of shape (n_rates,)
        The rates tried, and for each the loss of the batch before the step.
    suggestion_ : float
        A tenth of the rate with the smallest smoothed loss; NaN if the loss has not decreased.

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

    needs = "batches"
    _parameter_constraints = {
        "min_lr": [POSITIVE],
        "max_lr": [POSITIVE],
        "n_steps": [Interval(Integral, 2, None, closed="left")],
        "divergence": [Interval(Real, 1, None, closed="neither")],
        "stop": ["boolean"],
    }
    _stored_fields = {
        "losses_": Arrays("f", "n_steps_"),
        "rates_": Arrays("f", "n_steps_"),
        "suggestion_": [float, None],
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
    _state_fields = {
        "rates": Arrays("f", "n_steps"),
        "losses": Arrays("f", "n_steps"),
        "suggestion": [float, None],
    }

    def on_fit_begin(self, fit: FitView) -> Answer:
        if fit.epoch and self._loaded:  # resumed: the test was done before the first step
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
        if not model.optimizer.goes_in_steps:
            raise ValueError(
                f"LearningRateFinder needs an optimizer with a learning rate, got {shown(model.optimizer)}"
            )
        optimizer = model.optimizer.with_lr(Exponential(self.min_lr, factor, unit="step"))
        model.adopt(optimizer, model.loss_function, model.alpha, anew=True)
        losses = self._tested(model, fit.batches)
        self.losses_ = np.array(losses)
        self.rates_ = self.min_lr * factor ** np.arange(len(losses))
        self.suggestion_ = _suggested(self.rates_, _smoothed(self.losses_))
        return "stop" if self.stop else None

    def state(self) -> dict[str, Any]:
        """Return the results of the test."""
        return {"rates": self.rates_, "losses": self.losses_, "suggestion": self.suggestion_}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the results if the fit is resumed; a fit that continues another repeats the test."""
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
            # For negative losses, such as those of a density, a factor is meaningless.
            if len(losses) == self.n_steps or (best > 0 and smoothed > self.divergence * best):
                break
        return losses

    def plot(self, ax: Any = None) -> Any:
        """Plot losses against rates, with the suggestion, into axes `ax`, None for new ones; return the axes.

        Raises
        ------
        AttributeError
            Before a fit; the object with results is in the fitted estimator's `callbacks_`.
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
    """Yield batches of positive weight forever, each epoch in a new order."""
    while True:
        order = model.random_state.permutation(batches.n_samples)
        for number in range(batches.n_batches):
            if batches.in_a_row(order, number, 1):
                yield batches.take(batches.part(order, number)[0])


def _smoothed(losses: Any) -> Any:
    """Return running means with exponential weights, each divided by the sum of its weights."""
    means, mean = np.empty(len(losses)), 0.0
    for i, loss in enumerate(losses):
        mean = MEMORY * mean + (1 - MEMORY) * loss
        means[i] = mean / (1 - MEMORY ** (i + 1))
    return means


def _suggested(rates: Any, losses: Any) -> float:
    """Return a tenth of the rate with the smallest loss, if the loss has decreased."""
    lowest = int(np.argmin(losses)) if len(losses) >= FEWEST else 0
    return float(rates[lowest] / 10) if lowest else math.nan
