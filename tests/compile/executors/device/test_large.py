"""Kernels for more elements than tests can have: a thread computes several, and indices have 64 bits."""

import numpy as np
import pytest

from sknet import grad, ops
from sknet.compile import compile
from sknet.engine import fit_many
from sknet.optim import SGD
from tests.compile.executors.device.test_executor import off, on
from tests.compile.executors.device.test_tasks import permuted, turned
from tests.engine.loop import test_stacks as stacks
from tests.engine.loop.test_device_steps import LAYERS, assert_same_training, data
from tests.trees import leaves

RNG = np.random.default_rng(0)


@pytest.fixture(params=["few blocks", "wide indices"])
def large(request, limits):
    """Let small arrays have kernels like large ones."""
    limits("threads of a gathering block", 32)
    if request.param == "few blocks":
        limits("blocks of a kernel", 1)
    else:
        limits("elements with 32-bit indices", 0)
    return request.param


def views(x, row, column):
    """Read arrays in every order, and reduce them."""
    backwards = x[::-1, ::2]
    return (
        backwards * 2.0 + column[::-1], ops.matrix_transpose(x) + row[:, None], ops.tanh(x) * x[1:2],
        ops.sum(ops.exp(backwards), 0), ops.max(x[:, ::-3], 1), ops.softmax(x, 1), ops.sum(x * x),
    )  # fmt: skip


X, W, TABLE = RNG.normal(size=(5, 4, 7, 6)), RNG.normal(size=(6, 2, 3, 2)), RNG.normal(size=(40, 30))
IDS = RNG.integers(-7, 7, (7, 9))
FUNCTIONS = {
    "views": (views, (TABLE, TABLE[0], TABLE[:, :1])),
    "convolution": (lambda x, w: ops.conv2d(turned(x), turned(w), groups=2, padding=1), (X, W)),
    "max pool": (lambda x: ops.max_pool2d(turned(x), 3, 2, 1), (X,)),
    "avg pool": (lambda x: ops.avg_pool2d(turned(x), (2, 3), 1), (X,)),
    "take": (lambda x, i: ops.take(x, ops.matrix_transpose(i), axis=1), (X[:, 0], IDS)),
}


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ops(name, is_in_order, large, fake_device, limits):
    limits("indices that all threads read", 1 << 26 if is_in_order else 0)
    function, args = FUNCTIONS[name]
    floats = tuple(i for i, x in enumerate(args) if x.dtype.kind == "f")

    def total(*given):
        return sum(ops.sum(permuted(x)) for x in leaves(function(*given)))

    def both(*given):
        return function(*given), grad(total, floats)(*given)

    expected, program = compile(both, args)(*args), compile(both, on(fake_device, args))
    assert ("long long i = " in program.source) == (large == "wide indices")
    for mine, theirs in zip(leaves(off(program(*on(fake_device, args)))), leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layers", ["dropout", "images"])
def test_steps(layers, large, fake_device):
    assert_same_training(LAYERS[layers], *data(), optimizer=SGD(0.05), device=fake_device, epochs=2)


@pytest.mark.parametrize("name", ["dropout", "a score"])
def test_stacks(name, large, fake_device):
    make, options = stacks.FAMILIES[name]
    A, y, options = stacks.given(options)
    stacks.assert_as_alone(
        stacks.on(fake_device, make),
        lambda model, i: model.fit(A, y, **options),
        lambda models: fit_many(models, A, y, **options),
    )
