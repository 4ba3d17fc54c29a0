"""What a step asks of a device: launches, memory, reads of the host, bytes; for networks of three sizes."""

from itertools import pairwise

import numpy as np
import pytest

from sknet import Model, nn
from sknet.compile._compile import forget_programs
from sknet.device import Device, active, backend
from sknet.engine import Batches
from sknet.engine._device_runner import DeviceSteps
from sknet.engine._runners import Outputs
from sknet.optim import Adam
from tests.devices import fake, kernels
from tests.project import ROOT

LAUNCHES = {((54, 512, 512, 7), 4096): 11, ((784, 1024, 1024, 10), 8192): 11, ((20, 100, 2), 256): 7}
# Of the arrays that a step's program reads and writes.
NBYTES = {((54, 512, 512, 7), 4096): 122_924_026, ((784, 1024, 1024, 10), 8192): 560_081_210,
          ((20, 100, 2), 256): 649_458}  # fmt: skip
# With products in three parts: launches of the sizes in which a product is large, and bytes of one.
SPLIT = {((54, 512, 512, 7), 4096): 31, ((784, 1024, 1024, 10), 8192): 31}
SPLIT_NBYTES = 1_795_287_354
GELUS = {((54, 512, 512, 7), 4096): 11 + 2, ((20, 100, 2), 256): 7 + 1}  # a launch more for each
# Of 50 time steps. Each takes two launches forward and two back.
RECURRENT = {"RNN": 220, "LSTM": 223, "GRU": 224}


def recurrent_steps(name, n_steps, device, dtype="float32"):
    """Return the training steps of a recurrent layer with a linear one."""
    layers = getattr(nn, name)(32, 128, returns="last"), nn.Linear(128, 10)
    X, y = np.zeros((6 * 64, n_steps, 32), np.float32), np.arange(6 * 64) % 10
    settings = {"optimizer": "adam", "random_state": 0, "device": device, "dtype": dtype}
    model = Model(nn.Sequential(*layers), "log_loss", **settings)
    batches = Batches(X, y, None, 64, model.dtype, model.device)
    model.materialize(batches.X)
    return DeviceSteps(model, batches, True)


def steps_of(widths, size, device, dtype="float32", activation=nn.ReLU):
    layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), activation())][:-1]
    X, y = np.zeros((6 * size, widths[0]), np.float32), np.arange(6 * size) % widths[-1]
    settings = {"optimizer": Adam(), "alpha": 1e-4, "random_state": 0, "dtype": dtype}
    model = Model(nn.Sequential(*layers), "log_loss", device=device, **settings)
    batches = Batches(X, y, None, size, model.dtype, model.device)
    model.materialize(batches.X)
    return DeviceSteps(model, batches, True)


def outputs_of(steps):
    """Return an empty buffer for the outputs of an epoch."""
    outputs, n_samples = Outputs(steps.batches.n_samples), steps.batches.n_samples
    outputs.free(n_samples, steps._output.shape[1:], np.float32, backend(steps.model.device.kind).xp)
    return outputs


@pytest.fixture
def _idle(monkeypatch):
    """Kernels and products that do nothing; their programs are forgotten."""
    forget_programs()
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 33)
    with kernels.recorded(), fake.idle():
        yield
    forget_programs()


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step_with_nothing_in_the_launches_of_products(widths, size):
    """As where there is no cuBLASLt: bias with ReLU, penalties, the last layer, and the last sums."""
    layers = len(widths) - 1
    with active(Device("fake")), fake.plain_products():
        steps, counts = steps_of(widths, size, Device("fake")), {}
        order = np.arange(6 * size)
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    more = layers - 1 + layers + 3 + 1
    assert counts[5].launches - counts[2].launches == 3 * (LAUNCHES[widths, size] + more)


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step(widths, size, dtype):
    steps, order, counts = steps_of(widths, size, Device("fake"), dtype), np.arange(6 * size), {}
    with active(Device("fake")):
        outputs = outputs_of(steps)
        for n_steps in (1, 2, 5):  # at first the order is put on the device
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, outputs)
    assert counts[5].launches - counts[2].launches == 3 * LAUNCHES[widths, size]
    assert counts[5].allocations == counts[2].allocations
    assert counts[5].reads == counts[2].reads == 1
    # The gradient of X is not computed, and of the last layer, that of the weights is a product.
    assert counts[5].precisions == {dtype: 5 * (3 * (len(widths) - 1) - 3)}


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step_with_products_in_three_parts(widths, size):
    steps, order, counts = steps_of(widths, size, Device("fake"), "tf32x3"), np.arange(6 * size), {}
    with active(Device("fake")):
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    assert counts[5].launches - counts[2].launches == 3 * (LAUNCHES | SPLIT)[widths, size]
    assert counts[5].allocations == counts[2].allocations
    # Forward, of gradients and of weights; the last layer is narrow, and there is no gradient of X.
    parts = {"tf32": 5 * 5 * 3, "tf32x3": 5 * 3} if (widths, size) in SPLIT else {"tf32x3": 5 * 3}
    assert counts[5].precisions == parts


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(("widths", "size"), GELUS)
def test_a_step_with_gelu(widths, size, approximate):
    order, counts = np.arange(6 * size), {}
    steps = steps_of(widths, size, Device("fake"), activation=lambda: nn.GELU(approximate))
    with active(Device("fake")):
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    assert counts[5].launches - counts[2].launches == 3 * GELUS[widths, size]
    assert counts[5].allocations == counts[2].allocations


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("dtype", ["float32", "tf32"])
@pytest.mark.parametrize("n_steps", [50, 53])
@pytest.mark.parametrize("name", RECURRENT)
def test_a_step_of_a_recurrent_network(name, n_steps, dtype):
    steps, counts = recurrent_steps(name, n_steps, Device("fake"), dtype), {}
    with active(Device("fake")):
        for n in (1, 2, 5):
            with fake.counted() as counts[n]:
                steps._issue(None, 0, 64, n, None)
    assert counts[5].launches - counts[2].launches == 3 * (RECURRENT[name] + 4 * (n_steps - 50))
    assert counts[5].allocations == counts[2].allocations
    assert counts[5].reads == counts[2].reads == 1
    # Of all inputs, of the states, of gradients: two for each step, two for weights, two of the linear layer.
    assert counts[5].precisions == {dtype: 5 * (1 + 2 * n_steps + 2 + 3)}


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), NBYTES)
def test_the_bytes_of_a_step(widths, size):
    program = steps_of(widths, size, Device("fake")).program_for(size)
    program.run()
    with fake.counted() as counts:
        program.run()
    assert counts.nbytes == NBYTES[widths, size]


@pytest.mark.usefixtures("_idle")
def test_the_bytes_of_a_step_with_products_in_three_parts():
    program = steps_of((784, 1024, 1024, 10), 8192, Device("fake"), "tf32x3").program_for(8192)
    program.run()
    with fake.counted() as counts:
        program.run()
    assert counts.nbytes == SPLIT_NBYTES


def test_the_documents_state_the_counts():
    text = (ROOT / "docs" / "gpu.md").read_text()
    for (widths, size), launches in LAUNCHES.items():
        name, nbytes = "-".join(map(str, widths)), NBYTES[widths, size] / 1e6
        assert f"| {name}, batches of {size} | {launches} | {nbytes:.3g} MB |" in text
    [launches] = set(SPLIT.values())
    assert f"the first two {launches} launches" in text.replace("\n", " ")
    assert f"the second {SPLIT_NBYTES / 1e6:,.0f} MB" in text.replace("\n", " ")
    assert f"takes {RECURRENT['LSTM']} for 50 steps" in text.replace("\n", " ")
