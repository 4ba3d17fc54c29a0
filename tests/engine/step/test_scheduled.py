"""Dropout probabilities that follow a schedule: eager, compiled, native, in pieces, in estimators."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sknet import Model, NetClassifier, Tensor, nn
from sknet.exceptions import InvalidParameterError, StateError
from sknet.nn import functional_call
from sknet.optim import SGD
from sknet.optim.schedules import Cosine, FlatThenCosine, Linear
from tests.compile.native import trained

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 5)), RNG.integers(0, 3, 60)
SCHEDULES = {
    "Cosine": Cosine(0.6, n_steps=20),
    "FlatThenCosine": FlatThenCosine(0.5, n_steps=12),
    "a function": lambda progress: 0.1 * (progress.step % 7),
    "by epoch": lambda progress: 0.2 * progress.epoch,
    "0 and 1": lambda progress: float(progress.step % 2),
}
EACH = pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)


def network(p, other=0.0):
    return nn.Sequential(
        nn.Linear(5, 8), nn.Tanh(), nn.Dropout(p), nn.Linear(8, 6), nn.Dropout(other), nn.Linear(6, 3)
    )


def train_by(kind, module, dtype="float64"):
    settings = {"size": 20, "epochs": 4, "optimizer": SGD(0.1), "loss": "log_loss", "dtype": dtype}
    return trained(kind, module, X, Y, **settings)


def assert_same_parameters(model, other, rtol=0.0):
    for name, value in model.state.parameters.items():
        np.testing.assert_allclose(value, other.state.parameters[name], rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["eager", "compiled", "native"])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 0.8, 1.0])
def test_a_constant_schedule_is_a_constant_probability(p, kind, dtype):
    scheduled, *_ = train_by(kind, network(lambda progress: p, 0.3), dtype)
    other = 1e-300 if p == 0.0 else p  # a layer that never drops makes no draw
    constant, *_ = train_by(kind, network(other, 0.3), dtype)
    assert_same_parameters(scheduled, constant, 1e-6 if dtype == "float32" else 1e-13)


@EACH
@pytest.mark.parametrize("kind", ["compiled", "native"])
def test_programs_do_what_the_eager_steps_do(schedule, kind):
    found, losses, *_ = train_by(kind, network(schedule, Linear(0.4, 0.1, n_steps=15)))
    expected, eager_losses, *_ = train_by("eager", network(schedule, Linear(0.4, 0.1, n_steps=15)))
    np.testing.assert_allclose(losses, eager_losses, rtol=1e-9)
    assert_same_parameters(found, expected, 1e-9)


@EACH
@pytest.mark.parametrize("compile", [True, False])
def test_each_step_has_the_probability_of_its_progress(schedule, compile):
    model = Model(network(schedule), optimizer=SGD(0.1), loss="log_loss", random_state=0, compile=compile)
    for _ in range(6):
        twin = model.copy()
        with model.epoch():
            p = schedule(model.progress)
            model.step(X, Y)
        layers = list(twin.module)
        twin.module[2] = nn.Dropout(p if p else 1e-300)
        twin.step(X, Y)
        assert len(layers) == 6
        assert_same_parameters(model, twin, 1e-6)


def test_the_step_in_pieces_has_it_too():
    whole, parts = (
        Model(network(Cosine(0.6, n_steps=5)), optimizer=SGD(0.1), loss="log_loss", random_state=0)
        for _ in range(2)
    )
    for _ in range(4):
        whole.step(X, Y)
        parts = parts.replace(parts.update(parts.backward(parts.loss(parts(X), Y))))
    assert_same_parameters(whole, parts, 1e-6)


def test_predictions_drop_nothing():
    model = Model(network(lambda progress: 0.9), loss="log_loss", random_state=0)
    model.step(X, Y)
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    plain = nn.Sequential(*(layer for layer in model.module if not isinstance(layer, nn.Dropout)))
    np.testing.assert_allclose(
        model(X, training=False).numpy(), plain(X.astype("float32")).numpy(), rtol=1e-5
    )


def test_its_value_is_no_part_of_the_state_dict_and_survives_copies():
    module = network(Cosine(0.5))
    assert not any(name.endswith("rate") for name in module.state_dict())
    twin = pickle.loads(pickle.dumps(module))
    assert twin[2].p == Cosine(0.5)
    assert "Cosine" in repr(module.copy()[2])


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_an_estimator_takes_it():
    estimator = NetClassifier(network(FlatThenCosine(0.5)), max_iter=4, batch_size=20, random_state=0)
    found = clone(estimator).fit(X, Y)
    np.testing.assert_array_equal(found.predict_proba(X), clone(estimator).fit(X, Y).predict_proba(X))
    constant = NetClassifier(network(0.5), max_iter=4, batch_size=20, random_state=0).fit(X, Y)
    assert (found.predict_proba(X) != constant.predict_proba(X)).any()
    half = NetClassifier(
        network(lambda progress: 0.5), max_iter=4, batch_size=20, random_state=0
    ).fit(X, Y)  # fmt: skip
    np.testing.assert_allclose(half.predict_proba(X), constant.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("kind", [nn.Dropout1d, nn.Dropout2d])
def test_whole_channels(kind):
    rank = 1 if kind is nn.Dropout1d else 2
    x = np.ones((4, 50, *(3,) * rank))
    layer = kind(lambda progress: 0.5)
    layer.rate = Tensor(np.float32(0.25))
    found, _ = functional_call(layer, {}, x, key=(0, 0))
    expected, _ = functional_call(kind(0.25), {}, x, key=(0, 0))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_without_a_model_it_requires_a_probability():
    layer = nn.Dropout(Cosine(0.5))
    with pytest.raises(StateError, match=r"Dropout.*follows the progress of a fit.*layer\.rate = 0\.5"):
        functional_call(layer, {}, X, key=(0, 0))
    layer.rate = 0.5
    found, _ = functional_call(layer, {}, X, key=(0, 0))
    expected, _ = functional_call(nn.Dropout(0.5), {}, X, key=(0, 0))
    np.testing.assert_allclose(found.numpy(), expected.numpy())
    assert layer.eval()(X) is X


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
@pytest.mark.parametrize("compile", [True, False])
def test_invalid_probabilities_are_named(value, compile):
    model = Model(network(lambda progress: value), loss="log_loss", random_state=0, compile=compile)
    with pytest.raises(InvalidParameterError, match=r"of '2' must return a probability.* at step 0"):
        model.step(X, Y)


def test_wrong_arguments():
    for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d):
        with pytest.raises(InvalidParameterError, match=rf"'p' parameter of {kind.__name__} must be"):
            kind(1.5)
