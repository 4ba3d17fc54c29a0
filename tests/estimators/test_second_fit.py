"""Fits after others in the same process: what they have in common is found again, and nothing else."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest
import sklearn.exceptions

import sknet
from sknet import MLPClassifier, MLPRegressor, nn
from sknet.exceptions import InvalidParameterError
from sknet.losses import Huber
from sknet.optim import Adam

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(kind="float32"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(kind)
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)


def fitted(kind="float32", **params):
    return MLPClassifier((4,), max_iter=3, random_state=0, **params).fit(*rows(kind))


def bits(estimator):
    return [array.tobytes() for array in (*estimator.coefs_, *estimator.intercepts_)]


def test_networks_share_nothing():
    first, second = fitted(activation="prelu"), fitted(activation="prelu")
    assert bits(first) == bits(second)
    before = {name: array.copy() for name, array in second.model_.parameters.items()}
    for parameter in first.model_.module.parameters():
        parameter.data = np.full(parameter.shape, 7.0)
    first.model_.module[1].name = "changed"
    first.model_.module.append(nn.Identity())
    first.model_.module.requires_grad_(False)
    for name, array in second.model_.parameters.items():
        np.testing.assert_array_equal(array, before[name])
    third = fitted(activation="prelu")
    assert bits(third) == bits(second)
    assert len(third.model_.module) == 3
    assert not hasattr(third.model_.module[1], "name")
    assert set(third.model_.parameters) == set(before)


@pytest.mark.parametrize(
    "change",
    [
        {"activation": "tanh"},
        {"activation": "logistic"},
        {"dropout": 0.5},
        {"dtype": "float64"},
        {"alpha": 1.0},
        {"loss": "hinge"},
        {"optimizer": "sgd"},
    ],
)
def test_parameters_between_fits(change):
    fitted()
    changed = fitted(**change)
    fitted()
    with ThreadPoolExecutor(1) as pool:  # a thread has random states of its own
        again = pool.submit(fitted, **change).result()
    assert bits(changed) == bits(again)
    assert bits(changed) != bits(fitted())
    again = fitted().set_params(**change).fit(*rows())
    assert bits(changed) == bits(again)


def test_an_activation_that_is_registered_anew(monkeypatch):
    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    before = fitted(activation="relu")
    monkeypatch.setitem(nn.ACTIVATIONS, "relu", Doubled)
    other = fitted(activation="relu")
    assert isinstance(other.model_.module[1], Doubled)
    assert bits(other) != bits(before)
    monkeypatch.undo()
    assert bits(fitted(activation="relu")) == bits(before)


def test_layers_of_users_are_made_for_each_fit(monkeypatch):
    class Counted(nn.Module):
        def __init__(self):
            self.calls = [0]

        def forward(self, x):
            return x

    monkeypatch.setitem(nn.ACTIVATIONS, "identity", Counted)
    first, second = fitted(activation="identity"), fitted(activation="identity")
    assert first.model_.module[1].calls is not second.model_.module[1].calls


def test_a_forward_pass_that_is_replaced(monkeypatch):
    before = bits(fitted())
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x)
    changed = bits(fitted())
    assert changed != before
    monkeypatch.undo()
    assert bits(fitted()) == before


def test_other_rows_and_settings():
    before = fitted()
    double = fitted("float64")
    assert double.coefs_[0].dtype == np.float64
    X, y = rows()
    strings = MLPClassifier((4,), max_iter=3, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    assert bits(strings) == bits(before)
    regressor = MLPRegressor((4,), max_iter=3, random_state=0).fit(X, y)
    assert regressor.coefs_[1].shape == (4, 1)
    with sknet.config_context(native="never"):
        plain = fitted()
    for one, other in zip(plain.coefs_, before.coefs_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert bits(fitted()) == bits(before)


def test_copies_and_threads():
    before = fitted()
    for copy in (deepcopy(before), pickle.loads(pickle.dumps(before))):
        assert bits(copy.fit(*rows())) == bits(before)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: bits(fitted()), range(12)))
    assert all(each == bits(before) for each in found)


def test_hyperparameters_that_become_invalid():
    module, optimizer, loss = nn.Linear(2, 1), Adam(lr=0.5), Huber(delta=2.0)
    sknet.Model(module, optimizer=optimizer, loss=loss)
    sknet.Model(module, optimizer=Adam(lr=0.5), loss=Huber(delta=2.0))
    for name, part, wrong in (("lr", optimizer, -0.5), ("delta", loss, -2.0), ("beta1", optimizer, 2.0)):
        before = getattr(part, name)
        setattr(part, name, wrong)
        with pytest.raises(InvalidParameterError, match=name):
            sknet.Model(module, optimizer=optimizer, loss=loss)
        setattr(part, name, before)
    sknet.Model(module, optimizer=optimizer, loss=loss)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e200, 0.0])
def test_columns_of_all_sizes_after_others(scale):
    X, y = rows("float64")
    fitted()
    wide = X * [1.0, scale, 1.0]
    clf = MLPClassifier((4,), max_iter=3, random_state=0).fit(wide, y)
    units = clf._input_scaling.of_table
    sizes = np.array([1.0, scale, 1.0])
    expected = X.mean(axis=0) * sizes, np.where(sizes > 0, X.std(axis=0) * sizes, 1.0)
    for found, wanted in zip((units.mean, units.scale), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("column", [0, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("params", [{}, {"scale_inputs": False}, {"max_iter": 2, "tol": 1.0}])
def test_parts_that_are_not_finite(params, value, column, native):
    X, y = rows()
    X[:, 2] = 0.5  # constant so far
    wrong = X.copy()
    wrong[7, column] = value
    found = []
    for parts in ([X, wrong, X], [X, X]):
        clf = MLPClassifier((4,), random_state=0, batch_size=40, **params)
        with sknet.config_context(native=native):
            if "max_iter" in params:  # whose units are clipped
                with pytest.warns(sklearn.exceptions.ConvergenceWarning):
                    clf.fit(X, y)
            clf.partial_fit(X, y, classes=[0, 1, 2])
            for part in parts:
                if part is X:
                    clf.partial_fit(part, y)
                    continue
                before = bits(clf), clf.history_.copy()
                with pytest.raises(ValueError, match=r"NaN|infinity"):
                    clf.partial_fit(part, y)
                assert (bits(clf), clf.history_) == before
        found.append(bits(clf))
    assert found[0] == found[1]
