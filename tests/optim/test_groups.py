"""Parameter groups by pattern."""

import numpy as np
import pytest
from sklearn.base import clone

from sknet.exceptions import InvalidParameterError
from sknet.optim import EMA, SGD, Adam, AdamW, ClipNorm, Groups, RMSprop
from sknet.optim.schedules import Progress

PARAMS = {"0": {"weight": np.ones((2, 2)), "bias": np.ones(2)}, "head": {"weight": np.ones((2, 1))}}
GRADIENTS = {
    "0": {"weight": np.full((2, 2), 3.0), "bias": np.full(2, 2.0)},
    "head": {"weight": np.full((2, 1), 4.0)},
}


def test_groups_are_updated_independently():
    optimizer = Groups({"head.*": SGD(0.5), "*": Adam(0.1)})
    params, state = PARAMS, optimizer.init(PARAMS)
    alone = {"head": SGD(0.5), "0": Adam(0.1)}
    states = {name: inner.init(PARAMS[name]) for name, inner in alone.items()}
    for _ in range(3):
        deltas, state = optimizer.update(GRADIENTS, state, params)
        for name, inner in alone.items():
            expected, states[name] = inner.update(GRADIENTS[name], states[name], params[name])
            for key, delta in expected.items():
                np.testing.assert_array_equal(deltas[name][key], delta)
    assert state.slots["mu"]["0"]["bias"].any()
    assert not state.slots["mu"]["head"]["weight"].any()
    assert not state.slots["velocity"]["0"]["bias"].any()


def test_slots_of_one_name_are_one_array():
    assert Groups({"*.bias": Adam(0.1), "*": AdamW()}).slots == ("mu", "nu")
    assert Groups({"*.bias": SGD(), "*": RMSprop()}).slots == ("velocity", "nu")


@pytest.mark.parametrize("groups", [["*", "0.*", "*.weight"], ["*.weight", "*", "0.*"]])
def test_the_longest_pattern_decides_whatever_the_order(groups):
    rates = {"*": 1.0, "0.*": 0.5, "*.weight": 0.25}
    optimizer = Groups({pattern: SGD(rates[pattern]) for pattern in groups})
    assert optimizer == Groups({pattern: SGD(rate) for pattern, rate in rates.items()})
    deltas, _ = optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS)
    assert deltas["0"]["bias"][0] == -1.0
    assert deltas["0"]["weight"][0, 0] == -0.75
    assert deltas["head"]["weight"][0, 0] == -1.0


def test_a_norm_is_that_of_the_group_or_of_all():
    inside = Groups({"head.*": ClipNorm(SGD(1.0), 1.0), "*": SGD(1.0)})
    around = ClipNorm(Groups({"head.*": SGD(1.0), "*": SGD(1.0)}), 1.0)
    total = np.sqrt(4 * 9 + 2 * 4 + 2 * 16)
    for optimizer, head, bias in ((inside, 4 / np.sqrt(32), 2.0), (around, 4 / total, 2 / total)):
        deltas, _ = optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS)
        np.testing.assert_allclose(deltas["head"]["weight"], -head)
        np.testing.assert_allclose(deltas["0"]["bias"], -bias)


def test_averages_of_one_group_only():
    optimizer = Groups({"head.*": EMA(SGD(1.0), 0.5), "*": SGD(1.0)})
    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(2):
        deltas, state = optimizer.update(GRADIENTS, state, params)
        params = {a: {b: params[a][b] + deltas[a][b] for b in params[a]} for a in params}
    averaged = optimizer.averaged(params, state)
    np.testing.assert_array_equal(averaged["0"]["weight"], params["0"]["weight"])
    np.testing.assert_allclose(averaged["head"]["weight"], 1 - (4 + 2 * 8) / 3)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"0.*": SGD()}, r"a pattern for every parameter\. Got \['0\.\*'\], none of which 'head\.weight'"),
        (
            {"tail.*": SGD(), "*": SGD()},
            r"Got 'tail\.\*', which matches none of \['0\.weight', '0\.bias', 'h",
        ),
        (
            {"*.bias": SGD(), "0.bia*": SGD(), "*": SGD()},
            r"Got \[.*\], of the same length, and '0\.bias' mat",
        ),
    ],
)
def test_ambiguous_patterns_raise(groups, message):
    with pytest.raises(InvalidParameterError, match=message):
        Groups(groups).init(PARAMS)


def test_parameters_are_reached_by_pattern():
    optimizer = Groups({"*.bias": SGD(), "*": ClipNorm(Adam())})
    params = optimizer.get_params()
    assert params["*.bias__lr"] == 0.01
    assert params["*__optimizer__lr"] == 1e-3
    copy = clone(optimizer).set_params(**{"*.bias__lr": 0.5, "*": Adam(0.25)})
    assert copy == Groups({"*.bias": SGD(0.5), "*": Adam(0.25)})
    assert optimizer == Groups({"*.bias": SGD(), "*": ClipNorm(Adam())})
    with pytest.raises(ValueError, match="Invalid parameter 'head' for estimator Groups"):
        copy.set_params(head=SGD())
    assert copy.learning_rate(Progress()) == 0.5


def test_there_is_no_single_rule():
    with pytest.raises(TypeError, match="Groups has no single rule: call rules"):
        Groups({"*": SGD()}).rule(None, None, (), {})
