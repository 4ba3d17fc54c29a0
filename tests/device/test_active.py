"""Models on a fake device, whose arrays NumPy cannot read, also on the second of two."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn
from sknet.callbacks import EarlyStopping
from sknet.device import Device, backend, to_device, to_host
from tests.devices.fake import FakeArray
from tests.engine.helpers import CLASSES, WEIGHT, X, classifier

PLACES = ["fake", "fake:1"]
RTOL = 1e-7  # the gradient of a bias before BatchNorm is only rounding, which Adam amplifies


@pytest.fixture(params=PLACES)
def place(request, fake_device):
    return Device.parse(request.param)


def on_host(arrays):
    return {name: to_host(array) for name, array in arrays.items()}


def assert_close(model, other):
    for name, array in other.parameters.items():
        assert isinstance(model.parameters[name], FakeArray)
        np.testing.assert_allclose(to_host(model.parameters[name]), array, rtol=RTOL)
    for name, array in other.buffers.items():
        np.testing.assert_allclose(to_host(model.buffers[name]), array, rtol=RTOL)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("as_given", ["host", "device"])
def test_steps(place, optimizer, as_given):
    there = classifier(noisy=True, device=place, optimizer=optimizer, dtype="float64", alpha=0.1)
    here = classifier(noisy=True, optimizer=optimizer, dtype="float64", alpha=0.1)
    batch = (X, CLASSES, WEIGHT)
    given = batch if as_given == "host" else [to_device(array, place) for array in batch]
    for _ in range(2):
        assert there.step(*given).loss == pytest.approx(here.step(*batch).loss)
        there = there.replace(there.update(there.backward(there.loss(there(given[0]), *given[1:]))))
        here.step(*batch)
    there.step(*given)
    here.step(*batch)
    assert_close(there, here)
    np.testing.assert_allclose(to_host(there.predict(given[0])), here.predict(X))


def test_state_copies_and_pickles(place):
    model = classifier(noisy=True, device=place, dtype="float64")
    model.step(X, CLASSES)
    state, weights = model.state, model.weights()
    others = [model.copy(), pickle.loads(pickle.dumps(model)), model.replace(state)]
    pickle.loads(pickle.dumps(state))
    model.step(X, CLASSES)
    for other in others:
        assert other.device == place
        other.step(X, CLASSES)
        assert_close(other, classifier_after(2))
    model.load(state)
    assert_close(model, classifier_after(1))
    model.step(X, CLASSES)
    model.restore_weights(weights)
    np.testing.assert_array_equal(
        on_host(model.parameters)["0.weight"], to_host(state.parameters["0.weight"])
    )


def classifier_after(n_steps):
    model = classifier(noisy=True, dtype="float64")
    for _ in range(n_steps):
        model.step(X, CLASSES)
    return model


@pytest.mark.parametrize(
    "weight", [None, WEIGHT, np.r_[np.zeros(5), np.ones(7)]], ids=["none", "some", "zeros"]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_loop(place, weight, sparse):
    if sparse:
        data = scipy.sparse.csr_array(X)
        with backend("fake").activate(place):
            given = to_device(data, place)
    else:
        data, given = X, to_device(X, place)
    histories, models = [], []
    for device, inputs in ((place, given), (Device("cpu"), data)):
        model = classifier(noisy=True, device=device, dtype="float64")
        held_out = {"X_val": inputs, "y_val": CLASSES, "scores": "accuracy"}
        stopping = [EarlyStopping(tol=0.0)]
        history = model.fit(inputs, CLASSES, weight, epochs=3, batch_size=5, **held_out, callbacks=stopping)
        histories.append({name: values for name, values in history.items() if name != "time"})
        models.append(model)
    assert histories[0].keys() == histories[1].keys()
    for name, values in histories[0].items():
        np.testing.assert_allclose(values, histories[1][name], rtol=RTOL, err_msg=name)
    assert_close(*models)
    np.testing.assert_allclose(to_host(models[0].predict(given)), models[1].predict(data), rtol=RTOL)


def test_full_batch(place):
    target = X @ np.ones((4, 1))
    models = [
        Model(nn.Linear(4, 1), optimizer="lbfgs", device=d, random_state=0, dtype="float64")
        for d in (place, "cpu")
    ]
    losses = [m.fit(X, target, WEIGHT, epochs=50)["loss"][-1] for m in models]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)
    np.testing.assert_allclose(to_host(models[0].parameters["weight"]), np.ones((4, 1)), atol=1e-4)


def test_chunks_of_the_hosts_rows(place):
    net = Model(nn.Sequential(nn.Linear(4, 1 << 19), nn.Linear(1 << 19, 1)), device=place, random_state=0)
    output = net.predict(X.astype("float32"))
    assert output.shape == (12, 1)
    assert isinstance(output, FakeArray)
