"""grad and value_and_grad: trees, nesting, and tensors of the caller's."""

from collections import namedtuple

import numpy as np
import pytest

from sknet import Tensor, grad, no_grad, ops, value_and_grad
from sknet.core import gradients
from sknet.exceptions import DtypeError, GradientError

Layer = namedtuple("Layer", "weight bias")


def test_value_and_gradient():
    value, slope = value_and_grad(lambda x: (x**3).sum())(np.array([1.0, 2.0]))
    assert value.item() == 9.0
    assert slope.numpy().tolist() == [3.0, 12.0]
    assert not value.requires_grad
    assert not slope.requires_grad


def test_trees_keep_their_structure():
    tree = {"a": [Tensor(1.0), (Tensor([2.0, 3.0]),)], "b": Layer(Tensor(4.0), None)}
    found = grad(lambda t: (t["a"][1][0] * t["a"][0]).sum() * t["b"].weight)(tree)
    assert list(found) == ["a", "b"]
    assert isinstance(found["b"], Layer)
    assert found["b"].bias is None
    assert found["b"].weight.item() == 5.0
    assert found["a"][0].item() == 20.0
    assert found["a"][1][0].numpy().tolist() == [4.0, 4.0]


def test_argnums():
    f = lambda x, y, z=1.0: x * y * y * z  # noqa: E731
    assert grad(f)(Tensor(2.0), Tensor(3.0)).item() == 9.0
    assert grad(f, argnums=1)(Tensor(2.0), Tensor(3.0), z=2.0).item() == 24.0
    both = grad(f, argnums=(1, 0))(Tensor(2.0), Tensor(3.0))
    assert [g.item() for g in both] == [12.0, 9.0]


def test_what_the_value_does_not_depend_on_has_a_gradient_of_zeros():
    assert grad(lambda x, y: x.sum(), argnums=1)(Tensor([1.0]), Tensor([1.0, 2.0])).numpy().tolist() == [
        0.0,
        0.0,
    ]
    assert grad(lambda x: Tensor(1.0))(Tensor([1.0, 2.0])).numpy().tolist() == [0.0, 0.0]


def test_arguments_are_not_touched():
    x = Tensor([1.0], requires_grad=True)
    y = Tensor([1.0])
    grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, y)
    assert x.grad is None
    assert y.grad is None
    assert not y.requires_grad


@pytest.mark.parametrize(
    ("order", "expected"), [(1, 5 * 16.0), (2, 20 * 8.0), (3, 60 * 4.0), (4, 120 * 2.0), (5, 120.0), (6, 0.0)]
)
def test_nested(order, expected):
    f = lambda x: x**5  # noqa: E731
    for _ in range(order):
        f = grad(f)
    assert f(Tensor(2.0)).item() == expected


def test_hessian_times_vector():
    rng = np.random.default_rng(0)
    a, v, x = rng.standard_normal((3, 3)), rng.standard_normal(3), rng.standard_normal(3)
    f = lambda x: (x @ (a @ x)) * 0.5  # noqa: E731
    product = grad(lambda x: (grad(f)(x) * v).sum())(x)
    np.testing.assert_allclose(product.numpy(), (a + a.T) / 2 @ v)


def test_inner_function_closes_over_the_outer_argument():
    # d/da of the slope in x, at a constant x: of a * x ** 2, at x = 3, that is 2 x
    outer = grad(lambda a: grad(lambda x: a * x**2)(Tensor(3.0)))
    assert outer(Tensor(5.0)).item() == 6.0


def test_closes_over_a_leaf():
    a = Tensor(5.0, requires_grad=True)
    slope = grad(lambda x: a * x**2)(Tensor(3.0))
    assert slope.requires_grad
    assert gradients(slope, [a])[0].item() == 6.0
    with no_grad():
        assert not grad(lambda x: a * x**2)(Tensor(3.0)).requires_grad


def test_a_step_of_descent_can_be_differentiated():
    loss = lambda w, t: (w - t) ** 2  # noqa: E731

    def after_one_step(rate):
        w = Tensor(1.0)
        return loss(w - rate * grad(loss)(w, 4.0), 4.0)

    # w = 1 + 6 rate, so the loss is (6 rate - 3) ** 2
    assert grad(after_one_step)(Tensor(0.1)).item() == pytest.approx(2 * 6 * (0.6 - 3))


def test_connected_to_arguments_that_require_a_gradient():
    x = Tensor(2.0, requires_grad=True)
    value, slope = value_and_grad(lambda x: x**3)(x)
    (value + slope).backward()
    assert x.grad.item() == 12.0 + 12.0


def test_works_inside_no_grad():
    with no_grad():
        value, slope = value_and_grad(lambda x: x**2)(Tensor(3.0, requires_grad=True))
        assert (value.item(), slope.item()) == (9.0, 6.0)
        assert not slope.requires_grad
        assert grad(grad(lambda x: x**3))(Tensor(2.0)).item() == 12.0


def test_on_another_device(fake_device):
    slope = grad(lambda x: ops.softmax(x)[0])(Tensor([1.0, 2.0], device=fake_device))
    assert slope.device == fake_device


@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (
            lambda x: x,
            [Tensor([1.0, 2.0])],
            GradientError,
            r"grad: the function must return a scalar tensor, got shape \(2,\): reduce it",
        ),
        (
            lambda x: 1.0,
            [Tensor([1.0])],
            GradientError,
            "grad: the function must return tensors, got float",
        ),
        (
            lambda x: x.sum(),
            [Tensor([1, 2])],
            DtypeError,
            "only floating-point tensors have gradients, this one is int64",
        ),
        (
            lambda: Tensor(1.0),
            [],
            GradientError,
            "grad: there is no positional argument 0: the function was called with 0",
        ),
    ],
)
def test_refused(function, arguments, error, message):
    with pytest.raises(error, match=message):
        grad(function)(*arguments)
