"""Quantiles of non-finite values, and their messages."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.exceptions import ShapeError

WITH_NAN = np.array([[0.5, np.nan, 2.0], [np.inf, -1.5, 1.0], [3.0, 0.0, -np.inf]])


@pytest.mark.parametrize("q", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_what_is_not_finite(q, axis):
    ordered = np.sort(WITH_NAN, axis)  # NumPy's own quantile computes inf - inf
    place = int(q * (ordered.shape[axis or 0] - 1))
    has_nan = np.isnan(WITH_NAN).any(axis)
    expected = np.where(has_nan, np.nan, np.take(ordered, place, axis if axis is not None else 0))
    np.testing.assert_array_equal(ops.quantile(WITH_NAN, q, axis).numpy(), expected)


def test_an_element_itself_is_not_mixed_with_the_next():
    np.testing.assert_array_equal(ops.quantile([1.0, 2.0, np.inf], [0.0, 0.5]).numpy(), [1.0, 2.0])


def test_the_gradient_goes_to_the_elements_in_the_middle():
    x = Tensor([4.0, 1.0, 3.0, 2.0], requires_grad=True)
    ops.median(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.quantile([1.0], 1.5), ValueError, "q must be between 0 and 1, got 1.5"),
        (lambda: ops.quantile([1.0], float("nan")), ValueError, "q must be between 0 and 1, got nan"),
        (lambda: ops.quantile([1.0], 0.5, method="mean"), ValueError, "method must be one of .* got 'mean'"),
        (lambda: ops.quantile(np.ones((0, 3)), 0.5, 0), ShapeError, r"no element along axis \(-2,\)"),
        (lambda: ops.median([]), ShapeError, "there is no element"),
    ],
)
def test_messages(call, error, message):
    with pytest.raises(error, match=message):
        call()
