"""Blocks of steps of a network by a cluster of blocks, on the fake device: values, bits, launches."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.compile.cuda._clusters import share_of
from sknet.device import Device, active, to_host
from sknet.engine import Batches, fit_many
from sknet.engine._device_runner import DeviceSteps
from sknet.exceptions import NonFiniteError
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam, AdamW, RMSprop
from tests.devices import fake
from tests.engine.loop.test_device_steps import LAYERS as OTHERS
from tests.engine.loop.test_device_steps import OPTED_IN, _idle, outputs_of, steps_of

__all__ = ["_idle"]

SIZE, N = 16, 86  # the last batch has 6 rows, which two blocks share
LAYERS = {
    name: OTHERS[name] for name in ("relu", "gelu", "dropout", "alpha dropout", "batch norm", "layer norm")
}
LAYERS["three"] = lambda: nn.Sequential(
    nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 8, bias=False), nn.PReLU(), nn.Linear(8, 3)
)
CASES = {
    "relu": ("relu", {"optimizer": Adam(1e-2)}),
    "gelu": ("gelu", {"optimizer": AdamW(1e-2), "alpha": 0.0}),
    "dropout": ("dropout", {"optimizer": RMSprop(1e-3, momentum=0.5)}),
    "alpha dropout": ("alpha dropout", {"optimizer": Adam(1e-2)}),
    "batch norm": ("batch norm", {"optimizer": SGD(0.05, momentum=0.9)}),
    "layer norm": ("layer norm", {"optimizer": SGD(0.05)}),
    "three layers": ("three", {"optimizer": SGD(0.05, momentum=0.9, nesterov=True)}),
    "huber": ("relu", {"loss": "huber", "optimizer": RMSprop(1e-2)}),
    "poisson": ("relu", {"loss": "poisson", "optimizer": Adam(1e-2)}),
    "label smoothing": ("three", {"loss": LogLoss(label_smoothing=0.1), "optimizer": Adam(1e-2)}),
    "weights": ("relu", {"optimizer": Adam(1e-2), "weight": True}),
    "weighted squares": ("batch norm", {"loss": "squared_error", "optimizer": SGD(0.05), "weight": True}),
}  # fmt: skip


def data(loss="log_loss", n=N, dtype="float64"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 6)).astype(dtype)
    return X, rng.integers(0, 3, n) if loss == "log_loss" else rng.exponential(size=(n, 3)).astype(dtype)


@pytest.fixture(autouse=True)
def _clusters_of_small_networks(limits):
    limits("multiplications of a step of a cluster", 0)
    limits("seconds of a block of steps", 1e9)


@pytest.fixture
def grids(monkeypatch):
    """Note the numbers of blocks of each launch of a whole block of steps."""
    made, kernels = [], fake.FakeBackend.kernels

    def noted(self, source, names, *given):
        found = kernels(self, source, names, *given)
        if list(names) != ["steps"]:
            return found

        def launch(grid, block, arrays):
            made.append(grid[0])
            found[0](grid, block, arrays)

        return [launch]

    monkeypatch.setattr(fake.FakeBackend, "kernels", noted)
    return made


def trained(case, device, blocks=8, size=SIZE, dtype="float64"):
    """Fit a model; return its losses, its parameters, its optimizer's state and its buffers."""
    layers, settings = CASES[case]
    settings = {"loss": "log_loss", "alpha": 1e-3} | settings
    X, y = data("log_loss" if isinstance(settings["loss"], LogLoss) else settings["loss"], dtype=dtype)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N) if settings.pop("weight", False) else None
    model = Model(LAYERS[layers](), random_state=0, dtype=dtype, device=device, **settings)
    with fake.sharing(200_000, blocks):
        history = model.fit(X, y, sample_weight=weight, epochs=2, batch_size=size)
    state = [model.weights().flat, *model.memory.flat_buffers()[1].values(), *model.buffers.values()]
    return [np.array(history["loss"]), *map(to_host, state)]


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_numpys_plan_and_of_one_block(case, fake_device, grids):
    expected, found = trained(case, Device("cpu")), trained(case, fake_device)
    assert set(grids) == {2, 8}
    grids.clear()
    alone = trained(case, fake_device, blocks=1)
    assert set(grids) == {1}
    for mine, theirs, other in zip(found, expected, alone, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("size", "blocks"), [(8, {8, 2}), (20, {4, 2}), (30, {2}), (15, {1}), (86, {2})])
def test_batches_that_fewer_blocks_share(size, blocks, fake_device, grids):
    expected, found = (trained("relu", each, size=size) for each in (Device("cpu"), fake_device))
    assert set(grids) == blocks  # 8: a row for each block; 15: the last batch has 11 rows
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


def test_bits_are_the_same_in_every_run(fake_device, grids):
    runs = [trained("dropout", fake_device, dtype="float32") for _ in range(2)]
    runs.append(trained("dropout", fake_device, dtype="float32"))  # in the other order of blocks
    assert set(grids) == {2, 8}
    for other in runs[1:]:
        for mine, theirs in zip(runs[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("blocks", "are_one"), [(8, True), (1, False)])
@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16"])
def test_networks_that_one_block_does_not_hold_are_one_launch(dtype, blocks, are_one, limits):
    limits("multiplications of a step of a cluster", 1 << 18)
    for widths in ((30, 64, 64, 10), (20, 100, 2)):
        with fake.sharing(OPTED_IN, blocks), active(Device("fake")):
            steps = steps_of(widths, 256, Device("fake"), dtype)
            order, outputs = np.arange(6 * 256), outputs_of(steps)
            for _ in range(2):
                with fake.counted() as counts:
                    steps._issue(order, 0, 256, 6, outputs)
        assert counts.reads == 1
        assert (counts.kernels == 1) == (are_one or widths == (20, 100, 2))


@pytest.mark.usefixtures("_idle")
def test_small_steps_and_many_networks_have_a_block_each(fake_device, grids, limits):
    limits("multiplications of a step of a cluster", 1 << 18)
    trained("relu", fake_device)
    assert set(grids) == {1}
    limits("multiplications of a step of a cluster", 0)
    for count, blocks in ((3, 24), (9, 36), (70, 70)):
        grids.clear()
        models = [
            Model(LAYERS["relu"](), "log_loss", random_state=i, device=fake_device) for i in range(count)
        ]
        with fake.sharing(200_000, 8):
            fit_many(models, *data(n=32), epochs=1, batch_size=SIZE)
        assert set(grids) == {blocks}


def test_several_networks_have_a_cluster_each(fake_device, grids):
    def models():
        return [
            Model(LAYERS["dropout"](), "log_loss", Adam(0.01 * (i + 1)), alpha=1e-3 * (i + 1), random_state=i,
                  device=fake_device)
            for i in range(3)
        ]  # fmt: skip

    joint, alone = models(), models()
    with fake.sharing(200_000, 8):
        histories = fit_many(joint, *data(n=32), epochs=2, batch_size=SIZE)
    assert set(grids) == {24}
    for model, other, history in zip(joint, alone, histories, strict=True):
        expected = other.fit(*data(n=32), epochs=2, batch_size=SIZE)
        np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
        mine, theirs = (to_host(each.weights().flat) for each in (model, other))
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_a_step_that_is_not_finite_changes_nothing(fake_device, grids):
    X, y = data()
    X[2 * SIZE + 9, 0] = np.nan  # a row of the fifth block
    states = []
    for device in (Device("cpu"), fake_device):
        model = Model(LAYERS["relu"](), "log_loss", random_state=0, dtype="float64", device=device)
        with fake.sharing(200_000, 8), pytest.raises(NonFiniteError):
            model.fit(X, y, epochs=1, batch_size=SIZE, shuffle=False)
        assert model.progress.step == 2
        states.append(to_host(model.weights().flat))
    assert grids[0] == 8
    np.testing.assert_allclose(*states, rtol=1e-9)


class Across(nn.Module):
    """A layer that a block cannot compute from its rows alone."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


ACROSS = {
    "maximum": lambda x: x - x.max(axis=0),
    "reversed": lambda x: x[::-1],
    "shifted": lambda x: x[:1] + x,
    "between rows": lambda x: (x @ x.T) @ x,
    "running sums": lambda x: x.cumulative_sum(0),
    "rows that differ": lambda x: x * np.linspace(1, 2, SIZE)[:, None],
    "in another order": lambda x: x.T.reshape(SIZE, -1),
}


@pytest.mark.parametrize("name", ACROSS)
def test_what_needs_other_rows_is_computed_by_one_block_or_launched(name, fake_device):
    model = Model(
        nn.Sequential(Across(ACROSS[name]), nn.Linear(6, 3)), "log_loss", dtype="float64", device=fake_device
    )
    batches = Batches(*data(n=4 * SIZE), None, SIZE, model.dtype, model.device)
    model.materialize(batches.X)
    graph = DeviceSteps(model, batches, True).program_for(SIZE).graph
    assert share_of(graph, graph.inputs[-2:], 8) is None
