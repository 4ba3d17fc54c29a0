"""Lookahead against its definition."""

import numpy as np
import pytest

from sknet.optim import SGD, Adam, Lookahead
from tests.optim.helpers import follow, gradient_series


@pytest.mark.parametrize(("every", "part"), [(1, 0.5), (5, 0.5), (3, 0.8), (4, 1.0)])
@pytest.mark.parametrize("inner", [SGD(0.1, momentum=0.9), Adam(0.1)], ids=str)
def test_hundred_steps_by_its_definition(inner, every, part):
    gradients, start = gradient_series(100, (4, 3)), np.ones((4, 3))
    slow = fast = start
    state, expected = inner.init(start), []
    for step, gradient in enumerate(gradients, 1):
        delta, state = inner.update(gradient, state, fast)
        fast = fast + delta
        if step % every == 0:
            slow = fast = slow + part * (fast - slow)
        expected.append(fast)
    path = follow(Lookahead(inner, every, part), gradients, start)
    np.testing.assert_allclose(path, expected, rtol=1e-9)
