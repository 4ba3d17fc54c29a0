"""Fits in several threads and processes, and fits that end early."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info

import sknet
from sknet.losses import Huber
from sknet.tabular import Members, TabularRegressor
from tests.tabular.test_training import frame

X, LABELS = frame(300)
FEW = Members(hidden_layer_sizes=[12], epochs=3)
SMALL = {"n_folds": 2, "smooth": FEW, "sharp": FEW, "random_state": 0}


def blas():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.fixture
def lazily(limits):
    """Let rows of all tables be computed when they are read."""
    limits("bytes of encoded tables", 0)


def predicted(native="always", **params):
    with sknet.config_context(native=native):
        return TabularRegressor(**SMALL, **params).fit(X, LABELS).predict(X)


# -- what ends all members -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("budget", [1.0, "1000s"])
def test_ctrl_c_ends_all_members_and_leaves_the_estimator(n_jobs, budget):
    model = TabularRegressor(n_jobs=n_jobs, n_folds=2, budget=0.1, sharp=FEW, smooth=FEW).fit(X, LABELS)
    before, fitted = model.predict(X), dict(vars(model))
    endless = Members(epochs=10**6)
    model.set_params(budget=budget, sharp=endless, smooth=endless)
    press = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    press.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS)
    assert time.monotonic() - began < 20  # each of the members would take hours
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]
    np.testing.assert_array_equal(model.predict(X), before)
    assert vars(model).keys() == fitted.keys()


class Breaks(Huber):
    """A loss that fails in some thread, while others would train for hours."""

    lock, calls = threading.Lock(), 0

    def values(self, output, target):
        with self.lock:
            type(self).calls += 1
            if self.calls == 3:
                raise RuntimeError("broken")
        return super().values(output, target)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_of_one_member_ends_all_and_says_which(n_jobs):
    Breaks.calls = 0
    endless = Members(epochs=10**6) if n_jobs > 1 else FEW
    model = TabularRegressor(loss=Breaks(), n_jobs=n_jobs, smooth=None, sharp=endless, random_state=0)
    with pytest.raises(RuntimeError, match="broken") as found:
        model.fit(X, LABELS)
    [note] = found.value.__notes__
    assert note.startswith("in the sharp members of fold ")


# -- fits at the same time -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("native", ["never", "always"])
def test_fits_in_threads_are_those_one_after_the_other(native, lazily):
    found, jobs = {}, {"a": 1, "b": 2, "c": None}
    expected = predicted(native)
    threads = [
        threading.Thread(target=lambda name=name, n=n: found.update({name: predicted(native, n_jobs=n)}))
        for name, n in jobs.items()
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found.keys() == jobs.keys()
    for each in found.values():
        np.testing.assert_array_equal(each, expected)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_fits_in_joblib_are_those_of_this_process(backend, lazily):
    expected = predicted()
    for found in Parallel(2, backend=backend)(delayed(predicted)(n_jobs=n) for n in (1, 2, None)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(sys.platform != "linux", reason="fork is for Linux")
def test_a_forked_process_fits_and_predicts_alike(lazily):
    with sknet.config_context(native="always"):
        model = TabularRegressor(**SMALL).fit(X, LABELS)
    expected = model.predict(X)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def child():
        answers.put((model.predict(X), predicted(n_jobs=2)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        process = context.Process(target=child)
        process.start()
    found = answers.get()
    process.join()
    for each in found:
        np.testing.assert_array_equal(each, expected)


# -- cores for products --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fits_that_overlap_leave_the_number_of_cores_as_it_was():
    before = blas()
    begun = threading.Event()

    class Begins(Huber):
        def values(self, output, target):
            begun.set()
            return super().values(output, target)

    def other():
        begun.wait()
        TabularRegressor(**SMALL, n_jobs=1, budget=20.0).fit(X, LABELS)

    thread = threading.Thread(target=other)
    thread.start()
    TabularRegressor(**SMALL, loss=Begins(), n_jobs=1).fit(X, LABELS)
    thread.join()
    assert blas() == before
