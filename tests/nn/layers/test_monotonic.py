"""MonotonicLinear: values and gradients by hand, hidden units, initial weights, messages, PyTorch's state."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.exceptions import InvalidParameterError, StateError

RNG = np.random.default_rng(0)


def layer_of(weight, *directions, **options):
    layer = nn.MonotonicLinear(*directions, **options).to(dtype="float64")
    layer.weight.data = np.array(weight)
    return layer


def test_inputs_with_a_direction_have_weights_of_one_sign():
    weight = [[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0], [-7.0, 8.0, 9.0]]
    layer = layer_of(weight, [1, -1, 0], [1, -1, 0])
    by_hand = np.array([[1.0, -2.0, 0.0], [-4.0, 5.0, 0.0], [-7.0, 8.0, 9.0]])
    x = RNG.normal(size=(5, 3))
    np.testing.assert_array_equal(layer.effective(np.array(weight)), by_hand)
    np.testing.assert_array_equal(layer.effective(layer.weight).numpy(), by_hand)
    layer.bias.data = np.array([0.5, 0.0, -1.0])
    np.testing.assert_allclose(layer(x).numpy(), x @ by_hand + [0.5, 0.0, -1.0], rtol=1e-14)


def test_a_weight_of_zero_has_a_gradient():
    layer = layer_of([[0.0], [-2.0], [0.0]], [1, 1, 0], [-1], bias=False)
    layer(Tensor(np.array([[3.0, 5.0, 7.0]]))).backward(np.ones((1, 1)))
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[-3.0], [5.0], [7.0]])


@pytest.mark.parametrize(
    ("directions", "n", "counts"),
    [([1, 0], 9, (3, 3, 3)), ([0], 7, (2, 3, 2)), ([1, -1], 7, (0, 4, 3)), ([1, 0], 1, (0, 1, 0))],
)
def test_hidden_units_have_all_directions(directions, n, counts):
    found = nn.MonotonicLinear(directions, n).out_directions.numpy()
    assert tuple((found == each).sum() for each in (0, 1, -1)) == counts


def test_weights_are_fitted_to_data_with_their_signs():
    x = RNG.normal(5.0, 3.0, size=(500, 3)).astype(np.float32)
    layer = nn.MonotonicLinear([1, 0, -1], 6, init="data")
    nn.init.from_data(layer, x, random_state=0)
    np.testing.assert_allclose((layer(x) - layer.bias).numpy().std(axis=0), np.ones(6), rtol=1e-4)


def test_a_third_of_the_units_with_a_direction_is_bounded():
    layer = nn.Saturation([0, 1, 1, 1, 1, -1, -1, -1])
    np.testing.assert_array_equal(layer(np.full((1, 8), 3.0)).numpy(), [[3, 1, 3, 3, 1, 3, 3, 1]])
    np.testing.assert_array_equal(layer(np.full((1, 8), -3.0)).numpy(), [[-3.0] * 8])
    with pytest.raises(InvalidParameterError, match="'directions' parameter of Saturation must be"):
        nn.Saturation([2])


@pytest.mark.parametrize("wrong", [[1, 2], [[1]], [], ["up"], [np.nan], 0.5, [1, [1]]])
def test_wrong_directions_are_named(wrong):
    with pytest.raises(InvalidParameterError, match="'in_directions' parameter of MonotonicLinear must be"):
        nn.MonotonicLinear(wrong, [1])
    with pytest.raises(InvalidParameterError, match="'out_directions' parameter of MonotonicLinear must be"):
        nn.MonotonicLinear([1], wrong)


def test_no_units_are_refused():
    with pytest.raises(InvalidParameterError, match="'out_features' parameter of MonotonicLinear must be"):
        nn.MonotonicLinear([1], 0)


@pytest.mark.parametrize("parametrization", ["standard", "ntp"])
def test_pytorch_gets_the_weights_with_their_signs(parametrization):
    layer = nn.MonotonicLinear([1, 0, -1], 6, parametrization=parametrization).to(dtype="float64")
    layer.initialize(0)
    x, state = RNG.normal(size=(4, 3)), nn.to_torch(layer)
    expected = x @ state["weight"].T + state["bias"]
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-13)
    other = nn.from_torch(state, nn.MonotonicLinear([1, 0, -1], 6, parametrization=parametrization))
    np.testing.assert_allclose(other.to(dtype="float64")(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(StateError, match="have other signs than its directions demand"):
        nn.from_torch({**state, "weight": -state["weight"]}, other)
