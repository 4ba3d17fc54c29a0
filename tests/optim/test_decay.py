"""Weight decay for chosen parameters."""

import numpy as np
import pytest

from sknet.exceptions import InvalidParameterError
from sknet.optim import SGD, Adam, AdamW, ScheduleFreeAdamW, WeightDecay
from sknet.optim.schedules import Cosine, Linear, Progress
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


DECAYS = [Cosine(0.3, n_steps=30), Linear(0.4, 0.1, n_steps=20), lambda progress: 0.01 * progress.step]


@pytest.mark.parametrize("decay", DECAYS, ids=["Cosine", "Linear", "a function"])
@pytest.mark.parametrize("lr", [0.01, Cosine(0.02, n_steps=35)], ids=["constant", "Cosine"])
def test_a_decay_that_follows_a_schedule_is_pytorchs_with_another_one_at_each_step(decay, lr):
    torch = pytest.importorskip("torch")
    gradients, start = gradient_series(40, (4, 3)), np.ones((4, 3))
    param = torch.nn.Parameter(torch.tensor(start))
    reference, expected = torch.optim.AdamW([param], eps=1e-300), []
    for step, gradient in enumerate(gradients):
        now = Progress(step=step)
        reference.param_groups[0].update(weight_decay=decay(now), lr=lr(now) if callable(lr) else lr)
        param.grad = torch.tensor(gradient)
        reference.step()
        expected.append(param.detach().numpy().copy())
    for optimizer in (
        AdamW(lr, eps=1e-300, weight_decay=decay),
        WeightDecay(Adam(lr, eps=1e-300), decay, "*"),
        WeightDecay(Adam(lr, eps=1e-300), decay, {"*": 1.0}),
    ):
        optimizer.validate()
        np.testing.assert_allclose(follow(optimizer, gradients, start), expected, rtol=1e-10)


def test_schedule_free_decays_by_a_schedule():
    gradients, start = gradient_series(10, (3,)), np.ones(3)
    steps = [ScheduleFreeAdamW(weight_decay=0.1 * (step + 1)) for step in range(10)]
    params, state = start, steps[0].init(start)
    for optimizer, gradient in zip(steps, gradients, strict=True):
        delta, state = optimizer.update(gradient, state, params)
        params = params + delta
    scheduled = ScheduleFreeAdamW(weight_decay=lambda progress: 0.1 * (progress.step + 1))
    np.testing.assert_array_equal(follow(scheduled, gradients, start)[-1], params)


@pytest.mark.parametrize("factor", [0.0, 0.25, 3.0])
def test_factors_of_the_decay(factor):
    optimizer = WeightDecay(SGD(0.5), 0.2, {"*.bias": factor, "0.weight": 1})
    deltas, _ = optimizer.update(ZERO, optimizer.init(PARAMS), PARAMS)
    np.testing.assert_allclose(deltas["0"]["weight"], -0.1)
    np.testing.assert_allclose(deltas["0"]["bias"], -0.1 * factor)
    assert not deltas["norm"]["scale"].any()
