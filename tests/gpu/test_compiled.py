"""The compiled step on a GPU: the cases of the fake device's tests, on CuPy arrays."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import Device
from tests.compile.executors.device.test_executor import CAPTURED, check, layouts, off, on
from tests.contracts.checks import FLOATS
from tests.engine.loop.test_device_steps import LAYERS, OPTIMIZERS, assert_same_training, data

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")


@CAPTURED
@pytest.mark.parametrize(("exact", "dtypes"), [(True, ["float32"]), (False, FLOATS)], ids=["exact", "fused"])
def test_every_op(row, exact, dtypes):
    """Functions of CuPy alone have been compared in both dtypes by `test_ops`, and take longer to compile."""

    def compare(found, expected, said):
        tolerance = 1e-12 if expected.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=said)

    check(row, CUDA, compare, dtypes, exact=exact)


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_give_the_bits_of_cupys_own_functions(dtype):
    def function(x, y):
        return ops.exp(x) * y + x, ops.maximum(x, y) / y, ops.sqrt(ops.abs(x)) - y * x, ops.tanh(x + y) * 0.3

    rng = np.random.default_rng(0)
    args = on(CUDA, tuple(rng.standard_normal((100, 30)).astype(dtype) for _ in range(2)))
    found = compile(function, args)(*args)
    for mine, theirs in zip(off(found), function(*map(Tensor, args)), strict=True):
        np.testing.assert_array_equal(mine, theirs.numpy())


def test_views_of_every_kind():
    rng = np.random.default_rng(0)
    args = rng.standard_normal((5, 6)), rng.standard_normal(6), rng.standard_normal((5, 1))
    expected = compile(layouts, args)(*args)
    for found, value in zip(off(compile(layouts, on(CUDA, args))(*on(CUDA, args))), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-13)


@pytest.mark.parametrize("layers", LAYERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
def test_training_steps(layers, optimizer):
    assert_same_training(LAYERS[layers], *data(), optimizer=optimizer, device=CUDA, tolerance=1e-7)
