"""The native executor, compiled: it trains as NumPy's plan does, and finds its code again."""

import shutil
import sys
import threading

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.compile.executors.native._cache import Function
from sknet.compile.executors.native._folder import cache_directory
from sknet.engine import Batches
from sknet.engine.loop import _native_steps as native
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._native_steps import NativeSteps
from sknet.engine.loop._steps import CompiledSteps
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam
from tests.compile.native import assert_equal_training, trained

numba = pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")

SETTINGS = {"loss": "log_loss", "optimizer": Adam(lr=0.01), "alpha": 0.01}


@pytest.fixture(scope="module", autouse=True)
def _directory(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKNET_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("SKNET_NATIVE", "1")
        yield


class WaitingSteps(NativeSteps):
    def __init__(self, *args):
        super().__init__(*args, waits_for=sys.maxsize)


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))


def data(n_rows=210, dtype="float32"):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_rows, 20)).astype(dtype), rng.integers(0, 3, n_rows)


@pytest.mark.parametrize("shuffle", [False, True])
def test_fifty_steps_with_a_short_last_batch(shuffle):
    X, y = data()
    order = np.random.default_rng(1).permutation(210) if shuffle else None
    steps = assert_equal_training(
        WaitingSteps, network, X, y, order=order, size=64, epochs=13, tolerance=2e-4, **SETTINGS
    )
    assert steps._runs[64].is_known
    assert steps._runs[210 % 64].is_known


def test_double_precision():
    X, y = data(dtype="float64")
    assert_equal_training(
        WaitingSteps, network, X, y, size=50, epochs=10, dtype="float64", tolerance=1e-11, **SETTINGS
    )


def test_batches_of_zero_weight_are_skipped():
    X, y = data()
    weight = np.random.default_rng(2).uniform(0, 2, 210)
    weight[60:120] = 0

    def fitted(native):
        patch.setenv("SKNET_NATIVE", native)
        settings = {"batch_size": 30, "shuffle": False, "max_iter": 4, "random_state": 0, "tol": 0.0}
        return MLPClassifier((30,), **settings, n_iter_no_change=10).fit(X, y, sample_weight=weight)

    with pytest.MonkeyPatch.context() as patch, pytest.warns(UserWarning, match="Maximum iterations"):
        found, expected = fitted("1"), fitted("0")
    np.testing.assert_allclose(found.loss_curve_, expected.loss_curve_, rtol=1e-5)


def test_what_is_not_finite_stops_before_the_update():
    X, y = data()
    X[150, 0] = np.inf
    model = Model(network(), random_state=0, **SETTINGS)
    steps = WaitingSteps(model, Batches(X, y, None, 30, model.dtype, model.device), True, 7)
    block = steps.run(None, 0)
    assert len(block.losses) == 5
    assert model.progress.step == 5
    before = model.state
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="nothing was updated"):
        steps.run(None, 5)
    for name, array in model.state.parameters.items():
        np.testing.assert_array_equal(array, before.parameters[name])
        assert np.isfinite(array).all()


def test_a_gradient_whose_squares_overflow_is_finite():
    X, y = data()
    X[150, 0] = 1e25
    for optimizer in (SGD(lr=1e-30), Adam()):
        model = Model(network(), loss="log_loss", optimizer=optimizer, random_state=0)
        steps = WaitingSteps(model, Batches(X, y, None, 30, model.dtype, model.device), True, 7)
        with np.errstate(over="ignore"):
            assert len(steps.run(None, 0).losses) == 5
            if isinstance(optimizer, SGD):
                assert [len(steps.run(None, first).losses) for first in (5, 6)] == [1, 1]
            else:
                with pytest.raises(
                    NonFiniteError, match=r"'0\.weight' is finite, but the optimizer squares it"
                ):
                    steps.run(None, 5)
        assert np.isfinite(model.memory.flat_buffers()[0]).all()


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


def new_steps(kind=WaitingSteps, optimizer=None, planned=10**6):
    X, y = data()
    model = Model(network(), random_state=0, **{**SETTINGS, "optimizer": optimizer or Adam()})
    return kind(model, Batches(X, y, None, 30, model.dtype, model.device), True, planned)


def test_a_process_of_its_own_compiles_what_pays():
    run = new_steps(NativeSteps, SGD(0.1))._runs[30]
    assert not run.is_ready(0.1)
    assert not list(cache_directory().glob("*.claim"))
    assert not run.is_ready(1e6)
    assert list(cache_directory().glob("*.claim"))
    for _ in range(2400):
        if run.is_ready(1e6):
            break
        threading.Event().wait(0.05)
    assert run.is_known
    for _ in range(100):
        if not list(cache_directory().glob("*.claim")):
            break
        threading.Event().wait(0.05)
    assert not list(cache_directory().glob("*.claim"))


def test_a_fit_goes_on_by_numpy_where_native_code_fails(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    steps = new_steps(NativeSteps, SGD(0.1, momentum=0.9))
    for _ in range(100):
        assert not steps._runs[30].is_ready(1e6)
        threading.Event().wait(0.01)
    assert len(steps.run(None, 0).losses) == 1


def test_data_that_native_code_cannot_read_is_left_to_numpy():
    X, y = data()
    X = X[:, :20].astype("float32")
    memory = np.zeros(X.nbytes + 1, np.uint8)[1:]  # numbers that begin at odd addresses
    memory[:] = X.reshape(-1).view(np.uint8)
    model = Model(network(), random_state=0, **SETTINGS)
    batches = Batches(memory.view(X.dtype).reshape(X.shape), y, None, 30, model.dtype, model.device)
    with pytest.raises(native.UnsupportedError, match="data that is not aligned in memory"):
        NativeSteps(model, batches, True, 10)
    assert type(steps_for(model, batches, True, 10, seeded=False)) is CompiledSteps


def test_without_numba_steps_are_numpys(monkeypatch):
    monkeypatch.setattr("sknet.compile.executors.native._run.has_numba", lambda: False)
    with pytest.raises(native.UnsupportedError, match="Numba is not installed"):
        new_steps()


def test_the_environment_can_do_without(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "0")
    X, y = data()
    model = Model(network(), random_state=0, **SETTINGS)
    batches = Batches(X, y, None, 30, model.dtype, model.device)
    assert type(steps_for(model, batches, True, 10, seeded=True)) is CompiledSteps


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_seeded_fit_is_native_from_its_first_step_on():
    X, y = data(2000)
    first, again = (MLPClassifier((30,), max_iter=5, tol=0, random_state=0).fit(X, y) for _ in range(2))
    assert first.loss_curve_ == again.loss_curve_
    for mine, theirs in zip(first.coefs_, again.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_compiler_that_fails_does_not_stop_a_fit(monkeypatch):
    def broken(self):
        raise RuntimeError("the compiler is broken")

    monkeypatch.setattr(Function, "wait", broken)
    X, y = data()
    with pytest.warns(UserWarning, match="no native code, so the fit uses NumPy: .*compiler is broken"):
        assert MLPClassifier((30,), max_iter=2, random_state=0).fit(X, y).n_iter_ == 2
