"""Flatten."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import ShapeError


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 2, 3), (5, 6)), ((5,), (5, 1)), ((5, 2), (5, 2)), ((0, 2, 3), (0, 6)), ((5, 0), (5, 0))],
)
def test_shapes(shape, expected):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    out = nn.Flatten()(x)
    assert out.shape == expected
    np.testing.assert_array_equal(out.numpy(), x.reshape(expected))


def test_a_scalar():
    with pytest.raises(ShapeError, match=r"expected an input of shape \(n_samples, \.\.\.\), got a scalar"):
        nn.Flatten()(1.0)
