"""The CuPy executor on a device whose arrays NumPy cannot read, and whose kernels a C compiler makes."""

import numpy as np
import pytest

from sknet._tree import leaves, map_leaves
from sknet.compile import compile
from sknet.device import to_device, to_host
from tests.compile.test_ops import CAPTURED, arrays_of, function_of
from tests.contracts.checks import FLOATS


def on(device, tree):
    """Copy the arrays of a tree to a device."""
    return map_leaves(lambda leaf: to_device(leaf, device) if isinstance(leaf, np.ndarray) else leaf, tree)


def off(tree):
    """Copy the arrays of a tree to the host."""
    return map_leaves(lambda leaf: leaf if leaf is None else to_host(leaf), tree)


# -- every op ---------------------------------------------------------------------------------


def replayed(row, case, dtypes, device, *, exact):
    """Yield results on the device and, by NumPy's plan, on the host."""
    function = function_of(row, case)

    def each(*operands):
        return [function(*given) for given in operands]

    def drawn(seed):
        return tuple(arrays_of(case, dtype, seed) for dtype in dtypes)

    here, there = (compile(each, args, exact=exact) for args in (drawn(0), on(device, drawn(0))))
    for seed in (1, 2, 1):
        here.poison()
        there.poison()
        with np.errstate(all="ignore"):
            yield from zip(
                leaves(off(there(*on(device, drawn(seed))))), leaves(here(*drawn(seed))), strict=True
            )


@pytest.mark.parametrize(("row", "case"), CAPTURED)
def test_generated_kernels(row, case, fake_device):
    for found, expected in replayed(row, case, FLOATS, fake_device, exact=False):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = 1e-13 if expected.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("row", "case"), CAPTURED)
def test_without_kernels_every_bit_is_kept(row, case, fake_device):
    for found, expected in replayed(row, case, FLOATS, fake_device, exact=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(found, expected)
