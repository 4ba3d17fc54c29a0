"""Muon against its definition and PyTorch's, and the parameters updated by another optimizer."""

import numpy as np
import pytest

from sknet.optim import SGD, AdamW, ClipNorm, Muon
from tests.optim.helpers import follow, follow_torch, gradient_series


def newton_schulz(matrix, steps):
    """The published loop, in double precision."""
    x = matrix / np.linalg.norm(matrix)
    x = x.T if matrix.shape[0] > matrix.shape[1] else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def reference(gradients, start, lr, momentum, nesterov, steps):
    param, mean, path = start, np.zeros_like(start), []
    scale = np.sqrt(max(1, start.shape[1] / start.shape[0]))
    for gradient in gradients:
        mean = momentum * mean + (1 - momentum) * gradient
        update = momentum * mean + (1 - momentum) * gradient if nesterov else mean
        param = param - lr * scale * newton_schulz(update, steps)
        path.append(param)
    return np.array(path)


@pytest.mark.parametrize("shape", [(4, 3), (3, 8), (5, 5), (1, 4), (4, 1)])
@pytest.mark.parametrize("nesterov", [True, False])
def test_hundred_steps_by_its_definition(shape, nesterov):
    gradients, start = gradient_series(100, shape), np.ones(shape)
    path = follow(Muon(0.1, 0.9, nesterov, n_iterations=4), gradients, start)
    np.testing.assert_allclose(path, reference(gradients, start, 0.1, 0.9, nesterov, 4), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_near_pytorchs_which_iterates_in_bfloat16(shape):
    torch = pytest.importorskip("torch")
    gradients, start = gradient_series(20, shape[::-1]), np.zeros(shape[::-1])
    theirs = follow_torch(lambda o, p: torch.optim.Muon(p, lr=0.1, weight_decay=0.0), gradients, start)
    ours = follow(Muon(lr=0.1), np.swapaxes(gradients, 1, 2), start.T)
    np.testing.assert_allclose(np.swapaxes(ours, 1, 2), theirs, atol=0.02 * 20 * 0.1)
    assert np.abs(theirs[-1]).max() > 0.1


def test_singular_values_come_near_one():
    matrix = np.random.default_rng(0).normal(size=(20, 30))
    optimizer = Muon(1.0, n_iterations=5)
    step, _ = optimizer.update(matrix, optimizer.init(matrix), matrix)
    values = np.linalg.svd(step, compute_uv=False) / np.sqrt(30 / 20)  # the factor for wide matrices
    assert values.min() > 0.6
    assert values.max() < 1.3


def test_a_gradient_of_zero_is_no_division_by_zero():
    np.testing.assert_array_equal(follow(Muon(), np.zeros((2, 3, 3)), np.ones((3, 3))), np.ones((2, 3, 3)))


def test_more_axes_are_a_matrix_with_the_first_as_rows():
    gradients = gradient_series(5, (6, 2, 3))
    path = follow(Muon(), gradients, np.zeros((6, 2, 3)))
    flat = gradients.reshape(5, 6, 6)
    np.testing.assert_allclose(path.reshape(5, 6, 6), follow(Muon(), flat, np.zeros((6, 6))), rtol=1e-12)


def test_other_parameters_use_the_second_optimizer():
    params = {"weight": np.ones((3, 2)), "bias": np.ones(2), "scale": np.ones(())}
    gradients = {"weight": np.eye(3, 2), "bias": np.array([1.0, -2.0]), "scale": np.ones(())}
    for rest in (None, SGD(0.5), ClipNorm(SGD(0.5), 0.1)):
        optimizer, other = Muon(rest=rest), AdamW() if rest is None else rest
        deltas, state = optimizer.update(gradients, optimizer.init(params), params)
        small = {name: params[name] for name in ("bias", "scale")}
        expected, _ = other.update({name: gradients[name] for name in small}, other.init(small), small)
        for name, delta in expected.items():
            np.testing.assert_array_equal(deltas[name], delta)
        alone, _ = Muon().update(gradients["weight"], Muon().init(params["weight"]), params["weight"])
        np.testing.assert_array_equal(deltas["weight"], alone)
        assert tuple(state.slots) == optimizer.slots
    assert Muon().slots == ("mu", "nu")
    assert Muon(rest=SGD()).slots == ("mu", "velocity")
