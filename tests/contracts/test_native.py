"""Native code of every layer, loss and optimizer in the tables has the bits of NumPy's plan."""

import numpy as np
import pytest

from sknet import nn
from sknet.losses import SquaredError
from sknet.optim import SGD
from tests.combinations import every
from tests.compile.native import assert_equal_training
from tests.contracts.test_training_step import Shaped, headed, inputs
from tests.losses.test_contract import CASES as LOSSES
from tests.losses.test_contract import probability
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.optim.helpers import with_eps
from tests.optim.test_contract import CASES as OPTIMIZERS

pytest.importorskip("sknet._native._core", reason="native code was not built")

RNG = np.random.default_rng(0)
EACH_DTYPE = every(dtype=["float32", "float64"])


def same(make, X, y, dtype, **settings):
    """Train both ways; tell whether native code has done it."""
    steps = assert_equal_training(make, X, y, size=3, epochs=2, dtype=dtype, **settings)
    return all(run is not None for run in steps._runs.values())


@pytest.mark.parametrize("row", LAYERS)
@EACH_DTYPE
def test_layers(row, dtype):
    module, X, y = headed(row, dtype, 8)
    assert same(module.copy, X, y, dtype, loss=SquaredError(), optimizer=SGD(0.01, momentum=0.9))


CASES = [(case, shape) for case in LOSSES for shape in case.shapes if shape[0] > 1]


@pytest.mark.parametrize(("case", "shape"), CASES, ids=lambda x: str(getattr(x, "loss", x)))
@EACH_DTYPE
def test_losses(case, shape, dtype):
    _, y = case.draw(shape, dtype)
    X = inputs(shape[0], dtype)

    def make():
        last = [nn.Sigmoid()] if case.output is probability else []
        return nn.Sequential(Shaped(shape[1:]), *last)

    assert same(make, X, y, dtype, loss=case.loss, optimizer=SGD(0.01), alpha=0.01)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: str(case.optimizer).replace("\n", ""))
@EACH_DTYPE
def test_optimizers(case, dtype):
    X, y = RNG.normal(size=(8, 4)).astype(dtype), RNG.normal(size=(8, 3)).astype(dtype)
    optimizer = with_eps(case.optimizer, 1e-3)

    def make():
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))

    assert same(make, X, y, dtype, loss=SquaredError(), optimizer=optimizer, alpha=0.01)
