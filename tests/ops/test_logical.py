"""Logic: truth of numbers, NaN and infinity, bits, and errors."""

import math

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.exceptions import DtypeError


def test_what_is_not_zero_holds():
    x, y = [0.0, -0.0, 2.0, math.nan], [1.0, 0.0, 0.0, -1.0]
    assert ops.logical_and(x, y).numpy().tolist() == [False, False, False, True]
    assert ops.logical_or(x, y).numpy().tolist() == [True, False, True, True]
    assert ops.logical_xor(x, y).numpy().tolist() == [True, False, True, False]
    assert ops.logical_not(x).numpy().tolist() == [True, True, False, False]


def test_what_is_no_finite_number():
    x = [1.0, math.inf, -math.inf, math.nan]
    assert ops.isfinite(x).numpy().tolist() == [True, False, False, False]
    assert ops.isinf(x).numpy().tolist() == [False, True, True, False]
    assert ops.isnan(x).numpy().tolist() == [False, False, False, True]
    assert ops.isfinite([1, 2]).numpy().tolist() == [True, True]


def test_answers_have_no_gradient():
    x = Tensor([1.0], requires_grad=True)
    for out in (ops.isnan(x), ops.logical_not(x), ops.logical_and(x, x), ops.signbit(x), ops.nextafter(x, x)):
        assert not out.requires_grad


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_bits(dtype):
    x = Tensor(np.array([5, 12], dtype))
    for out, expected in (
        (x & 6, [4, 4]),
        (x | 6, [7, 14]),
        (x ^ 6, [3, 10]),
        (x << 1, [10, 24]),
        (x >> 2, [1, 3]),
    ):
        assert out.numpy().tolist() == expected
        assert out.dtype == dtype
    np.testing.assert_array_equal((~x).numpy(), ~x.numpy())


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_left_shift"])
def test_real_numbers_have_no_bits(name):
    with pytest.raises(DtypeError, match=f"{name}: not defined for float64 and int64: use .astype"):
        getattr(ops, name)(Tensor([1.0]), Tensor([1]))
