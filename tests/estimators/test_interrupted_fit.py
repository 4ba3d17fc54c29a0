"""Ctrl-C in a compiled fit, without user code in between."""

import signal
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone

from sknet import config_context
from sknet.callbacks import Callback
from sknet.exceptions import FitInterruptedWarning
from tests.estimators.data import TABLES, estimator_for, quiet

X, Y = TABLES["binary"]


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def endless(**params):
    return estimator_for("binary", max_iter=10**6, tol=0, n_iter_no_change=np.inf, **params)


def losses_of_as_many_epochs(estimator):
    """Return the losses of a fit that ends there by itself: if it is short, by steps that fits share."""
    again = clone(estimator).set_params(max_iter=estimator.n_iter_, callbacks=None)
    with quiet():
        return again.fit(X, Y).loss_curve_


def press_once_it_trains():
    """Press Ctrl-C a while after a fit has begun to defer it."""
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(0.01)
    time.sleep(0.3)
    signal.raise_signal(signal.SIGINT)


def test_by_a_real_signal_from_another_thread():
    estimator = endless()
    thread = threading.Thread(target=press_once_it_trains)
    thread.start()
    with pytest.warns(FitInterruptedWarning, match=r"after \d+ whole epochs; what was learned is kept"):
        estimator.fit(X, Y)
    thread.join()
    assert estimator.n_iter_ == len(estimator.history_["loss"]) > 0
    assert estimator.score(X, Y) > 0.5
    assert losses_of_as_many_epochs(estimator) == estimator.loss_curve_


class Press(Callback):
    """Press Ctrl-C at the end of an epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch_end(self, fit):
        if fit.epoch == self.epoch:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("native", ["never", "auto", "always"])
@pytest.mark.parametrize("epoch", [1, 7, 99, 150])
def test_a_fit_that_is_ended_has_the_bits_of_one_that_ends_there(epoch, native):
    """Of few epochs and of many."""
    if native == "always":
        pytest.importorskip("sknet._native._core", reason="native code was not built")
    estimator = endless(callbacks=[Press(epoch)])
    with config_context(native=native):
        with pytest.warns(FitInterruptedWarning):
            estimator.fit(X, Y)
        assert estimator.n_iter_ == epoch
        assert losses_of_as_many_epochs(estimator) == estimator.loss_curve_
