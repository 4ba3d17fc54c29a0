"""A model's state: taken, loaded, copied, pickled; and other hyperparameters adopted."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest

from sknet import Model, nn
from sknet.exceptions import DeviceError, DeviceWarning, StateError
from sknet.losses import LogLoss
from sknet.optim import LBFGS, SGD, Adam
from tests.devices import fake
from tests.engine.helpers import CLASSES, X, assert_same, assert_same_state, classifier


def trained(**params):
    model = classifier(noisy=True, **params)
    for _ in range(2):
        model.step(X, CLASSES)
    return model


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {
    "copy": lambda model: model.copy(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "pickle protocol 2": lambda model: pickle.loads(pickle.dumps(model, protocol=2)),
    "joblib": through_joblib,
    "replace": lambda model: model.replace(model.state),
    "pickled replacement": lambda model: pickle.loads(pickle.dumps(model.replace(model.state))),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_copy_continues_bitwise_identically(how, dtype):
    model = trained(dtype=dtype, alpha=0.1)
    state = model.state
    other = COPIES[how](model)
    assert_same_state(other.state, state)
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert repr(other) == repr(model)
    for _ in range(3):
        assert other.step(X, CLASSES).loss == model.step(X, CLASSES).loss
    assert_same_state(other.state, model.state)
    assert other.random_state.randint(2**31) == model.random_state.randint(2**31)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_shares_no_memory(how):
    model = trained()
    state = model.state
    COPIES[how](model).step(X, CLASSES)
    assert_same_state(model.state, state)


def test_arrays_are_pickled_once():
    model = Model(nn.Linear(300, 100), optimizer="sgd", random_state=0)
    assert len(pickle.dumps(model)) < 2.2 * 4 * 300 * 100  # parameters and velocity


def test_a_model_loaded_as_a_memory_map_can_be_trained(tmp_path):
    model = trained()
    joblib.dump(model, tmp_path / "model")
    other = joblib.load(tmp_path / "model", mmap_mode="r")
    other.step(X, CLASSES)
    model.step(X, CLASSES)
    assert_same_state(other.state, model.state)


def test_a_state_does_not_change():
    model = trained()
    state = model.state
    kept = {name: array.copy() for name, array in state.parameters.items()}
    model.step(X, CLASSES)
    assert_same(state.parameters, kept)


@pytest.mark.parametrize("load", ["load", "replace"])
def test_a_state_restores_everything(load):
    model = trained()
    state = model.state
    losses = [model.step(X, CLASSES).loss for _ in range(3)]
    if load == "load":
        model.load(state)
    else:
        model = model.replace(state)
    assert_same_state(model.state, state)
    assert [model.step(X, CLASSES).loss for _ in range(3)] == losses


def test_loading_copies_and_converts():
    wide, narrow = trained(dtype="float64"), trained(dtype="float32")
    narrow.load(wide.state)
    assert narrow.parameters["0.weight"].dtype == "float32"
    np.testing.assert_array_equal(
        narrow.parameters["0.weight"], wide.parameters["0.weight"].astype("float32")
    )
    with pytest.raises(
        StateError, match=r"is float64 on cpu, this model computes in float32 .* `load` converts"
    ):
        narrow.replace(wide.state)


def test_a_state_can_be_pickled():
    state = trained().state
    for other in (pickle.loads(pickle.dumps(state)), copy.deepcopy(state)):
        assert_same_state(other, state)
        with pytest.raises(ValueError, match="read-only"):
            other.parameters["0.weight"][...] = 0


def test_a_steps_result_can_be_pickled():
    result = classifier().step(X, CLASSES)
    other = pickle.loads(pickle.dumps(result))
    assert other.loss == result.loss
    assert_same(other.gradient, result.gradient)
    assert_same(other.update, result.update)
    np.testing.assert_array_equal(other.output.numpy(), result.output.numpy())


def bad_states():
    model = trained()
    state, small = model.state, Model(nn.Linear(4, 3), "log_loss", random_state=0).state
    slots = {name: array[:5] for name, array in state.optimizer.slots.items()}
    buffers = dict(state.buffers)
    return {
        "other parameters": (small, r"expected arrays for exactly \['0\.bias', .* got \['bias', 'weight'\]"),
        "shape": (
            state._replace(parameters={**state.parameters, "0.bias": np.zeros(3)}),
            r"'0\.bias' must have shape \(8,\), got \(3,\)",
        ),
        "optimizer": (
            trained(optimizer="sgd").state,
            r"made by an optimizer with the slots \['velocity'\], this one keeps",
        ),
        "slot": (
            state._replace(optimizer=state.optimizer._replace(slots=slots)),
            r"slot 'mu' must have shape",
        ),
        "no buffers": (state._replace(buffers={}), r"expected buffers for exactly \['1\.num_batches'"),
        "buffer": (
            state._replace(buffers=buffers | {"1.running_mean": np.zeros(3)}),
            r"buffer '1\.running_mean' must have shape \(8,\), got \(3,\)",
        ),
    }


@pytest.mark.parametrize("load", ["load", "replace"])
@pytest.mark.parametrize("what", bad_states())
def test_a_state_that_does_not_fit_changes_nothing(what, load):
    model = trained()
    before = model.state
    state, message = bad_states()[what]
    with pytest.raises(StateError, match=message):
        getattr(model, load)(state)
    assert_same_state(model.state, before)


def test_weights_do_not_change_the_optimizer():
    model = trained()
    weights = model.weights()
    parameters = model.state.parameters
    model.step(X, CLASSES)
    slots = model.state.optimizer.slots
    model.restore_weights(weights)
    assert_same(model.parameters, parameters)
    assert_same(model.state.optimizer.slots, slots)
    assert int(model.buffers["1.num_batches"]) == 2
    assert model.progress.step == 3


def test_an_optimizer_of_the_same_class_continues():
    model = trained()
    moments, steps = model.state.optimizer.slots, model.progress.step
    model.adopt(Adam(lr=0.5), LogLoss(), 0.2)
    assert_same(model.state.optimizer.slots, moments)
    assert model.progress.step == steps
    assert model.optimizer == Adam(lr=0.5)
    assert model.step(X, CLASSES).penalty > 0
    model.adopt(Adam(), LogLoss(), 0.0)
    assert model.step(X, CLASSES).penalty == 0


def test_another_optimizer_starts_with_fresh_state():
    model = trained()
    model.adopt(SGD(0.1, 0.5), LogLoss(), 0.0)
    state = model.state
    assert list(state.optimizer.slots) == ["velocity"]
    assert not state.optimizer.slots["velocity"].any()
    assert state.progress.step == 0
    model.step(X, CLASSES)
    model.adopt(LBFGS(), LogLoss(), 0.0)
    assert model.state.optimizer.slots == {}
    with pytest.raises(ValueError, match="'alpha' parameter of Model"):
        model.adopt(Adam(), LogLoss(), -1.0)


def test_a_model_of_a_device_that_is_not_here_computes_on_the_cpu(fake_device, monkeypatch):
    pickled = pickle.dumps(classifier(device=fake_device))

    def refuse(self, device):
        raise DeviceError("no such device now")

    monkeypatch.setattr(fake.FakeBackend, "check", refuse)
    with pytest.warns(DeviceWarning, match="no such device now; the model computes on the CPU instead"):
        other = pickle.loads(pickled)
    assert other.device.kind == "cpu"
    assert_same(other.parameters, classifier().parameters)
    other.step(X, CLASSES)
