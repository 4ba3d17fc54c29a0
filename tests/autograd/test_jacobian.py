"""Full Jacobians and Hessians: shapes, trees, both ways to compute them, nesting."""

import numpy as np
import pytest

from sknet import Tensor, grad, no_grad, ops
from sknet.autograd import hessian, jacobian
from sknet.core import gradients
from sknet.exceptions import GradientError

x0, w0 = np.array([0.5, -1.0]), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_shapes_are_result_then_argument():
    found = jacobian(lambda w: w @ x0)(w0)  # fewer results than arguments: by rows
    assert found.shape == (3, 3, 2)
    np.testing.assert_array_equal(found.numpy(), np.eye(3)[:, :, None] * x0)
    found = jacobian(lambda x: w0 @ x)(x0)  # more: by columns
    np.testing.assert_array_equal(found.numpy(), w0)
    assert not found.requires_grad


def test_trees():
    def function(p, scale):
        return {"y": w0 @ p["x"] * scale, "rest": (p["x"][0] * p["b"],)}

    point = {"x": x0, "b": np.array(3.0)}
    found = jacobian(function)(point, 2.0)
    assert {name: part.shape for name, part in found["y"].items()} == {"x": (3, 2), "b": (3,)}
    np.testing.assert_array_equal(found["y"]["x"].numpy(), 2 * w0)
    np.testing.assert_array_equal(found["y"]["b"].numpy(), np.zeros(3))
    assert found["rest"][0]["x"].numpy().tolist() == [3.0, 0.0]
    assert found["rest"][0]["b"].item() == 0.5


def test_argnums():
    function = lambda x, y: x * y  # noqa: E731
    first, second = jacobian(function, (0, 1))(x0, x0 + 1)
    np.testing.assert_array_equal(first.numpy(), np.diag(x0 + 1))
    np.testing.assert_array_equal(second.numpy(), np.diag(x0))
    np.testing.assert_array_equal(jacobian(function, 1)(x0, x0 + 1).numpy(), np.diag(x0))


def test_has_aux():
    found, rest = jacobian(lambda x: (x * 2, {"x": x, "note": "seen"}), has_aux=True)(x0)
    np.testing.assert_array_equal(found.numpy(), 2 * np.eye(2))
    assert rest["note"] == "seen"
    assert not rest["x"].requires_grad


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: Tensor(np.ones(3)), (3, 2)),  # depends on nothing
        (lambda x: x[:0], (0, 2)),
        (lambda x: ops.stack([x, x > 0.0]), (2, 2, 2)),
    ],
)
def test_non_differentiable_values(function, shape):
    assert jacobian(function)(x0).shape == shape
    assert jacobian(lambda x: ops.concat([x, x]))(x0[:0]).shape == (0, 0)


def test_connected_to_the_callers_tape():
    a = Tensor(5.0, requires_grad=True)
    for function in (lambda x: (a * x**2).sum(), lambda x: ops.concat([a * x**2, x])):
        found = jacobian(function)(x0)
        assert found.requires_grad
        np.testing.assert_allclose(gradients(found.sum(), [a])[0].item(), 2 * x0.sum())
    with no_grad():
        assert not jacobian(lambda x: a * x**2)(x0).requires_grad


def test_can_be_differentiated():
    trace = lambda x: jacobian(lambda y: ops.concat([y**3, y**2]))(x).sum()  # noqa: E731
    np.testing.assert_allclose(grad(trace)(x0).numpy(), 6 * x0 + 2)


def test_hessian():
    f = lambda x: ops.exp(x[0]) * x[1] ** 2  # noqa: E731
    e = np.exp(0.5)
    np.testing.assert_allclose(hessian(f)(x0).numpy(), [[e, -2 * e], [-2 * e, 2 * e]])
    blocks = hessian(lambda p: p["a"] * p["b"] ** 2)({"a": Tensor(2.0), "b": Tensor(3.0)})
    assert {(i, j): blocks[i][j].item() for i in "ab" for j in "ab"} == {
        ("a", "a"): 0.0,
        ("a", "b"): 6.0,
        ("b", "a"): 6.0,
        ("b", "b"): 4.0,
    }
    both = hessian(lambda x, y: (x * y).sum(), (0, 1))(x0, x0)
    np.testing.assert_array_equal(both[0][1].numpy(), np.eye(2))
    np.testing.assert_array_equal(both[0][0].numpy(), np.zeros((2, 2)))


def test_on_another_device(fake_device):
    x = Tensor(x0, device=fake_device)
    for function in (lambda x: (x**2).sum(), lambda x: ops.concat([x**2, x])):
        found = jacobian(function)(x)
        assert found.device == fake_device
    np.testing.assert_array_equal(hessian(lambda x: (x**3).sum())(x).numpy(), np.diag(6 * x0))


@pytest.mark.parametrize(
    ("function", "argnums", "message"),
    [
        (lambda x: 1.0, 0, "jacobian: the function must return tensors, got float"),
        (lambda x: x, 1, "jacobian: there is no positional argument 1: the function was called with 1"),
    ],
)
def test_refused(function, argnums, message):
    with pytest.raises(GradientError, match=message):
        jacobian(function, argnums)(x0)
    with pytest.raises(GradientError, match="under has_aux the function must return a pair"):
        jacobian(lambda x: x, has_aux=True)(x0)
