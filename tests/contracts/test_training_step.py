"""Eight training steps, eager and compiled, of every layer, loss and optimizer in the tables.

Compiled without fusion (`Model.step`), results are bitwise identical. The training loop's plan may fuse,
reorder sums and fold constants. Its rounding is bounded by the eager step's: compared with the same
steps in float64, its error may be four times that of the eager steps in float32.
"""

import math

import numpy as np
import pytest

from sknet import Model, Tensor, nn
from sknet.core import no_grad
from sknet.losses import SquaredError
from sknet.optim import SGD
from tests.combinations import every
from tests.compile.native import trained
from tests.engine.helpers import assert_same
from tests.losses.test_contract import CASES as LOSSES
from tests.nn.layers.test_contract import ROWS as LAYERS
from tests.nn.layers.test_contract import setup
from tests.optim.helpers import with_eps
from tests.optim.test_contract import CASES as OPTIMIZERS

STEPS = 8
RNG = np.random.default_rng(0)
DTYPES = every(dtype=["float32", "float64"])


class Headed(nn.Module):
    """A layer, and a linear map of its whole output to two numbers."""

    def __init__(self, layer, width):
        self.layer = layer
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        out = first(self.layer(x))
        return self.head(out.reshape(out.shape[0], -1))


def first(out):
    """Return the first tensor of a layer's output."""
    return first(out[0]) if isinstance(out, tuple) else Tensor(out) if not isinstance(out, Tensor) else out


def headed(row, dtype, n=5):
    layer, x = setup(row, dtype, n)
    with no_grad():
        shape = first(layer.copy()(x)).shape
    return Headed(layer, math.prod(shape[1:])), x, RNG.normal(size=(n, 2)).astype(dtype)


def assert_same_steps(models, batches):
    for number in range(STEPS):
        X, y, weight = batches[number % len(batches)]
        found, expected = (model.step(X, y, weight) for model in models)
        assert found.loss == expected.loss
        assert_same(found.gradient, expected.gradient)
        assert_same(found.update, expected.update)
    assert_same(models[0].state.parameters, models[1].state.parameters)
    assert_same(models[0].buffers, models[1].buffers)
    assert models[0]._stepper._programs is not None


@pytest.mark.parametrize("row", LAYERS)
def test_layers_are_bitwise_identical(row):
    dtype, batches = "float32", []
    for n, weight in ((5, None), (3, np.array([0.5, 1.0, 2.0]))):
        module, x, y = headed(row, dtype, n)
        batches.append((x, y, weight))
    settings = {"optimizer": SGD(1e-3, 0.9), "alpha": 0.1, "dtype": dtype, "random_state": 0}
    models = [Model(module.copy(), SquaredError(), compile=mode, **settings) for mode in (True, False)]
    assert_same_steps(models, batches)


def rows_of(case, shape, dtype):
    output, target = case.draw(shape, dtype)
    return inputs(shape[0], dtype), target, output


def inputs(n, dtype):
    """Return small numbers: AFT takes the exponential of an exponential of the outputs."""
    return np.random.default_rng(0).uniform(-1, 1, size=(n, 4)).astype(dtype)


class Shaped(nn.Module):
    """A linear map to outputs of any shape."""

    def __init__(self, shape):
        self.shape = shape
        self.inner = nn.Linear(4, math.prod(shape))

    def forward(self, x):
        return self.inner(x).reshape(x.shape[0], *self.shape)


LOSS_CASES = [
    pytest.param(case, shape, id=f"{case.loss!r}-{shape}") for case in LOSSES for shape in case.shapes
]


@pytest.mark.parametrize(("case", "shape"), LOSS_CASES)
def test_losses_are_bitwise_identical(case, shape):
    dtype = "float32"
    X, target, _ = rows_of(case, shape, dtype)
    batches = [(X, target, None), (X, target, np.linspace(0.5, 2.0, shape[0]).astype(dtype))]
    settings = {"optimizer": SGD(1e-3), "alpha": 0.01, "dtype": dtype, "random_state": 0}
    models = [Model(Shaped(shape[1:]), case.loss, compile=mode, **settings) for mode in (True, False)]
    assert_same_steps(models, batches)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: str(case.optimizer).replace("\n", ""))
@DTYPES
def test_optimizers_are_bitwise_identical(case, dtype):
    X, y = RNG.normal(size=(8, 4)).astype(dtype), RNG.normal(size=(8, 3)).astype(dtype)
    optimizer = with_eps(case.optimizer, 1e-8)  # the tables have some that are zero
    settings = {"optimizer": optimizer, "dtype": dtype, "random_state": 0}
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm(6), nn.Tanh(), nn.Linear(6, 3))
    models = [Model(net.copy(), SquaredError(), compile=mode, **settings) for mode in (True, False)]
    assert_same_steps(models, [(X, y, None), (X[:5], y[:5], None)])


@pytest.mark.parametrize("row", LAYERS)
def test_the_plan_errs_at_most_four_times_as_much(row):
    paths = {}
    for kind, dtype in (("eager", "float64"), ("eager", "float32"), ("compiled", "float32")):
        module, x, y = headed(row, dtype, 12)
        y = np.linspace(-1, 1, y.size).reshape(y.shape).astype(dtype)
        settings = {"size": 6, "epochs": 8, "dtype": dtype, "optimizer": SGD(1e-3), "alpha": 0.01}
        model, losses, outputs, _ = trained(kind, module, x, y, loss="squared_error", **settings)
        paths[kind, dtype] = np.concatenate([losses, outputs.ravel(), model.weights()[0]])
    exact = paths["eager", "float64"]
    eager, compiled = (paths[kind, "float32"] - exact for kind in ("eager", "compiled"))
    unit = np.finfo("float32").eps * np.abs(exact).max()
    assert np.abs(compiled).max() <= 4 * np.abs(eager).max() + 8 * unit
