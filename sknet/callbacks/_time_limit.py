"""Ending a fit after some time."""

import time
from numbers import Real

from sknet._params import Interval
from sknet.callbacks._callback import Answer, Callback
from sknet.callbacks._view import FitView

__all__ = ["TimeLimit"]


class TimeLimit(Callback):
    """End a fit normally after some seconds, even in the middle of an epoch.

    Parameters
    ----------
    seconds : float
        The time limit of one call of `fit` or `partial_fit`. The current block of steps, which takes about a
        twentieth of a second, is finished, and the callbacks of the epoch are called. A fit that is resumed
        from a `Checkpoint` has the same time again.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPRegressor
    >>> from sknet.callbacks import TimeLimit
    >>> X = np.random.default_rng(0).normal(size=(1000, 5))
    >>> net = MLPRegressor(max_iter=10**6, n_iter_no_change=np.inf, callbacks=[TimeLimit(0.2)])
    >>> 0 < net.fit(X, X[:, 0]).n_iter_ < 10**6
    True
    """

    may_warn = False
    pauses = True
    _parameter_constraints = {"seconds": [Interval(Real, 0, None, closed="left")]}
    _stored_fields = {
        "_end": float,
    }

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def on_fit_begin(self, fit: FitView) -> None:
        self._end = time.monotonic() + self.seconds

    def on_block_end(self, fit: FitView) -> Answer:
        return "stop" if time.monotonic() >= self._end else None

    def on_epoch_end(self, fit: FitView) -> Answer:
        return self.on_block_end(fit)  # validation and other callbacks take time too
