"""Trigonometric functions at the edges: the origin, very large arguments, and the ends of their domains."""

import math

import numpy as np
import pytest

from sknet import ops
from tests.ops.helpers import slopes


@pytest.mark.parametrize("function", [ops.hypot, ops.atan2])
def test_gradients_at_the_origin_are_zero(function):
    assert slopes(function, 0.0, 0.0) == [0.0, 0.0]


def test_quadrants():
    x, y = [0.0, 1.0, 0.0, -1.0, -0.0], [1.0, 0.0, -1.0, 0.0, -1.0]
    expected = [0, math.pi / 2, math.pi, -math.pi / 2, -math.pi]
    np.testing.assert_array_equal(ops.atan2(x, y).numpy(), expected)


def test_nothing_overflows_in_between():
    huge = 1e300
    assert ops.hypot(3 * huge, 4 * huge).item() == pytest.approx(5 * huge)
    np.testing.assert_allclose(slopes(ops.hypot, 3 * huge, 4 * huge), [0.6, 0.8])
    np.testing.assert_allclose(slopes(ops.atan2, 3 * huge, 4 * huge), [0.16 / huge, -0.12 / huge])
    np.testing.assert_allclose(slopes(ops.asinh, huge), [1 / huge])
    np.testing.assert_allclose(slopes(ops.acosh, huge), [1 / huge])
    assert slopes(ops.atan, huge) == [0.0]


@pytest.mark.parametrize(("function", "exact"), [
    (ops.asin, lambda d: 1 / math.sqrt(d * (2 - d))), (ops.acos, lambda d: -1 / math.sqrt(d * (2 - d))),
    (ops.atanh, lambda d: 1 / (d * (2 - d))),
])  # fmt: skip
def test_slopes_near_one_keep_their_digits(function, exact):
    for distance in (2.0**-20, 2.0**-50):
        assert slopes(function, 1 - distance) == [pytest.approx(exact(distance), rel=1e-12)]


def test_inverses():
    x = np.linspace(-1.5, 1.5, 7)
    for there, back in (
        (ops.sin, ops.asin),
        (ops.tan, ops.atan),
        (ops.sinh, ops.asinh),
        (ops.tanh, ops.atanh),
    ):
        np.testing.assert_allclose(back(there(x)).numpy(), x, rtol=1e-12, atol=1e-15)
    for there, back in ((ops.cos, ops.acos), (ops.cosh, ops.acosh)):
        np.testing.assert_allclose(back(there(abs(x))).numpy(), abs(x), rtol=1e-7)
