"""Norms and distances where something is zero, and their messages."""

import math

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.exceptions import ShapeError

ROWS = np.array([[0.0, 2.0, -1.5], [0.0, 0.0, 0.0], [-1.0, 0.0, 3.0]])


class TestZeros:
    @pytest.mark.parametrize("ord", [1, 1.5, 2, 3, math.inf])
    def test_the_gradient_is_pytorchs(self, ord):
        torch = pytest.importorskip("torch", reason="needs PyTorch, whose gradients are compared")
        x, y = Tensor(ROWS, requires_grad=True), torch.tensor(ROWS, requires_grad=True)
        ops.norm(x, ord, -1).sum().backward()
        torch.linalg.vector_norm(y, ord, -1).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12, atol=1e-15)

    def test_the_second_gradient_is_finite(self):
        x = Tensor(ROWS, requires_grad=True)
        y = ops.norm(x, axis=-1).sum()
        y.backward(create_graph=True)
        first, x.grad = x.grad, None
        first.sum().backward()
        assert np.isfinite(x.grad.numpy()).all()

    def test_the_same_point_twice(self):
        x = Tensor(ROWS, requires_grad=True)
        distances = ops.cdist(x, x)
        np.testing.assert_array_equal(np.diag(distances.numpy()), 0)
        distances.sum().backward()
        a, b, c = ROWS

        def slope(p, q):
            return (p - q) / np.linalg.norm(p - q)

        expected = np.array([slope(a, b) + slope(a, c), slope(b, a) + slope(b, c), slope(c, a) + slope(c, b)])
        np.testing.assert_allclose(x.grad.numpy() / 2, expected, rtol=1e-12)

    def test_directions(self):
        np.testing.assert_array_equal(ops.normalize(ROWS).numpy()[1], 0)
        np.testing.assert_array_equal(ops.cosine_similarity(ROWS, ROWS).numpy().round(12), [1, 0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.cdist(np.ones((2, 3)), np.ones((4, 2))), r"\(2, 3\) and \(4, 2\)"),
        (lambda: ops.cdist(np.ones(3), np.ones((4, 3))), r"cdist: expected points"),
        (lambda: ops.norm(np.ones(3), axis=1), "norm: axis 1 does not exist"),
        (lambda: ops.cosine_similarity(np.ones(3), np.ones(2)), "cosine_similarity: shapes"),
        (
            lambda: ops.cosine_similarity(np.ones(3), np.ones(3), 2),
            "cosine_similarity: axis 2 does not exist",
        ),
    ],
)
def test_messages(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_small_integers_do_not_overflow():
    assert ops.norm(np.array([200, 200], np.uint8)).item() == pytest.approx(200 * math.sqrt(2))
    assert ops.cdist(np.array([[1]], np.uint8), np.array([[3]], np.uint8)).item() == 2
