"""Steps on a device of every layer and loss in the tables: the results are those of eager steps on the CPU.

Their kernels run thread by thread under the sanitizers (`tests.devices.kernels`). Every optimizer is in
`tests/engine/loop/test_device_steps.py`.
"""

import numpy as np
import pytest

from sknet.device import Device, to_host
from sknet.losses import SquaredError
from sknet.optim import SGD
from tests.contracts.test_training_step import LOSS_CASES, Shaped, headed, rows_of
from tests.engine.loop.test_device_steps import SIZE, trained
from tests.nn.layers.test_contract import ROWS as LAYERS


def assert_same_steps(module, X, y, weight=None, *, device, **settings):
    settings |= {"epochs": 2, "alpha": 0.01}
    expected = trained("eager", module.copy(), X, y, weight, device=Device("cpu"), **settings)
    found = trained("device", module.copy(), X, y, weight, device=device, **settings)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)
    for mine, theirs in (
        (found[0].state.parameters, expected[0].state.parameters),
        (found[0].buffers, expected[0].buffers),
    ):
        assert mine.keys() == theirs.keys()
        for name, array in mine.items():
            np.testing.assert_allclose(to_host(array), theirs[name], rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("row", LAYERS)
def test_layers(row, fake_device):
    module, X, y = headed(row, "float64", SIZE)
    assert_same_steps(module, X, y, loss=SquaredError(), optimizer=SGD(1e-3, 0.9), device=fake_device)


@pytest.mark.parametrize(("case", "shape"), LOSS_CASES)
def test_losses(case, shape, fake_device):
    X, y, _ = rows_of(case, shape, "float64")
    weight = np.linspace(0.5, 2.0, shape[0])
    settings = {"loss": case.loss, "optimizer": SGD(1e-3), "device": fake_device}
    assert_same_steps(Shaped(shape[1:]), X, y, weight, **settings)
