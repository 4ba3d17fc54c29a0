"""What a step of many fits asks of CuPy itself: a graph, whose launches do not depend on their number."""

import numpy as np
import pytest

from sknet.engine import fit_many
from tests.devices.emulated import counted
from tests.gpu.test_graphs import CLASSES, NETWORKS, X, long_blocks
from tests.gpu.test_stacks import made

__all__ = ["long_blocks"]  # a fixture

pytestmark = pytest.mark.usefixtures("long_blocks")


@pytest.mark.parametrize("network", NETWORKS)
def test_steps_are_graphs_from_the_second_time_on(network):
    with counted() as counts:
        fit_many(made(NETWORKS[network], 3), X, CLASSES, epochs=2, batch_size=16, scores="accuracy")
    assert counts.graph_launches == 12  # of 14 steps, one was launched on 16 rows and one on 4


def test_a_step_of_many_asks_for_nothing_that_one_of_two_does_not():
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
