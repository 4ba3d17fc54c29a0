"""Rounding: halves, integers, signs of zero, and gradients between the jumps."""

import math

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.core import gradients

ROUNDINGS = [ops.floor, ops.ceil, ops.trunc, ops.round]


def test_halves_and_signs():
    x = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]
    assert ops.round(x).numpy().tolist() == [-2, -2, 0, 0, 2, 2]
    assert ops.floor(x).numpy().tolist() == [-3, -2, -1, 0, 1, 2]
    assert ops.ceil(x).numpy().tolist() == [-2, -1, 0, 1, 2, 3]
    assert ops.trunc(x).numpy().tolist() == [-2, -1, 0, 0, 1, 2]


@pytest.mark.parametrize("function", ROUNDINGS)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool"])
def test_integers_are_whole_as_they_are(function, dtype):
    x = Tensor(np.array([0, 1, 1], dtype))
    assert function(x) is x


@pytest.mark.parametrize("function", [*ROUNDINGS, ops.sign, lambda x: x // 2.0, lambda x: 7.0 // x])
def test_gradients_are_zero_whatever_comes_back(function):
    x = Tensor([1.25, 2.75], requires_grad=True)
    [g] = gradients(function(x), [x], Tensor([math.inf, math.nan]))
    assert g.numpy().tolist() == [0.0, 0.0]


def test_quotient_and_remainder_belong_together():
    x, y = np.array([7.5, -7.5, 7.5, -7.5]), np.array([2.0, 2.0, -2.0, -2.0])
    assert (Tensor(x) // y).numpy().tolist() == [3, -4, -4, 3]
    assert (Tensor(x) % y).numpy().tolist() == [1.5, 0.5, -0.5, -1.5]
    np.testing.assert_array_equal(((Tensor(x) // y) * y + Tensor(x) % y).numpy(), x)
    left, right = grad(lambda x, y: (x % y).sum(), argnums=(0, 1))(Tensor(x), Tensor(y))
    assert left.numpy().tolist() == [1, 1, 1, 1]
    assert right.numpy().tolist() == [-3, 4, 4, -3]


def test_signs():
    assert ops.signbit([-1.0, -0.0, 0.0, 1.0]).numpy().tolist() == [True, True, False, False]
    assert np.signbit(ops.copysign([0.0, 1.0], -0.0).numpy()).all()
    slopes = grad(lambda x: ops.copysign(x, [-1.0, 1.0, -2.0]).sum())(Tensor([2.0, -3.0, 0.0]))
    assert slopes.numpy().tolist() == [-1.0, -1.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_neighbours(dtype):
    one = Tensor(np.ones(1, dtype))
    np.testing.assert_array_equal((ops.nextafter(one, 2.0) - one).numpy(), np.finfo(dtype).eps)
