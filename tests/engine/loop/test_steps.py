"""Steps over the rows of a data set: rows read in place, gathered rows, and sparse rows."""

import numpy as np
import pytest
import scipy.sparse

from sknet import MLPClassifier, Model, nn
from sknet.engine import Batches
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD
from tests.compile.native import trained
from tests.project import has_native

RNG = np.random.default_rng(0)
N = 70
X = RNG.normal(size=(N, 6)).astype("f4")
CLASSES = RNG.integers(0, 3, N)
REAL = RNG.normal(size=(N, 3)).astype("f4")
WEIGHT = RNG.uniform(0.5, 2.0, N).astype("f4")
SPARSE = scipy.sparse.random_array((N, 6), density=0.4, rng=RNG, format="csr", dtype="f4")
KINDS = {"numpy": "compiled"}
if has_native():
    KINDS["native"] = "native"
EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def same_training(kind, data, other_data, order, other_order, **settings):
    settings = {"size": 20, "epochs": 3} | settings
    first, losses, outputs, steps = trained(kind, network(), *data, order=order, **settings)
    second, other_losses, other_outputs, _ = trained(
        kind, network(), *other_data, order=other_order, **settings
    )
    np.testing.assert_array_equal(losses, other_losses)
    np.testing.assert_array_equal(outputs, other_outputs)
    np.testing.assert_array_equal(first.weights()[0], second.weights()[0])
    return steps


# -- the order of the data --------------------------------------------------------------------

TARGETS = {
    "classes": ((X, CLASSES), {"loss": "log_loss"}),
    "real": ((X, REAL), {"loss": "squared_error"}),
    "weighted": ((X, CLASSES, WEIGHT), {"loss": "log_loss", "alpha": 0.1}),
}


@pytest.mark.parametrize("kind", ["compiled"])
@pytest.mark.parametrize(("data", "settings"), TARGETS.values(), ids=TARGETS)
def test_rows_in_order_are_read_where_they_are(kind, data, settings, monkeypatch):
    expected = trained(kind, network(), *data, order=np.arange(N), size=20, epochs=3, **settings)
    monkeypatch.setattr(Batches, "take_into", None)  # gathering fails
    data = tuple(array.copy() for array in data)
    for array in data:
        array.flags.writeable = False
    found = trained(kind, network(), *data, order=None, size=20, epochs=3, **settings)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0].weights()[0], expected[0].weights()[0])


@EACH_KIND
@pytest.mark.parametrize(
    "other",
    [X.astype("f8"), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]],
    ids=["another dtype", "columns in a row", "strided"],
)
def test_other_layouts_are_gathered(kind, other):
    same_training(kind, (X, CLASSES), (other, CLASSES), None, None, loss="log_loss")


@EACH_KIND
def test_chosen_rows_are_gathered(kind):
    rows = np.arange(N)[::-1].copy()
    found = trained(kind, network(), X, CLASSES, size=20, loss="log_loss", rows=rows)
    expected = trained(
        kind, network(), X[::-1].copy(), CLASSES[::-1].copy(), size=20, loss="log_loss", order=None
    )
    np.testing.assert_array_equal(found[1], expected[1])


def test_many_batches_are_not_bound_one_by_one(monkeypatch):
    monkeypatch.setattr("sknet.engine._runners.MOST_BOUND", 2)
    *_, steps = trained("compiled", network(), X, CLASSES, size=20, loss="log_loss")
    assert steps._by_start == {}


@pytest.mark.skipif("native" not in KINDS, reason="native code was not built")
def test_a_native_step_that_fails_is_repeated_by_numpy():
    with pytest.raises(NonFiniteError, match="loss"):
        trained("native", network(), X * np.float32(np.inf), CLASSES, size=20, loss="log_loss")


# -- sparse rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [None, RNG.permutation(N)], ids=["in order", "shuffled"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noisy", [False, True])
def test_sparse_steps_are_compiled(order, dtype, noisy):
    def make():
        middle = [nn.BatchNorm(8), nn.Dropout(0.2)] if noisy else []
        return nn.Sequential(nn.Linear(6, 8), *middle, nn.Tanh(), nn.Linear(8, 3))

    common = {"optimizer": SGD(0.05), "alpha": 0.1, "loss": "log_loss"}  # Adam would blow rounding up
    settings = {"size": 20, "epochs": 5, "order": order, "dtype": dtype} | common
    expected = trained("eager", make(), SPARSE, CLASSES, WEIGHT, **settings)
    found = trained("compiled", make(), SPARSE, CLASSES, WEIGHT, **settings)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found[1], expected[1], rtol=tolerance)
    np.testing.assert_allclose(
        found[0].weights()[0], expected[0].weights()[0], rtol=100 * tolerance, atol=10 * tolerance
    )
    # and they are the steps of the dense matrix
    dense = trained("compiled", make(), SPARSE.toarray(), CLASSES, WEIGHT, **settings)
    np.testing.assert_allclose(found[1], dense[1], rtol=tolerance)


def test_a_models_own_steps_take_sparse_batches_too():
    eager, compiled = (Model(network(), "log_loss", random_state=0, compile=mode) for mode in (False, True))
    for number in range(4):
        rows = SPARSE[10 * number : 10 * number + 20]
        expected = eager.step(rows, CLASSES[:20])
        found = compiled.step(rows, CLASSES[:20])
        assert found.loss == expected.loss
        for name, array in expected.gradient.items():
            np.testing.assert_array_equal(found.gradient[name], array)
    assert len(compiled._stepper._by_shape.values()) == 1


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_an_estimators_sparse_fit_shows_its_step():
    fitted = MLPClassifier((8,), max_iter=2, random_state=0).fit(SPARSE, CLASSES)
    assert "sparse_matmul" in fitted.compiled_step_.source


# -- the program of the last fit --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_fit_shows_its_step():
    fitted = MLPClassifier((8,), max_iter=2, random_state=0, batch_size=20).fit(X, CLASSES)
    before = [array.copy() for array in fitted.coefs_]
    step = fitted.compiled_step_
    assert step.source.count("def step():") == 2
    assert "float32[20,6]" in step.source
    compile(step.source, "step", "exec")
    assert step.gradient.plan.arena_size > 0
    for array, kept in zip(fitted.coefs_, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_without_a_compiled_fit_there_is_no_step():
    with pytest.raises(AttributeError, match="MLPClassifier has no compiled step: call fit first"):
        _ = MLPClassifier().compiled_step_
    fitted = MLPClassifier((3,), optimizer="lbfgs", max_iter=5)
    with pytest.warns(UserWarning, match="lbfgs failed to converge"):
        fitted.fit(X, CLASSES)
    with pytest.raises(AttributeError, match="it was fitted over the full batch"):
        _ = fitted.compiled_step_
