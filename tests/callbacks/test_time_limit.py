"""A limit of time ends a fit in order."""

import time

import numpy as np
import pytest

from sknet.callbacks import Callback, TimeLimit
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


def test_it_ends_a_fit_soon():
    started = time.perf_counter()
    clf = fitted(TimeLimit(0.3), max_iter=10**7)
    assert 0.2 < time.perf_counter() - started < 5
    assert 0 < clf.n_iter_ == len(clf.loss_curve_)


def test_it_ends_within_an_epoch():
    clf = fitted(TimeLimit(0.0), max_iter=10)
    assert clf.n_iter_ == 1
    assert 0 < clf.t_ <= 120
    assert np.isfinite(clf.loss_)


def test_the_time_of_other_callbacks_counts():
    class Slow(Callback):
        order = -1

        def on_epoch_end(self, fit):
            time.sleep(0.2)

    assert fitted(Slow(), TimeLimit(0.1), batch_size=120).n_iter_ == 1


@pytest.mark.filterwarnings("error")
def test_a_fit_that_it_ended_does_not_warn():
    classifier(TimeLimit(0.0)).fit(X, Y)


def test_each_call_has_its_own():
    clf = classifier(TimeLimit(0.2))
    with unconverged():
        for _ in range(3):
            clf.partial_fit(X, Y, classes=["no", "yes"])
            time.sleep(0.1)
    assert clf.t_ == 360
