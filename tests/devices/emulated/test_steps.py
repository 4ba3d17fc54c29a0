"""What a training step asks of CuPy itself: as much as of the fake device, which the documents state."""

import numpy as np
import pytest

from sknet.device import Device, active
from tests.devices.emulated import counted, idle
from tests.engine.loop.test_device_counts import LAUNCHES, steps_of

CUDA = Device("cuda")


@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step(widths, size):
    steps, order, counts = steps_of(widths, size, CUDA), np.arange(6 * size), {}
    with active(CUDA), idle():
        room = steps._zeros((6 * size, widths[-1]), np.float32)
        for n_steps in (1, 2, 5):  # at first the order is put on the device
            with counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, room)
    assert counts[5].launches - counts[2].launches == 3 * LAUNCHES[widths, size]
    assert counts[5].allocations == counts[2].allocations
    assert counts[5].to_host == counts[2].to_host == 1
