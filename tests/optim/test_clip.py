"""Clipping by norm and by value."""

import numpy as np
import pytest

from sknet.optim import SGD, Accumulate, ClipNorm, ClipValue
from tests.optim.helpers import follow, gradient_series


def test_the_norm_is_over_all_parameters():
    params = {"a": np.zeros(2), "b": np.zeros((1, 1))}
    gradients = {"a": np.array([2.0, 3.0]), "b": np.array([[6.0]])}
    optimizer = ClipNorm(SGD(lr=1.0), max_norm=3.5)
    deltas, _ = optimizer.update(gradients, optimizer.init(params), params)
    np.testing.assert_allclose(deltas["a"], [-1.0, -1.5])
    np.testing.assert_allclose(deltas["b"], [[-3.0]])


def test_short_gradients_are_bitwise_unchanged():
    gradients, start = gradient_series(20, (5,)), np.ones(5)
    found = follow(ClipNorm(SGD(0.1), max_norm=1e3), gradients, start)
    np.testing.assert_array_equal(found, follow(SGD(0.1), gradients, start))


@pytest.mark.parametrize("max_norm", [0.1, 1.0, 10.0])
def test_hundred_steps_equal_pytorch(max_norm):
    torch = pytest.importorskip("torch")
    gradients, start = gradient_series(100, (4, 3)), np.ones((4, 3))
    path = follow(ClipNorm(SGD(0.1, momentum=0.9), max_norm), gradients, start)
    param, expected = torch.nn.Parameter(torch.tensor(start)), []
    optimizer = torch.optim.SGD([param], lr=0.1, momentum=0.9)
    for gradient in gradients:
        norm = np.linalg.norm(gradient)
        param.grad = torch.tensor(gradient)
        # PyTorch adds 1e-6 to the norm; a limit larger by the same amount compensates.
        torch.nn.utils.clip_grad_norm_(param, max_norm * (norm + 1e-6) / norm)
        optimizer.step()
        expected.append(param.detach().numpy().copy())
    np.testing.assert_allclose(path, expected, rtol=1e-9, atol=1e-12)


def test_values_equal_pytorch():
    torch = pytest.importorskip("torch")
    gradients = gradient_series(100, (4, 3))
    expected = [torch.tensor(g).clamp(-0.5, 0.5).numpy() for g in gradients]
    path = follow(ClipValue(SGD(1.0), 0.5), gradients, np.zeros((4, 3)))
    np.testing.assert_allclose(path, -np.cumsum(expected, axis=0), atol=1e-12)


def test_zero_gradients_are_no_division_by_zero():
    path = follow(ClipNorm(SGD(0.1)), np.zeros((2, 3)), np.ones(3))
    np.testing.assert_array_equal(path, np.ones((2, 3)))


def test_order_decides_what_is_clipped():
    gradients, start = np.array([[4.0], [-2.0]]), np.zeros(1)
    mean_clipped = follow(Accumulate(ClipNorm(SGD(1.0), 0.5)), gradients, start)
    each_clipped = follow(ClipNorm(Accumulate(SGD(1.0)), 0.5), gradients, start)
    assert (mean_clipped[-1], each_clipped[-1]) == (-0.5, 0.0)
