"""Schedule-free AdamW against its definition, written with all three sequences of parameters."""

import math

import numpy as np
import pytest

from sknet.optim import ScheduleFreeAdamW
from sknet.optim.schedules import Linear, Progress
from tests.optim.helpers import follow, gradient_series


def reference(gradients, start, lr, beta1, beta2, eps, decay, warmup):
    """The authors' algorithm with z and x besides y; eps as in our Adam."""
    z = x = y = start
    square, total = np.zeros_like(start), 0.0
    trained, averages = [], []
    for t, gradient in enumerate(gradients, 1):
        rate = lr * min(1.0, t / warmup) if warmup else lr
        square = beta2 * square + (1 - beta2) * gradient**2
        step = math.sqrt(1 - beta2**t) * gradient / (np.sqrt(square) + eps) + decay * y
        z = z - rate * step
        total += rate**2
        c = rate**2 / total
        x = (1 - c) * x + c * z
        y = (1 - beta1) * z + beta1 * x
        trained.append(y)
        averages.append(x)
    return np.array(trained), np.array(averages)


@pytest.mark.parametrize("beta1", [0.0, 0.9])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("warmup", [0, 1, 30, 200])
def test_hundred_steps_by_its_definition(beta1, decay, warmup):
    gradients, start = gradient_series(100, (4, 3)), np.ones((4, 3))
    optimizer = ScheduleFreeAdamW(0.1, beta1, 0.99, 1e-8, decay, warmup)
    trained, averages = reference(gradients, start, 0.1, beta1, 0.99, 1e-8, decay, warmup)
    np.testing.assert_allclose(follow(optimizer, gradients, start), trained, rtol=1e-9, atol=1e-12)
    params, state = start, optimizer.init(start)
    for gradient, expected in zip(gradients, averages, strict=True):
        delta, state = optimizer.update(gradient, state, params)
        params = params + delta
        np.testing.assert_allclose(optimizer.averaged(params, state), expected, rtol=1e-9, atol=1e-12)


def test_the_rate_rises():
    optimizer = ScheduleFreeAdamW(0.4, warmup=4)
    rates = [optimizer.learning_rate(Progress(step)) for step in range(6)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    falling = ScheduleFreeAdamW(Linear(0.4, n_steps=4), warmup=2)
    assert falling.hyper(2, Progress(1))["lr"] == pytest.approx(0.3)
