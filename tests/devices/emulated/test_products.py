"""What compiled products ask of the driver; and TF32, which a GPU may use for some sizes only."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.device import Device, to_device
from tests.devices.emulated import counted
from tests.gpu.test_products import SHAPES, there
from tools.gpu_check._machine import Machine
from tools.gpu_check._products import products
from tools.gpu_check._steps import Configuration

CUDA = Device("cuda")


IN_ONE_CALL = [each for each in SHAPES if each != ((2, 1, 3, 4), (2, 3, 4, 5))]  # which has two batch strides


@pytest.mark.parametrize(("left", "right"), [*IN_ONE_CALL, ((6, 3, 4), (4,))])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_is_one_call_and_asks_for_no_memory(left, right, dtype):
    (_, x), (_, y) = there(*left, dtype=dtype), there(*right, dtype=dtype)
    program = compile(ops.matmul, (x, y), slots=(x, y))
    program.run()
    with counted() as counts:
        program.run()
    assert (counts.launches, counts.library_calls, counts.allocations) == (1, 1, 0)


def test_products_share_memory_to_work_in():
    _, x = there(8, 8)
    allocations = []
    for n in (1, 5):

        def function(x, n=n):
            for _ in range(n):
                x = ops.matmul(x, x)
            return x

        program = compile(function, (x,), slots=(x,))
        with counted() as counts:
            program.run()
        allocations.append(counts.allocations)
    assert allocations[0] == allocations[1]


def test_tf32_is_used_if_it_is_asked_for(monkeypatch):
    """Its factors have ten bits after the point, so it loses what float32 keeps."""
    value = np.float32(1 + 2.0**-12)
    x = to_device(np.full((16, 16), value), CUDA)
    found = {}
    for asked in ("0", "1"):
        monkeypatch.setenv("CUPY_TF32", asked)
        found[asked] = compile(ops.matmul, (x, x))(x, x).get()
    np.testing.assert_allclose(found["0"], 16 * np.float64(value) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(found["1"], 16)


def test_algorithms_of_the_products_of_a_step():
    """The emulated library offers two, which do the same."""
    tiny = {"4-8-3": Configuration((4, 8, 3), 16, 2, 1, 4)}
    found = products(Machine("cuda"), tiny, ("float32",), calls=1)
    assert not found.failures
    *timed, table = found.figures.values()
    assert timed
    assert {len(seconds) for seconds in timed} == {2}
    assert set(table.values()) <= {1}
