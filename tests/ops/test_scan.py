"""Scans of nothing and of one, their dtypes, and differences with ends."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.autograd import gradcheck
from sknet.exceptions import ShapeError

SCANS = [ops.cumulative_sum, ops.cumulative_prod]
x = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("op", SCANS, ids=lambda op: op.__name__)
class TestScans:
    def test_of_several_axes_one_must_be_named(self, op):
        with pytest.raises(ShapeError, match=rf"{op.__name__}: of shape \(2, 3\), give the axis"):
            op(x)
        with pytest.raises(ShapeError, match=rf"{op.__name__}: of shape \(\), give the axis"):
            op(1.0)

    def test_an_axis_that_is_not_there(self, op):
        with pytest.raises(ShapeError, match=f"{op.__name__}: axis 2 does not exist in an array with 2 axes"):
            op(x, axis=2)

    def test_dtypes_are_numpys(self, op):
        reference = {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod}[op.__name__]
        for dtype in ("bool", "int8", "uint8", "int32", "uint64", "float32"):
            assert op(np.ones(3, dtype)).dtype == reference(np.ones(3, dtype)).dtype
            assert op(np.ones(3, dtype), include_initial=True).dtype == reference(np.ones(3, dtype)).dtype

    def test_of_nothing(self, op):
        assert op(np.ones(0)).shape == (0,)
        assert op(np.ones((2, 0)), axis=1, include_initial=True).shape == (2, 1)


def test_products_with_zeros():
    slope = grad(lambda x: (ops.cumulative_prod(x) * np.array([1.0, 10.0, 100.0])).sum())
    np.testing.assert_array_equal(slope(Tensor([2.0, 0.0, 3.0])).numpy(), [1.0, 20.0 + 600.0, 0.0])


def test_a_long_product():
    x = np.random.default_rng(0).uniform(0.9, 1.1, 257)
    weights = np.linspace(1.0, 2.0, 257)
    slope = grad(lambda x: (ops.cumulative_prod(x) * weights).sum())(Tensor(x)).numpy()
    expected = np.cumsum((np.cumprod(x) * weights)[::-1])[::-1] / x
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


class TestDifferences:
    def test_with_ends(self):
        ends = {"prepend": np.zeros((2, 1)), "append": np.full((2, 2), 9.0)}
        np.testing.assert_array_equal(ops.diff(x, **ends).numpy(), np.diff(x, **ends))

    @pytest.mark.parametrize("n", range(5))
    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("ends", [{"prepend": 0.5}, {"append": -1}, {"prepend": 1, "append": 2.5}, {}])
    def test_numbers_at_the_ends(self, n, axis, ends):
        """0 times over, nothing is joined."""
        np.testing.assert_array_equal(ops.diff(x, axis, n, **ends).numpy(), np.diff(x, n, axis, **ends))
        if "prepend" in ends and n < 3:
            assert gradcheck(lambda t, end: ops.diff(t, axis, n, prepend=end) * 1.0, [x, np.array(0.5)])

    def test_of_booleans(self):
        flags = np.array([True, True, False, True])
        np.testing.assert_array_equal(ops.diff(flags).numpy(), np.diff(flags))

    def test_more_often_than_there_are_elements(self):
        assert ops.diff([1.0, 2.0], n=5).shape == (0,)

    def test_refused(self):
        with pytest.raises(ValueError, match="diff: n must not be negative, got -1"):
            ops.diff(x, n=-1)
        with pytest.raises(ShapeError, match="diff: axis -1 does not exist in an array with 0 axes"):
            ops.diff(1.0)
