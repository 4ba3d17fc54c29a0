"""Whether all numbers of an array are finite, against a mask."""

import numpy as np
import pytest

from sknet._frames import all_finite


@pytest.mark.parametrize("size", [1, 100, 1 << 16, (1 << 16) + 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("error")
def test_all_finite(size, dtype):
    most = np.finfo(dtype).max
    for number in (0.5, most, -most):  # the sum of the largest overflows
        x = np.full(size, number, dtype)
        assert all_finite(x)
        for wrong in (np.nan, np.inf, -np.inf):
            for i in (0, -1):
                y = x.copy()
                y[i] = wrong
                assert not all_finite(y)


def test_infinities_that_cancel():
    x = np.zeros((2, 1 << 16))
    x[0, 0], x[1, 0] = np.inf, -np.inf
    assert not all_finite(x)
    assert not all_finite(x[:, :1])
    assert all_finite(x[:, 1:])


def test_integers_and_no_numbers():
    assert all_finite(np.arange(3))
    assert all_finite(np.zeros((0, 4)))
