"""Lion by hand, and against its definition."""

import numpy as np

from sknet.optim import Lion, WeightDecay
from tests.optim.helpers import follow, gradient_series


def test_by_hand():
    gradients = [np.array([2.0, -1.0]), np.array([-0.1, 50.0])]
    path = follow(Lion(lr=0.5, beta1=0.5, beta2=0.5), gradients, np.zeros(2))
    np.testing.assert_array_equal(path, [[-0.5, 0.5], [-1.0, 0.0]])


def test_hundred_steps_by_its_definition():
    gradients, start = gradient_series(100, (4, 3)), np.ones((4, 3))
    param, mean, expected = start, np.zeros((4, 3)), []
    for gradient in gradients:
        update = np.sign(0.9 * mean + 0.1 * gradient)
        param = param - 0.01 * (update + 0.3 * param)
        mean = 0.99 * mean + 0.01 * gradient
        expected.append(param)
    path = follow(WeightDecay(Lion(lr=0.01), 0.3), gradients, start)
    np.testing.assert_allclose(path, expected, rtol=1e-9)


def test_gradients_of_zero_change_nothing():
    np.testing.assert_array_equal(follow(Lion(), np.zeros((3, 2)), np.ones(2)), np.ones((3, 2)))
