"""Many fits as one program with CuPy's own code: results, and what a step of all of them costs."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.device import Device, to_host
from sknet.engine import fit_many
from sknet.optim import Adam
from tests.devices.emulated import counted
from tests.gpu.test_graphs import CLASSES, NETWORKS, WEIGHT, X, long_blocks

__all__ = ["long_blocks"]  # a fixture

pytestmark = pytest.mark.usefixtures("long_blocks")
CUDA = Device("cuda")


def made(layers, count, dtype="float32"):
    return [
        Model(
            nn.Sequential(*layers()), "log_loss", Adam(0.01 * (i + 1)), alpha=1e-3 * (i + 1),
            random_state=i, dtype=dtype, device=CUDA,
        )
        for i in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("network", NETWORKS)
def test_each_is_its_own_fit(network, weight):
    alone, joint = (made(NETWORKS[network], 3, "float64") for _ in range(2))
    options = {"epochs": 2, "batch_size": 16, "scores": "accuracy"}
    expected = [model.fit(X, CLASSES, weight, **options) for model in alone]
    with counted() as counts:
        found = fit_many(joint, X, CLASSES, weight, **options)
    assert counts.graph_launches == 12  # of 14 steps, one was launched on 16 rows and one on 4
    for i in range(3):
        np.testing.assert_allclose(found[i]["loss"], expected[i]["loss"], rtol=1e-9)
        np.testing.assert_allclose(found[i]["accuracy"], expected[i]["accuracy"])
        for mine, theirs in ((joint[i].weights().flat, alone[i].weights().flat), *zip(
            joint[i].buffers.values(), alone[i].buffers.values(), strict=True
        )):  # fmt: skip
            np.testing.assert_allclose(to_host(mine), to_host(theirs), rtol=1e-8, atol=1e-10)


def test_a_step_of_many_is_a_graph_that_asks_for_nothing():
    rows = np.arange(320) % 100

    def cost(count, n):
        with counted() as counts:
            fit_many(made(NETWORKS["dense"], count), X[rows[:n]], CLASSES[rows[:n]], epochs=1, batch_size=16)
        return counts

    nodes = {}
    for count in (2, 20):
        cost(count, 160)  # compiles and loads everything
        few, more = cost(count, 160), cost(count, 320)
        assert more.graph_launches - few.graph_launches == 10
        assert more.allocations == few.allocations
        assert more.to_host == few.to_host
        nodes[count] = (more.graph_nodes - few.graph_nodes) / 10
    assert nodes[2] == nodes[20] < 30
