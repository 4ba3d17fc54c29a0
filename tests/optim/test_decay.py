"""Weight decay for chosen parameters."""

import numpy as np
import pytest

from sknet._params import InvalidParameterError
from sknet.optim import SGD, Adam, AdamW, WeightDecay
from sknet.optim.schedules import Cosine
from tests.optim.helpers import follow, gradient_series

PARAMS = {"0": {"weight": np.ones((2, 2)), "bias": np.ones(2)}, "norm": {"scale": np.ones(2)}}
ZERO = {"0": {"weight": np.zeros((2, 2)), "bias": np.zeros(2)}, "norm": {"scale": np.zeros(2)}}


def shrunk(optimizer):
    deltas, _ = optimizer.update(ZERO, optimizer.init(PARAMS), PARAMS)
    found = {"weight": deltas["0"]["weight"], "bias": deltas["0"]["bias"], "scale": deltas["norm"]["scale"]}
    return {name for name, delta in found.items() if delta.any()}


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (None, {"weight"}),
        ("*.bias", {"bias"}),
        (["0.*"], {"weight", "bias"}),
        (("*.scale", "*.bias"), {"scale", "bias"}),
        ("*", {"weight", "bias", "scale"}),
        ([], set()),
    ],
)
def test_chosen_parameters_shrink(parameters, expected):
    assert shrunk(WeightDecay(SGD(0.1), 0.5, parameters)) == expected


def test_for_all_parameters_it_is_adamw():
    gradients, start = gradient_series(100, (4, 3)), np.ones((4, 3))
    found = follow(WeightDecay(Adam(Cosine(0.1, n_steps=100)), 0.3), gradients, start)
    expected = follow(AdamW(Cosine(0.1, n_steps=100), weight_decay=0.3), gradients, start)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_twice_around_one_optimizer():
    inner = WeightDecay(SGD(1.0), 0.1, "*.bias")
    optimizer = WeightDecay(inner, 0.5)
    deltas, _ = optimizer.update(ZERO, optimizer.init(PARAMS), PARAMS)
    np.testing.assert_allclose(deltas["0"]["weight"], -0.5)
    np.testing.assert_allclose(deltas["0"]["bias"], -0.1)


def test_a_pattern_without_a_parameter():
    message = (
        r"'parameters' parameter of WeightDecay must match .*'\*\.wieght', which matches none of \['0\.w"
    )
    with pytest.raises(InvalidParameterError, match=message):
        WeightDecay(SGD(), 0.1, ["*.bias", "*.wieght"]).init(PARAMS)
