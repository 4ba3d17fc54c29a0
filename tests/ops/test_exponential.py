"""Logarithms and exponentials near overflow and underflow, and products with a logarithm."""

import math

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from tests.ops.helpers import slopes


class TestLogaddexp:
    def test_far_out(self):
        out = ops.logaddexp([1000.0, -1000.0, 0.0, -math.inf], [1000.0, 0.0, -1000.0, 1.0])
        np.testing.assert_allclose(out.numpy(), [1000 + math.log(2), 0, 0, 1])

    def test_gradients_share_one_also_far_out(self):
        x, y = Tensor([1000.0, -1000.0, 2.0]), Tensor([1000.0, 1000.0, 1.0])
        left, right = (g.numpy() for g in grad(lambda x, y: ops.logaddexp(x, y).sum(), argnums=(0, 1))(x, y))
        np.testing.assert_allclose(left, [0.5, 0.0, 1 / (1 + math.exp(-1))])
        np.testing.assert_allclose(left + right, 1)


def test_logit_is_the_inverse_of_the_sigmoid():
    x = np.linspace(-20, 20, 11)
    np.testing.assert_allclose(ops.logit(ops.sigmoid(x)).numpy(), x, rtol=1e-6)
    assert ops.logit([0.0, 0.5, 1.0]).numpy().tolist() == [-math.inf, 0.0, math.inf]


def test_powers_of_the_base_are_exact():
    exponents = np.arange(-20.0, 21.0)
    np.testing.assert_array_equal(ops.exp2(exponents).numpy(), 2.0**exponents)
    np.testing.assert_array_equal(ops.log2(2.0**exponents).numpy(), exponents)
    np.testing.assert_array_equal(ops.log10([0.01, 1.0, 1000.0]).numpy(), [-2, 0, 3])


class TestXlogy:
    def test_zero_times_log_of_zero(self):
        assert ops.xlogy([0.0, 0.0, 2.0], [0.0, 3.0, 1.0]).numpy().tolist() == [0.0, 0.0, 0.0]

    def test_gradients_at_zero(self):
        left, right = slopes(ops.xlogy, [0.0, 2.0], [3.0, 4.0])
        np.testing.assert_allclose(left, np.log([3.0, 4.0]))
        np.testing.assert_allclose(right, [0.0, 0.5])
        assert grad(lambda y: ops.xlogy(0.0, y))(Tensor(0.0)).item() == 0.0
        assert grad(lambda y: ops.xlogy(Tensor(0.0), y))(Tensor(0.0)).item() == 0.0

    def test_mixed_second_order_at_zero(self):
        # d/dx (x / y) is 1 / y, also at x = 0
        slope = grad(lambda x: grad(ops.xlogy, argnums=1)(x, Tensor(4.0)))(Tensor(0.0))
        assert slope.item() == 0.25

    def test_numbers_are_weakly_typed(self):
        x = Tensor(np.ones(2, "float32"))
        assert ops.xlogy(x, 2.0).dtype == ops.xlogy(2, x).dtype == "float32"
        assert ops.xlogy(Tensor([1, 2]), 2.5).numpy().tolist() == pytest.approx(
            [math.log(2.5), 2 * math.log(2.5)]
        )
