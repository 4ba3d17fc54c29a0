"""Gradient accumulation."""

import numpy as np
import pytest

from sknet.optim import EMA, SGD, Accumulate, Adam
from sknet.optim.schedules import Cosine, Progress
from tests.optim.helpers import follow, gradient_series


@pytest.mark.parametrize("every", [1, 2, 5])
@pytest.mark.parametrize(
    "inner", [SGD(0.1, momentum=0.9), Adam(Cosine(0.1, n_steps=20)), EMA(Adam())], ids=str
)
def test_it_is_one_step_with_the_mean_gradient(inner, every):
    gradients, start = gradient_series(20 * every, (4, 3)), np.ones((4, 3))
    found = follow(Accumulate(inner, every), gradients, start)
    means = gradients.reshape(20, every, 4, 3).mean(axis=1)
    expected = follow(inner, means, start)
    np.testing.assert_allclose(found[every - 1 :: every], expected, rtol=1e-12)
    for step in range(20 * every):
        before = found[step // every * every - 1] if step >= every else start
        if (step + 1) % every:
            np.testing.assert_array_equal(found[step], before)


def test_slots_are_not_updated_in_between():
    optimizer, param = Accumulate(Adam(), 2), np.ones(2)
    state = optimizer.init(param)
    _, state = optimizer.update(np.ones(2), state, param)
    assert state.slots["total"].all()
    assert not state.slots["optimizer.mu"].any()
    _, state = optimizer.update(np.ones(2), state, param)
    assert not state.slots["total"].any()
    assert state.slots["optimizer.mu"].all()


def test_schedules_count_updates():
    optimizer = Accumulate(SGD(Cosine(0.4)), 10)
    assert optimizer.learning_rate(Progress(29, total_steps=60)) == pytest.approx(0.3)
    numbers = optimizer.hyper(31, Progress(30, total_steps=60))
    assert numbers == {"due": 0.0, "optimizer.lr": pytest.approx(0.2), "optimizer.step": pytest.approx(-0.2)}
