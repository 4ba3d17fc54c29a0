"""Fits that take the steps of an earlier one give the same bits as fits that make their own."""

import gc
import multiprocessing
import pickle
import threading
import weakref
from contextlib import contextmanager

import numpy as np
import pytest

import sknet
from sknet import Model, nn
from sknet.callbacks import Callback
from sknet.engine import _runner_cache
from sknet.engine._runner_cache import ALONE
from sknet.engine._runners import CompiledSteps
from sknet.optim import SGD, Adam
from tests.engine.test_many import FAMILIES, LABELS, Steeper, SteeperAtLast, X, given, network, trace

MAKERS = [
    lambda i: Model(network(nn.ReLU()), "log_loss", Adam(0.01 + 0.01 * i), random_state=i),
    lambda i: Model(network(nn.Tanh()), "log_loss", SGD(0.1), alpha=0.1 * i, random_state=i),
    lambda i: Model(network(nn.BatchNorm(8)), "log_loss", SGD(0.1, momentum=0.9), random_state=i),
    lambda i: Model(network(nn.LeakyReLU(0.1 + i)), "log_loss", SGD(0.1), random_state=i),
]


@pytest.fixture(autouse=True)
def _nothing_idle():
    ALONE.clear()
    yield
    ALONE.clear()


@contextmanager
def each_its_own():
    """Let no fit leave its steps to another one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_runner_cache, "MOST_EPOCHS_ALONE", -1)
        yield


@pytest.fixture
def taken(monkeypatch):
    """A list with an entry for each fit that took steps of another one."""
    found, bind = [], CompiledSteps.bind
    monkeypatch.setattr(CompiledSteps, "bind", lambda *args: found.append(args) or bind(*args))
    return found


@pytest.mark.parametrize("native", ["always", "never"])
@pytest.mark.parametrize("name", FAMILIES)
def test_one_after_the_other(name, native):
    make, options = FAMILIES[name]
    A, y, options = given(options)

    def fits():
        models = [make(i) for i in range(4)]
        return trace(models, [model.fit(A, y, **options) for model in models])

    with sknet.config_context(native=native):
        with each_its_own():
            wanted = fits()
        assert fits() == wanted


def test_the_second_fit_takes_the_steps_of_the_first(taken):
    for i in range(3):
        MAKERS[0](i).fit(X, LABELS, epochs=2)
    assert len(taken) == 2


KINDS = [*["new"] * 3, *["fit"] * 3, "step", "change", "pickle", "fails"]


def drawn(seed):
    """Return what is done in a random order with models of few structures: functions of a list of models."""
    rng = np.random.default_rng(seed)
    done = []
    for number in range(30):
        which, size, rows = rng.integers(4), int(rng.choice([16, 30])), int(rng.choice([60, 90]))
        epochs, native = int(rng.integers(1, 4)), str(rng.choice(["always", "never"]))
        kind = rng.choice(
            ["new", "fit", "step", "change", "pickle", "fails"], p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]
        )
        done.append((kind, int(which), number, size, rows, epochs, native))
    return done


class Fails(Callback):
    def on_epoch_end(self, fit):
        raise RuntimeError("in a callback")


def do(models, what):
    """Do one thing, and return what can be seen of it."""
    kind, which, number, size, rows, epochs, native = what
    if kind == "new" or not models:
        models.append(MAKERS[which](number))
    place = number % len(models)
    model, history = models[place], {}
    options = {"epochs": epochs, "batch_size": size}
    if kind == "pickle":
        model = models[place] = pickle.loads(pickle.dumps(model))
    if kind == "step":
        model.step(X[:size], LABELS[:size])
    if kind == "change":
        model.module[0].weight.data = np.full_like(model.module[0].weight.numpy(), 0.01 * number)
        model.alpha = 0.05 * which
    with sknet.config_context(native=native):
        if kind == "fails":
            with pytest.raises(RuntimeError, match="in a callback"):
                model.fit(X[:rows], LABELS[:rows], callbacks=[Fails()], **options)
        elif kind in ("new", "fit"):
            history = model.fit(X[:rows], LABELS[:rows], **options)
    return trace([model], [history]), model.predict(X[:3]).tobytes()


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_between_fits(seed, taken):
    shared, own = [], []
    for what in drawn(seed):
        with each_its_own():
            wanted = do(own, what)
        assert do(shared, what) == wanted
    assert taken


@pytest.mark.parametrize("callback", [Steeper, SteeperAtLast])
def test_what_a_callback_changes_does_not_reach_the_next_fit(callback):
    def fits():
        models = [MAKERS[3](0) for _ in range(4)]
        with_callback = [[callback()] if i in (0, 2) else [] for i in range(4)]
        histories = [
            model.fit(X, LABELS, epochs=3, batch_size=64, callbacks=each)
            for model, each in zip(models, with_callback, strict=True)
        ]
        return trace(models, histories)

    with each_its_own():
        wanted = fits()
    assert fits() == wanted


def test_models_and_rows_are_let_go():
    A = X.copy()
    model = MAKERS[0](0)
    model.fit(A, LABELS, epochs=2)
    gone = [weakref.ref(each) for each in (A, model, model.module, model.module[0], model.optimizer)]
    del A, model
    gc.collect()
    assert [each() for each in gone] == [None] * len(gone)


def test_large_or_long_fits_leave_nothing():
    for width, epochs, batch in ((9000, 1, 16), (8, 101, 90)):
        Model(nn.Sequential(nn.Linear(6, width), nn.Linear(width, 3)), "log_loss", random_state=0).fit(
            X, LABELS, epochs=epochs, batch_size=batch
        )
    wide = np.ones((3000, 1000), "f4")
    Model(nn.Linear(1000, 3), "log_loss", random_state=0).fit(
        wide, np.arange(3000) % 3, epochs=1, batch_size=len(wide)
    )
    rows = np.tile(X, (2000, 1))
    Model(network(nn.ReLU()), "log_loss", random_state=0).fit(
        rows, np.tile(LABELS, 2000), epochs=1, batch_size=len(rows)
    )
    assert not ALONE._objects


def test_threads():
    """Two fits at a time never have the same steps."""
    wanted = [fitted(i) for i in range(8)]
    found = {}
    threads = [
        threading.Thread(target=lambda k=k: found.update({i: fitted(i) for i in range(k, 8, 4)}))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(8)] == wanted


def fitted(seed):
    model = MAKERS[0](seed)
    model.fit(X, LABELS, epochs=5)
    return model.weights().flat.tobytes()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_waits_for_no_thread_of_its_parent():
    wanted = fitted(0)
    with ALONE._lock, multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(fitted, (0,)).get(60) == wanted
