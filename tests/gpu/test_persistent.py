"""Small networks on a GPU whose blocks of steps are one launch: values of graphs of each step, and bits."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.device import Device, backend, to_host
from sknet.engine import fit_many
from sknet.optim import SGD, Adam, RMSprop

pytestmark = pytest.mark.gpu
CUDA = Device("cuda")
RNG = np.random.default_rng(0)
X, CLASSES = RNG.standard_normal((1100, 20)).astype(np.float32), RNG.integers(0, 2, 1100)
NUMBERS = RNG.standard_normal((1100, 3))
NETWORKS = {
    "relu": (lambda: (nn.Linear(20, 100), nn.ReLU(), nn.Linear(100, 2)), "log_loss", CLASSES, Adam(1e-3)),
    "two layers": (
        lambda: (nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 16), nn.GELU(), nn.Linear(16, 3)),
        "squared_error", NUMBERS, SGD(1e-2, momentum=0.9),
    ),
    "dropout": (
        lambda: (
            nn.Linear(20, 32, bias=False), nn.BatchNorm(32), nn.SiLU(), nn.Dropout(0.3), nn.Linear(32, 3),
        ),
        "huber", NUMBERS, RMSprop(1e-3),
    ),
}  # fmt: skip


@pytest.fixture
def launches_of_each_step():
    """Nothing, where the emulated driver would have a launch for each step."""


@pytest.fixture
def launches(limits, monkeypatch):
    """The numbers of steps in each launch of a whole block, which has as many as memory permits."""
    limits("seconds of a block of steps", 1e9)
    made, owner = [], type(backend("cuda"))
    kernels = owner.kernels

    def counted(self, source, names, *given):
        found = kernels(self, source, names, *given)
        if list(names) != ["steps"]:
            return found

        def launch(grid, block, arrays):
            made.append(int(arrays[0][0]))
            found[0](grid, block, arrays)

        return [launch]

    monkeypatch.setattr(owner, "kernels", counted)
    return made


def model_of(network, dtype, seed=0):
    layers, loss, _, optimizer = NETWORKS[network]
    return Model(nn.Sequential(*layers()), loss, optimizer, alpha=1e-3, random_state=seed, dtype=dtype,
                 device=CUDA)  # fmt: skip


def fitted(network, dtype, monkeypatch, in_one=True, epochs=2):
    """Fit a model by one launch for each block, or by launches of each step."""
    model = model_of(network, dtype)
    with monkeypatch.context() as patch:
        if not in_one:
            patch.setattr(type(backend("cuda")), "shared_memory", lambda self, device: 0)
        history = model.fit(X.astype(dtype), NETWORKS[network][2], epochs=epochs, batch_size=100)
    state = [model.weights().flat, *model.memory.flat_buffers()[1].values(), *model.buffers.values()]
    return history["loss"], [to_host(x) for x in state]


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-3), ("float64", 1e-8)])
@pytest.mark.parametrize("network", NETWORKS)
def test_values_are_those_of_each_step(network, dtype, tolerance, launches, monkeypatch):
    found, expected = (fitted(network, dtype, monkeypatch, in_one) for in_one in (True, False))
    assert sum(launches) == 22  # of both epochs, which may be one block
    assert len(launches) <= 2
    np.testing.assert_allclose(found[0], expected[0], rtol=tolerance)
    for mine, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("network", NETWORKS)
def test_bits_are_the_same_in_every_run(network, launches, monkeypatch):
    (losses, state), *others = (fitted(network, "float32", monkeypatch) for _ in range(3))
    assert sum(launches) == 66
    assert len(launches) <= 6
    for again, other in others:
        assert again == losses
        for mine, theirs in zip(state, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("count", [3, 140])
def test_many_networks_are_one_launch(count, launches):
    models = [model_of("relu", "float32", seed) for seed in range(count)]
    histories = fit_many(models, X[:300], CLASSES[:300], epochs=2, batch_size=100)
    assert launches == [3, 3]
    for seed in (0, count - 1):
        alone = model_of("relu", "float32", seed)
        expected = alone.fit(X[:300], CLASSES[:300], epochs=2, batch_size=100)
        np.testing.assert_allclose(histories[seed]["loss"], expected["loss"], rtol=1e-5)
        np.testing.assert_allclose(
            to_host(models[seed].weights().flat), to_host(alone.weights().flat), rtol=1e-3, atol=1e-5
        )
