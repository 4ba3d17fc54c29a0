"""Predictions of many rows on a device: whole chunks are computed by a program."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.compile._compile import forget_programs
from sknet.device import active, to_device, to_host
from sknet.engine import Accuracy, Batches, _network
from sknet.engine._loop import Validation
from sknet.engine._network import predict_rows
from sknet.optim import EMA, SGD
from tests.devices import fake

SIZE, WIDTH = 64, 37  # no other test has such networks: the size of their chunks is remembered


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(_network, "CHUNK_ELEMENTS", SIZE * WIDTH)


def network():
    return nn.Sequential(nn.Linear(5, WIDTH), nn.BatchNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))


def drawn(n=5 * SIZE + 7):
    return np.random.default_rng(0).normal(size=(n, 5)).astype("float32")


def models(fake_device, **settings):
    made = [
        Model(network(), loss="log_loss", random_state=0, dtype="float32", device=device, **settings)
        for device in ("cpu", fake_device)
    ]
    y = np.arange(SIZE) % 3
    for model in made:
        with active(model.device):
            model.step(to_device(drawn(SIZE), model.device), to_device(y, model.device))
    return made


@pytest.mark.parametrize("head", [None, ops.softmax])
@pytest.mark.parametrize("place", ["host", "device"])
def test_chunks_have_the_results_of_the_host(head, place, fake_device):
    here, there = models(fake_device)
    X = drawn()
    given = X if place == "host" else to_device(X, fake_device)
    expected = predict_rows(here, X, "raw", head)
    for _ in range(2):
        found = predict_rows(there, given, "raw", head)
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-4, atol=1e-5)
    for model in (here, there):  # parameters and running means are read again
        with active(model.device):
            y = to_device(np.arange(SIZE) % 3, model.device)
            model.step(to_device(3 * drawn(SIZE), model.device), y)
    expected = predict_rows(here, X, "raw", head)
    np.testing.assert_allclose(
        to_host(predict_rows(there, given, "raw", head)), expected, rtol=1e-3, atol=1e-4
    )


def test_a_chunk_is_a_few_launches(fake_device):
    _, there = models(fake_device)
    launches = []
    for n in (3, 7):
        X = to_device(drawn(n * SIZE), fake_device)
        predict_rows(there, X)
        with fake.counted() as counts:
            predict_rows(there, X)
        launches.append(counts.launches)
    with fake.counted() as counts, active(fake_device):
        _network.predict_raw(there, X[:SIZE])
    assert 4 * counts.launches > launches[1] - launches[0]


def test_what_is_not_compiled(fake_device):
    """Few rows, averages, and code that depends on values are computed operation by operation."""

    class Reading(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(5, WIDTH)

        def forward(self, x):
            return self.layer(x) if x.sum().item() < 1e9 else x

    forget_programs()
    X = drawn()
    for module, settings in ((network(), {"optimizer": EMA(SGD(0.1))}), (Reading(), {})):
        made = [
            Model(module.copy(), "squared_error", random_state=0, dtype="float32", device=device, **settings)
            for device in ("cpu", fake_device)
        ]
        expected, found = (to_host(predict_rows(model, X)) for model in made)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_held_out_rows(fake_device):
    found = []
    for model in models(fake_device):
        X, y = drawn(), (np.arange(5 * SIZE + 7) % 3)[:, None]
        batches = Batches(X, y[:, 0], None, SIZE, model.dtype, model.device)
        with active(model.device):
            for _ in range(2):
                numbers = Validation(batches, Accuracy).evaluate(model)
        found.append(numbers)
    assert found[0]["score"] == found[1]["score"]
    np.testing.assert_allclose(found[0]["loss"], found[1]["loss"], rtol=1e-5)
