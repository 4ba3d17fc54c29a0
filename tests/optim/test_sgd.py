"""SGD by hand, and step by step with scikit-learn's."""

import numpy as np
import pytest
from sklearn.neural_network._stochastic_optimizers import SGDOptimizer

from sknet.optim import SGD
from sknet.optim.schedules import Adaptive, InverseScaling, Progress
from tests.optim.helpers import follow, gradient_series


def follow_sklearn(gradients, start, **parameters):
    param = start.copy()
    optimizer = SGDOptimizer([param], **parameters)
    path = []
    for gradient in gradients:
        optimizer.update_params([param], [gradient])
        path.append(param.copy())
    return np.array(path)


def test_by_hand():
    path = follow(SGD(lr=0.5, momentum=0.5), [np.array([2.0]), np.array([4.0])], np.array([0.0]))
    np.testing.assert_array_equal(path.ravel(), [-1.0, -1.0 - 0.5 - 2.0])
    path = follow(
        SGD(lr=0.5, momentum=0.5, nesterov=True), [np.array([2.0]), np.array([4.0])], np.array([0.0])
    )
    np.testing.assert_array_equal(path.ravel(), [-1.5, -1.5 + 0.5 * -2.5 - 2.0])


@pytest.mark.parametrize("momentum", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("nesterov", [True, False])
def test_every_bit_of_hundred_steps_is_scikit_learns(momentum, nesterov):
    gradients, start = gradient_series(100, (5, 2)), np.ones((5, 2))
    expected = follow_sklearn(gradients, start, learning_rate_init=0.1, momentum=momentum, nesterov=nesterov)
    path = follow(SGD(0.1, momentum, nesterov), gradients, start)
    np.testing.assert_array_equal(path, expected)


def test_rate_that_changes_is_inside_the_velocity():
    gradients = np.ones((2, 1))
    optimizer = SGD(lr=InverseScaling(1.0, power=1.0), momentum=1.0)
    path = follow(optimizer, gradients, np.zeros(1), lambda step: Progress(step, samples=9 * step))
    np.testing.assert_allclose(path.ravel(), [-1.0, -2.1])


def test_inverse_scaling_equals_scikit_learns():
    theirs, ours = SGDOptimizer([], 0.3, "invscaling", power_t=0.7), InverseScaling(0.3, power=0.7)
    for samples in (0, 100, 200, 12345):
        if samples:
            theirs.iteration_ends(samples)
        assert ours(Progress(samples=samples)) == theirs.learning_rate


@pytest.mark.parametrize("lr", [0.1, 0.001, 2.5e-5, 1e-6, 0.003125])
def test_adaptive_equals_scikit_learns(lr):
    theirs, ours = SGDOptimizer([], lr, "adaptive"), Adaptive(lr)
    for reductions in range(20):
        now = Progress(reductions=reductions)
        assert ours(now) == theirs.learning_rate
        stops = theirs.trigger_stopping("", verbose=False)
        assert ours.can_reduce(now) is not stops
        if stops:
            break
    assert stops


def test_without_momentum_the_velocity_is_not_read():
    params, state = np.ones(2), SGD(0.5).init(np.ones(2))
    state = state._replace(slots={"velocity": np.full(2, np.inf)})
    deltas, state = SGD(0.5).update(params, state, params)
    np.testing.assert_array_equal(deltas, [-0.5, -0.5])
    np.testing.assert_array_equal(state.slots["velocity"], deltas)
