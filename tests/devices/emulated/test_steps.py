"""What a training step asks of CuPy itself, as much as of the fake device; its graph, which has its bits."""

import numpy as np
import pytest

from sknet import MLPClassifier, Model, NetRegressor, nn
from sknet.device import Device, active, backend
from sknet.engine import Batches
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD
from tests.compile.native import KINDS
from tests.devices.emulated import counted, idle
from tests.devices.rounding import BITS
from tests.engine.loop.test_device_steps import (
    GELUS,
    HALF,
    LAUNCHES,
    RECURRENT,
    outputs_of,
    recurrent_steps,
    steps_of,
)
from tests.estimators.data import quiet
from tests.gpu import test_graphs
from tests.gpu.test_graphs import CLASSES, NETWORKS, X, long_blocks, trained

__all__ = ["long_blocks"]  # a fixture

CUDA = Device("cuda")


STEPS = [(*each, "float32", launches) for each, launches in LAUNCHES.items()]
STEPS += [
    # In bfloat16, parameters have a copy, and so few rows, too.
    (widths, 64, dtype, launches + 2 if dtype == "bfloat16" and (widths, size) in HALF else launches)
    for (widths, size), launches in LAUNCHES.items()
    for dtype in BITS
]


@pytest.mark.parametrize(("widths", "size", "dtype", "launches"), STEPS)
def test_a_step(widths, size, dtype, launches):
    check_launches(steps_of(widths, size, CUDA, dtype), size, launches)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(("widths", "size"), GELUS)
def test_a_step_with_gelu(widths, size, approximate):
    steps = steps_of(widths, 64, CUDA, activation=lambda: nn.GELU(approximate))
    check_launches(steps, 64, GELUS[widths, size])


@pytest.mark.parametrize("name", RECURRENT)
def test_a_step_of_a_recurrent_network(name):
    check_launches(recurrent_steps(name, 50, CUDA), 64, RECURRENT[name])


def check_launches(steps, size, expected):
    """Assert that a step is one graph of so many nodes, and asks for no memory."""
    order, counts = np.arange(6 * size), {}
    with active(CUDA), idle():
        outputs = outputs_of(steps)
        steps._issue(order, 0, size, 2, outputs)  # puts the order on the device, and captures the second step
        assert not steps.refusals
        for n_steps in (1, 2, 5):
            with counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, outputs)
            assert counts[n_steps].graph_launches == n_steps
            assert counts[n_steps].to_host == 1
    assert counts[5].graph_nodes == 5 * expected
    assert counts[5].launches - counts[2].launches == 3 * expected
    assert counts[5].allocations == counts[2].allocations


# -- whole fits -------------------------------------------------------------------------------


@pytest.mark.usefixtures("long_blocks")
def test_a_graph_for_each_number_of_rows():
    with counted() as counts:
        trained(NETWORKS["dense"], "float32")
    assert counts.graph_launches == 12  # of 14 steps, one was launched on 16 rows and one on 4


def test_a_fit_on_a_stream_of_the_users_own():
    cupy = backend("cuda")._cupy
    fits = []
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        estimator = MLPClassifier((10,), device="cuda", batch_size=16, max_iter=3, random_state=0)
        with stream, quiet(), counted() as counts:
            fits.append(estimator.fit(X.astype("float32"), CLASSES).predict_proba(X.astype("float32")))
        assert counts.graph_launches
    np.testing.assert_array_equal(*fits)


def test_a_fit_on_the_second_device():
    fits = []
    for device in ("cuda:0", "cuda:1"):
        estimator = MLPClassifier((10,), device=device, batch_size=16, max_iter=3, random_state=0)
        with quiet(), counted() as counts:
            fits.append(estimator.fit(X.astype("float32"), CLASSES).predict_proba(X.astype("float32")))
        assert counts.graph_launches
    np.testing.assert_array_equal(*fits)


@pytest.mark.usefixtures("long_blocks")
def test_a_step_that_is_not_finite_ends_a_loop_of_graphs(monkeypatch):
    wrong = X.copy()
    wrong[70] = np.inf
    monkeypatch.setattr(test_graphs, "X", wrong)
    with counted() as counts, pytest.raises(NonFiniteError):
        trained(NETWORKS["dense"], "float32", shuffle=False)
    # The fifth of six steps fails. The next block begins with it, and then repeats it without a graph.
    assert counts.graph_launches == 5 + 2


@pytest.mark.usefixtures("long_blocks")
def test_layers_that_cannot_be_captured_are_launched():
    def layers():
        return nn.Unflatten(1, (1, 2, 3)), nn.AdaptiveMaxPool2d((1, 2)), nn.Flatten(), nn.Linear(2, 3)

    with counted() as counts:
        found, steps = trained(layers, "float32")
    assert not counts.graph_launches
    refusal = "work on device 'cuda:0' cannot be captured: it asks for "
    assert [x.startswith(refusal) for x in steps.refusals] == [True, True]  # of 16 rows, and of 4
    assert np.isfinite(found[0]).all()


@pytest.mark.usefixtures("long_blocks")
def test_a_step_of_a_network_of_images():
    """Two convolutions, forward and backward, and a pool, besides what every step has."""
    layers = (
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip
    model = Model(nn.Sequential(*layers), "log_loss", random_state=0, device=CUDA)
    images = np.random.default_rng(0).random((64, 64), "float32")
    batches = Batches(images, np.arange(64) % 3, None, 16, model.dtype, CUDA)
    model.materialize(batches.X)
    steps, counts = KINDS["device"](model, batches, True), {}
    for n_steps in (2, 1, 4):  # at first the order is put on the device
        with active(CUDA), counted() as counts[n_steps]:
            steps._issue(None, 0, 16, n_steps, None)
    assert not steps.refusals
    assert counts[4].allocations == counts[1].allocations
    assert (counts[4].launches - counts[1].launches) / 3 == 28


# -- predictions ------------------------------------------------------------------------------


def test_chunks_of_predictions_are_graphs(limits):
    width = 37  # of no other test's networks
    limits("elements of a chunk of predictions", 64 * width)
    rows = np.random.default_rng(0).normal(scale=0.1, size=(5 * 64 + 9, 6)).astype("float32")
    scaled, settings = (
        nn.Lambda(lambda x: x * 10.0),
        {"max_iter": 1, "optimizer": SGD(1e-9), "random_state": 0},
    )
    network = nn.Sequential(scaled, nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))
    fitted = {
        device: NetRegressor(network, scale_inputs=False, device=device, **settings)
        for device in ("cpu", "cuda")
    }
    with quiet():
        for estimator in fitted.values():
            estimator.fit(rows, rows[:, :3])
    expected, there = fitted["cpu"].predict(rows), fitted["cuda"]
    for launched in (4, 5):  # the first chunk of all is launched kernel by kernel
        with counted() as counts:
            found = there.predict(rows)
        assert counts.graph_launches == launched
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    rows[70] = 3e38  # infinite within the network
    with pytest.warns(RuntimeWarning, match="are NaN or infinite"):
        found = there.predict(rows)
    np.testing.assert_array_equal(np.isfinite(found).all(axis=1), np.arange(len(rows)) != 70)
