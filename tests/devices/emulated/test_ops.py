"""sknet's ops and compiled programs on the emulated device, and what they cost there."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import Device, to_device, to_host
from tests.devices.emulated import counted

CUDA = Device("cuda")


@pytest.fixture
def operands():
    return np.random.default_rng(0).standard_normal((2, 5, 7)).astype("float32")


def test_an_op(operands):
    x, y = (Tensor(to_device(a, CUDA)) for a in operands)
    with counted() as counts:
        found = ops.multiply(x, y)
    np.testing.assert_array_equal(found.numpy(), operands[0] * operands[1])
    assert counts.kernels == counts.allocations == 1
    assert counts.to_host == counts.synchronizations == 0


def test_a_compiled_program(operands):
    def function(x, y):
        return ops.exp(x) * y - x

    args = tuple(to_device(a, CUDA) for a in operands)
    program = compile(function, args)
    program(*args)
    with counted() as counts:
        found = program(*args)
    np.testing.assert_allclose(to_host(found), np.exp(operands[0]) * operands[1] - operands[0], rtol=1e-5)
    assert counts.kernels == 1
    assert counts.to_host == counts.synchronizations == 0
