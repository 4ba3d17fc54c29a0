"""Two devices: what belongs to one is not used on the other."""

import importlib

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import Device, to_device
from tests.devices.emulated import faults
from tests.estimators.data import TABLES, TASKS, estimator_for, quiet

cupy = importlib.import_module("cupy")
SECOND = Device("cuda", 1)


@pytest.mark.parametrize("task", TASKS)
def test_an_estimator_on_the_second_device(task):
    X, y = TABLES[task]
    with quiet():
        first, second = (estimator_for(task, device=name).fit(X, y) for name in ("cuda:0", "cuda:1"))
    assert second.model_.device == SECOND
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert cupy.cuda.Device().id == 0


def test_programs_on_both_devices():
    x = np.random.default_rng(0).standard_normal((30, 20))

    def function(x):
        return ops.matmul(ops.tanh(x), x.T), ops.sum(x * x, axis=0)

    results = []
    for device in (Device("cuda", 0), SECOND):
        args = (to_device(x, device),)
        found = compile(function, args)(*args)
        eager = function(Tensor(args[0]))
        assert [array.device.id for array in found] == [device.index] * 2
        results.append([array.get() for array in found] + [tensor.numpy() for tensor in eager])
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


KERNEL = 'extern "C" __global__ void fill(float *x) { x[threadIdx.x] = 1; }'


def test_memory_of_another_device_is_a_fault():
    with cupy.cuda.Device(1):
        x = cupy.zeros(4, "float32")
    cupy.RawKernel(KERNEL, "fill")((1,), (4,), (x,))
    assert faults() == ["fill was given memory of another device"]


def test_a_stream_of_another_device():
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream(non_blocking=True)
    kernel, x = cupy.RawKernel(KERNEL, "fill"), cupy.zeros(4, "float32")
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="CUDA_ERROR_INVALID_HANDLE"):
        kernel((1,), (4,), (x,), stream=stream)
