"""Compiled native code is found again, and a fit switches to it without a trace."""

import itertools
import subprocess
import sys
import threading

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.compile.executors.native import Runner, UnsupportedError, runner
from sknet.compile.executors.native._cache import Function
from sknet.compile.executors.native._loaded import BY_HAND, BY_LLVM, is_placed_by_hand
from sknet.engine import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._native_steps import NativeSteps
from sknet.engine.loop._steps import CompiledSteps
from sknet.exceptions import NonFiniteError
from sknet.losses import SquaredError
from sknet.optim import SGD, Adam
from tests.compile.native import ChangingSteps, WaitingSteps, assert_same_bits, left_by, trained

pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")

SETTINGS = {"loss": "log_loss", "optimizer": Adam(lr=0.01), "alpha": 0.01}


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))


def data(n_rows=210, dtype="float32"):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_rows, 20)).astype(dtype), rng.integers(0, 3, n_rows)


def new_steps(kind=WaitingSteps, X=None, y=None, optimizer=None, planned=10**6):
    given = data()
    X, y = given[0] if X is None else X, given[1] if y is None else y
    model = Model(network(), random_state=0, **{**SETTINGS, "optimizer": optimizer or Adam()})
    return kind(model, Batches(X, y, None, 30, model.dtype, model.device), True, planned)


# -- switching over -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 30, 64])
def test_steps_may_change_over_at_any_time(size, shuffle, dtype):
    X, y = data(dtype=dtype)
    order = np.random.default_rng(1).permutation(210) if shuffle else None
    found = {}
    for kind in (CompiledSteps, WaitingSteps, ChangingSteps):
        model, losses, outputs, _ = trained(
            kind, network(), X, y, order=order, size=size, epochs=3, dtype=dtype, **SETTINGS
        )
        found[kind] = left_by(model) | {"losses": losses, "outputs": outputs}
    assert_same_bits(found[WaitingSteps], found[CompiledSteps])
    assert_same_bits(found[ChangingSteps], found[CompiledSteps])


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("seed", range(6))
def test_a_seeded_fit_has_the_same_bits_whenever_native_code_is_ready(seed, monkeypatch):
    """It is said to be ready at a random time, as it is on a machine that has to compile it first."""
    rng = np.random.default_rng(seed)
    X, y = data(300)
    settings = {
        "activation": str(rng.choice(["relu", "tanh", "logistic"])),
        "optimizer": str(rng.choice(["adam", "sgd"])),
        "batch_size": int(rng.integers(7, 60)),
        "early_stopping": bool(rng.integers(2)),
    }

    def fitted(native):
        monkeypatch.setenv("SKNET_NATIVE", native)
        return MLPClassifier((30,), max_iter=8, random_state=seed, **settings).fit(X, y)

    fits = [fitted("never"), fitted("always")]
    calls, begin = itertools.count(), int(rng.integers(1, 8))
    loaded = runner().steps

    def is_ready(self, remaining):
        if next(calls) >= begin:
            self.steps = loaded
        return self.steps is not None

    monkeypatch.setattr("sknet.engine.loop._native_steps.SECONDS", -1.0)  # it is asked before each step
    monkeypatch.setattr(runner(), "steps", None)
    monkeypatch.setattr(Runner, "is_ready", is_ready)
    fits.append(fitted("auto"))
    assert next(calls) == begin + 1
    assert runner().steps is loaded
    weights = fits[0].coefs_ + fits[0].intercepts_
    for other in fits[1:]:
        assert other.loss_curve_ == fits[0].loss_curve_
        assert other.predict_proba(X).tobytes() == fits[0].predict_proba(X).tobytes()
        for mine, theirs in zip(other.coefs_ + other.intercepts_, weights, strict=True):
            assert mine.tobytes() == theirs.tobytes()


def test_native_code_is_not_asked_for_by_short_fits(monkeypatch):
    asked = []
    monkeypatch.setattr(Function, "get", lambda self, worth: asked.append(worth))
    mine = Runner()
    enough = BY_HAND if is_placed_by_hand() else BY_LLVM
    assert not mine.is_ready(enough / 2)
    assert asked == []
    mine.note(enough)  # what earlier fits of this process took counts, too
    assert not mine.is_ready(enough / 2)
    assert asked == [1.5 * enough]


AT_ONCE = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from sknet.compile.executors.native import Runner, runner

make, barrier = Runner.__init__, threading.Barrier(8)

def slowly(self, *given):
    time.sleep(0.1)
    make(self, *given)

def asked(_):
    barrier.wait()
    return runner()

Runner.__init__ = slowly
with ThreadPoolExecutor(8) as pool:
    print(len(set(map(id, pool.map(asked, range(8))))))
"""


def test_threads_that_begin_at_once_share_one_runner():
    done = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


# -- what goes wrong ----------------------------------------------------------------------------


def test_batches_without_weight_are_left_out(monkeypatch):
    X, y = data()
    weight = np.random.default_rng(2).uniform(0, 2, 210)
    weight[60:120] = 0

    def fitted(native):
        monkeypatch.setenv("SKNET_NATIVE", native)
        settings = {"batch_size": 30, "shuffle": False, "max_iter": 4, "random_state": 0, "tol": 0.0}
        return MLPClassifier((30,), **settings, n_iter_no_change=10).fit(X, y, sample_weight=weight)

    with pytest.warns(UserWarning, match="Maximum iterations"):
        assert fitted("always").loss_curve_ == fitted("never").loss_curve_


def test_non_finite_values_stop_before_the_update():
    X, y = data()
    X[150, 0] = np.inf
    steps = new_steps(X=X, y=y)
    model = steps.model
    assert len(steps.run(None, 0).losses) == 5
    assert model.progress.step == 5
    before = left_by(model)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="nothing was updated"):
        steps.run(None, 5)
    assert_same_bits(left_by(model), before)


def test_a_gradient_whose_squares_overflow_is_finite():
    X, y = data()
    X[150, 0] = 1e25
    with np.errstate(over="ignore"):
        steps = new_steps(X=X, y=y, optimizer=SGD(lr=1e-30))
        assert [len(steps.run(None, first).losses) for first in (0, 5, 6)] == [5, 1, 1]
        steps = new_steps(X=X, y=y, optimizer=Adam())
        assert len(steps.run(None, 0).losses) == 5
        with pytest.raises(NonFiniteError, match=r"'0\.weight' is finite, but the optimizer squares it"):
            steps.run(None, 5)
    assert np.isfinite(steps.model.memory.flat_buffers()[0]).all()


def test_four_fits_in_threads_are_as_four_in_a_row():
    X, y = data()
    results = [None] * 4

    def fit(i):
        settings = {**SETTINGS, "optimizer": Adam(lr=0.01 * (i + 1))}
        results[i] = trained(WaitingSteps, network(), X, y, size=30, epochs=20, **settings)[1]

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = list(results)
    for i in range(4):
        fit(i)
        np.testing.assert_array_equal(together[i], results[i])


def test_unsupported_data_use_numpy():
    X, y = data()
    memory = np.zeros(X.nbytes + 1, np.uint8)[1:]  # numbers that begin at odd addresses
    memory[:] = X.reshape(-1).view(np.uint8)
    steps = new_steps(X=memory.view(X.dtype).reshape(X.shape), y=y)
    assert len(steps.run(None, 0).losses) == 1
    assert steps.runs == [None]


def test_without_numba_steps_use_numpy(monkeypatch):
    monkeypatch.setattr("sknet.compile.executors.native._loaded.has_numba", lambda: False)
    with pytest.raises(UnsupportedError, match="Numba is not installed"):
        new_steps()
    steps = new_steps(lambda model, batches, *rest: steps_for(model, batches, True, 10))
    assert type(steps) is CompiledSteps


@pytest.mark.parametrize(
    ("native", "kind"), [("never", CompiledSteps), ("auto", NativeSteps), ("always", NativeSteps)]
)
def test_the_environment_can_disable_native_code(native, kind, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    assert type(new_steps(lambda model, batches, *rest: steps_for(model, batches, True, 10))) is kind


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_compiler_that_fails_does_not_stop_a_fit(monkeypatch):
    def broken(self):
        raise RuntimeError("the compiler is broken")

    monkeypatch.setenv("SKNET_NATIVE", "always")
    monkeypatch.setattr(Runner, "wait", broken)
    X, y = data()
    with pytest.warns(UserWarning, match="no native code, so the fit uses NumPy: .*compiler is broken"):
        assert MLPClassifier((30,), max_iter=2, random_state=0).fit(X, y).n_iter_ == 2


class BrokenSquaredError(SquaredError):
    def values(self, output, target):
        raise RuntimeError("as told")


def test_an_error_of_a_loss_is_not_one_of_native_code(monkeypatch, recwarn):
    monkeypatch.setenv("SKNET_NATIVE", "always")
    X, y = data()
    with pytest.raises(RuntimeError, match="as told"):
        MLPRegressor((30,), loss=BrokenSquaredError()).fit(X, y)
    assert not recwarn.list
