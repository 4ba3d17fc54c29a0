"""Small data and estimators for the tests of callbacks."""

import warnings
from contextlib import contextmanager

import numpy as np

from sknet import MLPClassifier
from sknet.callbacks import Callback

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype("float32")
Y = np.where(X[:, 0] + 0.3 * X[:, 1] + 0.3 * RNG.normal(size=120) > 0, "yes", "no")


class Dies(Callback):
    """Kills a fit at the end of an epoch, when everything else has seen it."""

    order = 2

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_end(self, fit):
        if fit.epoch == self.epoch:
            raise RuntimeError("died")


@contextmanager
def unconverged():
    """Suppress the warning of fits that reach the limit of epochs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Cc]onverge")
        yield


def classifier(*callbacks, **params):
    """Return a small classifier that stops only at the limit or by a callback."""
    defaults = {"tol": 0, "n_iter_no_change": np.inf, "max_iter": 6, "random_state": 0, "batch_size": 16}
    return MLPClassifier((5,), callbacks=list(callbacks), **defaults | params)


def fitted(*callbacks, **params):
    """Return the same, fitted."""
    with unconverged():
        return classifier(*callbacks, **params).fit(X, Y)
