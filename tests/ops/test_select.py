"""Replacement of non-finite values, and interpolation."""

import numpy as np
import pytest

from sknet import Tensor, ops

VALUES = np.array([0.5, np.nan, np.inf, -np.inf, -2.0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("values", [{}, {"nan": 7.0}, {"posinf": 1.0, "neginf": -2.0}])
def test_not_finite(dtype, values):
    x = Tensor(VALUES.astype(dtype), requires_grad=True)
    out = ops.nan_to_num(x, **values)
    expected = np.nan_to_num(VALUES.astype(dtype), **values)
    assert out.dtype == expected.dtype
    np.testing.assert_array_equal(out.numpy(), expected)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1, 0, 0, 0, 1])


def test_integers_are_finite():
    np.testing.assert_array_equal(ops.nan_to_num(np.array([1, 2])).numpy(), [1, 2])


def test_both_ends_are_exact():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000)) * [[1e8], [1.0]]
    for zero, one in ((0, 1), (0.0, 1.0), (np.zeros(1000), np.ones(1000))):
        np.testing.assert_array_equal(ops.lerp(x, y, zero).numpy(), x)
        np.testing.assert_array_equal(ops.lerp(x, y, one).numpy(), y)
