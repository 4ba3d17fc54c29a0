"""RMSprop by hand."""

import numpy as np

from sknet.optim import RMSprop
from tests.optim.helpers import follow


def test_by_hand():
    gradients = [np.array([2.0]), np.array([0.0])]
    path = follow(RMSprop(lr=0.5, rho=0.75, eps=1.0), gradients, np.zeros(1))
    np.testing.assert_allclose(path.ravel(), [-0.5 * 2 / (1 + 1)] * 2)


def test_momentum_by_hand():
    gradients = [np.array([2.0]), np.array([0.0])]
    path = follow(RMSprop(lr=0.5, rho=0.75, momentum=0.5, eps=1.0), gradients, np.zeros(1))
    np.testing.assert_allclose(path.ravel(), [-0.5, -0.75])


def test_gradients_of_zero_change_nothing():
    path = follow(RMSprop(momentum=0.9), np.zeros((3, 2)), np.ones(2))
    np.testing.assert_array_equal(path, np.ones((3, 2)))


def test_steps_do_not_depend_on_the_scale_of_the_gradient():
    gradients = np.random.default_rng(0).normal(size=(10, 3))
    optimizer = RMSprop(eps=1e-300)
    paths = [follow(optimizer, scale * gradients, np.zeros(3)) for scale in (1e-6, 1.0, 1e6)]
    np.testing.assert_allclose(paths[0], paths[1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(paths[2], paths[1], rtol=1e-12, atol=1e-15)
