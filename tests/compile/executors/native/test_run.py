"""Training steps in native code: with the bits of NumPy's plan, whatever goes wrong."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.engine import Batches
from sknet.exceptions import NonFiniteError
from sknet.losses import SquaredError
from sknet.optim import SGD, Adam, AdamW, RMSprop
from tests.compile.native import InspectedSteps, assert_same_bits, chosen, left_by, trained
from tests.project import ROOT
from tests.threads import run_in_threads

pytest.importorskip("sknet._native._core", reason="native code was not built")

SETTINGS = {"loss": "log_loss", "optimizer": Adam(lr=0.01), "alpha": 0.01}


def network():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 3))


def data(n_rows=210, dtype="float32"):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n_rows, 20)).astype(dtype), rng.integers(0, 3, n_rows)


def new_steps(kind=InspectedSteps, X=None, y=None, optimizer=None):
    given = data()
    X, y = given[0] if X is None else X, given[1] if y is None else y
    model = Model(network(), random_state=0, **{**SETTINGS, "optimizer": optimizer or Adam()})
    return kind(model, Batches(X, y, None, 30, model.dtype, model.device), True)


# -- switching over -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 30, 64])
def test_steps_may_change_over_at_any_time(size, shuffle, dtype):
    X, y = data(dtype=dtype)
    order = np.random.default_rng(1).permutation(210) if shuffle else None
    found = {}
    for kind in ("compiled", "native", "changing"):
        model, losses, outputs, _ = trained(
            kind, network(), X, y, order=order, size=size, epochs=3, dtype=dtype, **SETTINGS
        )
        found[kind] = left_by(model) | {"losses": losses, "outputs": outputs}
    assert_same_bits(found["native"], found["compiled"])
    assert_same_bits(found["changing"], found["compiled"])


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


def test_eight_fits_in_threads_are_as_eight_in_a_row():
    X, y = data()
    results = [None] * 8

    def fit(i):
        settings = {**SETTINGS, "optimizer": Adam(lr=0.005 * (i + 1))}
        results[i] = trained(InspectedSteps, network(), X, y, size=30, epochs=20, **settings)[1]

    run_in_threads(fit, [(i,) for i in range(8)])
    together = list(results)
    for i in range(8):
        fit(i)
        np.testing.assert_array_equal(together[i], results[i])


def test_unsupported_data_use_numpy():
    X, y = data()
    memory = np.zeros(X.nbytes + 1, np.uint8)[1:]  # numbers that begin at odd addresses
    memory[:] = X.reshape(-1).view(np.uint8)
    steps = new_steps(X=memory.view(X.dtype).reshape(X.shape), y=y)
    assert len(steps.run(None, 0).losses) == 1
    assert steps.runs == [None]


WITHOUT = """
import sys, warnings
sys.modules["sknet._native._core"] = None  # as if it had not been built
import numpy as np
import sknet
from sknet.compile.native import native_passes

X, y = np.random.default_rng(0).standard_normal((30, 4)), np.arange(30) % 3
with warnings.catch_warnings(action="ignore"):
    clf = sknet.MLPClassifier((5,), max_iter=2).fit(X, y)
print(clf.n_iter_, native_passes())
for act in (sknet.set_config, lambda **given: sknet.config_context(**given).__enter__()):
    try:
        act(native="always")
    except RuntimeError as error:
        print(error)
print(sknet.get_config()["native"])
"""


@pytest.mark.slow
def test_without_the_extension_steps_use_numpy():
    environment = os.environ | {"SKNET_NATIVE": "auto", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stderr == ""
    fit, *errors, setting = done.stdout.splitlines()
    assert (fit, setting, len(errors)) == ("2 None", "auto", 2)
    for error in errors:
        assert error.startswith(
            "native='always' needs sknet's compiled extension, which this installation lacks: "
        )
        assert "sknet._native._core" in error


@pytest.mark.slow
def test_always_is_an_error_without_the_extension():
    environment = os.environ | {"SKNET_NATIVE": "always", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=environment)
    assert "RuntimeError: native='always' needs sknet's compiled extension" in done.stderr


@pytest.mark.parametrize(
    ("native", "kind"), [("never", "compiled"), ("auto", "native"), ("always", "native")]
)
def test_the_environment_can_disable_native_code(native, kind, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    assert new_steps(lambda model, batches, check: chosen(model, batches)) == kind


class BrokenSquaredError(SquaredError):
    def values(self, output, target):
        raise RuntimeError("as told")


def test_an_error_of_a_loss_is_not_one_of_native_code(monkeypatch, recwarn):
    monkeypatch.setenv("SKNET_NATIVE", "always")
    X, y = data()
    with pytest.raises(RuntimeError, match="as told"):
        MLPRegressor((30,), loss=BrokenSquaredError()).fit(X, y)
    assert not recwarn.list


# -- calls left to NumPy ------------------------------------------------------------------------


def hosted(widths, rows, hidden=nn.ReLU, optimizer=None, dtype="float32", loss="log_loss"):
    """Return the calls of a step that native code leaves to NumPy."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, widths[0])).astype(dtype), rng.integers(0, widths[-1], rows)
    layers = [nn.Linear(widths[0], widths[1])]
    for width, after in pairwise(widths[1:]):
        layers += [hidden(), nn.Linear(width, after)]
    model = Model(nn.Sequential(*layers), loss=loss, optimizer=optimizer or Adam(), alpha=1e-4, dtype=dtype)
    steps = InspectedSteps(model, Batches(X, y, None, rows, model.dtype, model.device), True)
    steps.run(None, 0)
    [run] = steps.runs
    return run.hosted


NETWORKS = [
    ((20, 100, 2), 32),
    ((30, 100, 2), 200),
    ((64, 100, 10), 200),
    ((54, 256, 256, 7), 256),
    ((784, 256, 128, 10), 200),
    ((784, 1024, 1024, 10), 1024),
]


@pytest.mark.parametrize(("widths", "rows"), NETWORKS)
def test_perceptrons_leave_no_call_to_numpy(widths, rows):
    assert hosted(widths, rows) == []


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_regressors_leave_no_call_to_numpy(loss):
    assert hosted((20, 100, 1), 32, loss=loss) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("optimizer", [Adam(), AdamW(), SGD(0.1), SGD(0.1, momentum=0.9), RMSprop()])
@pytest.mark.parametrize("hidden", [nn.ReLU, nn.Tanh])
def test_batches_with_the_shape_of_a_weight_leave_no_call_to_numpy(hidden, optimizer, dtype):
    """Gradients of activations and L2 terms then have one shape, and are computed in blocks."""
    assert hosted((256, 256, 256, 3), 256, hidden, optimizer, dtype) == []
