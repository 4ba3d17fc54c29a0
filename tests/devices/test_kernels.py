"""Running kernels without a GPU detects errors that would occur on one."""

import numpy as np
import pytest

from tests.devices import kernels

HEAD = 'extern "C" __global__ void map0(const float *x, float *y)'
LOOP = "for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < 10; i += gridDim.x * blockDim.x)"


def kernel(body):
    [found] = kernels.compiled(f"{HEAD}\n{{\n{body}\n}}\n", ["map0"])
    return found


def arrays():
    x, y = kernels.guarded((10,), np.float32), kernels.guarded((10,), np.float32)
    x[:] = np.arange(10)
    return x, y


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (1, 256), (3, 2), (7, 4)])
def test_every_element_is_computed_whatever_the_number_of_threads(grid, block):
    x, y = arrays()
    for _ in range(2):
        kernel(LOOP + " y[i] = 2.0f * x[i];")((grid,), (block,), (x, y))
        np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("place", ["i + 1", "(int)i - 1"])
def test_writing_out_of_bounds_is_detected(place):
    with pytest.raises(RuntimeError, match="a kernel has written outside of its arrays"):
        kernel(LOOP + f" y[{place}] = 1.0f;")((1,), (4,), arrays())


def test_reading_out_of_bounds_gives_nan():
    x, y = arrays()
    kernel(LOOP + " y[i] = x[i + 1];")((1,), (4,), (x, y))
    np.testing.assert_array_equal(y, [*range(1, 10), np.nan])


def test_race_conditions_give_two_results():
    results = []
    for _ in range(2):
        _, y = arrays()
        y[:] = 0
        kernel(LOOP + " y[i] = y[(i + 1) % 10] + 1.0f;")((1,), (4,), (y, y))
        results.append(y)
    assert (results[0] != results[1]).any()


def test_compile_errors():
    with pytest.raises(RuntimeError, match=r"a generated module does not compile:[\s\S]*.z. undeclared"):
        kernel("y[0] = z;")


def test_arrays_are_aligned():
    assert all(kernels.guarded((n,), np.float64).ctypes.data % 256 == 0 for n in (1, 7, 100))
