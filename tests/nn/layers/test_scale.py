"""Scale: values and gradients by hand, initial values, messages."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import InvalidParameterError, ShapeError


@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (3,), (0, 3)])
def test_values_and_gradients_by_hand(shape):
    rng = np.random.default_rng(0)
    layer, values = nn.Scale(3).to(dtype="float64"), rng.normal(size=shape)
    factors = rng.normal(size=3)
    layer.weight.data = factors
    x = Tensor(values, requires_grad=True)
    out = layer(x)
    np.testing.assert_array_equal(out.numpy(), values * factors)
    slope = rng.normal(size=shape)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(x.grad.numpy(), slope * factors, rtol=1e-12)
    expected = (slope * values).reshape(-1, 3).sum(axis=0)
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-12, atol=1e-15)


def test_it_begins_with_ones_and_draws_nothing():
    source = np.random.RandomState(0)
    np.testing.assert_array_equal(nn.Scale(4).initialize(source).weight.numpy(), np.ones(4, np.float32))
    assert source.randint(1000) == np.random.RandomState(0).randint(1000)


def test_another_scheme():
    drawn = nn.Scale(1000, init="normal").initialize(0).weight.numpy()
    assert drawn.std() == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("x", [np.ones((5, 4)), 1.0, np.ones((3, 1)), np.ones(1)])
def test_wrong_input(x):
    with pytest.raises(ShapeError, match=r"Scale\(3\): expected an input of shape \(\.\.\., 3\), got \("):
        nn.Scale(3)(x)


@pytest.mark.parametrize("n_features", [0, 2.0, None])
def test_wrong_arguments(n_features):
    message = "The 'n_features' parameter of Scale must be an int in the range"
    with pytest.raises(InvalidParameterError, match=message):
        nn.Scale(n_features)
