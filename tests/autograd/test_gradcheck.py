"""The gradient checker detects errors."""

import numpy as np
import pytest

from sknet import Function, Tensor, ops
from sknet.autograd import gradcheck
from sknet.exceptions import GradientError, ShapeError

x0 = np.array([[0.5, -1.0, 2.0]])


def wrong(backward):
    cube = {"forward": staticmethod(_cube), "backward": staticmethod(backward)}
    return type("Cube", (Function,), cube).apply


def _cube(ctx, x):
    ctx.save_for_backward(x)
    return x * x * x


def _right(ctx, gradient):
    return gradient * 3.0 * ctx.saved_tensors[0] * ctx.saved_tensors[0]


def test_accepts_correct_gradients():
    assert gradcheck(wrong(_right), [x0])
    assert gradcheck(ops.matmul, [x0, np.ones((3, 2))])
    assert gradcheck(lambda x: x * 2, [np.ones(2)])
    assert gradcheck(lambda x: Tensor([1.0]), [x0])  # a constant


@pytest.mark.parametrize(
    "backward",
    [
        lambda ctx, g: g * 2.999 * ctx.saved_tensors[0] * ctx.saved_tensors[0],
        lambda ctx, g: g * 3.0 * ctx.saved_tensors[0],
        lambda ctx, g: g * 3.0 * ctx.saved_tensors[0] * ctx.saved_tensors[0] * np.array([1.0, 1.0, 0.0]),
        lambda ctx, g: g * np.nan,
    ],
)
def test_first_order(backward):
    with pytest.raises(
        GradientError, match=r"first derivative with respect to input 0 of shape \(1, 3\): expected .* got"
    ):
        gradcheck(wrong(backward), [x0])


def test_second_order():
    detached = wrong(lambda ctx, g: g * 3.0 * (ctx.saved_tensors[0] * ctx.saved_tensors[0]).detach())
    assert gradcheck(detached, [x0], order=1)
    with pytest.raises(
        GradientError, match=r"gradcheck: second derivative with respect to input 0 of shape \(1, 3\)"
    ):
        gradcheck(detached, [x0])


def test_names_the_input():
    scale = wrong(_right)
    with pytest.raises(GradientError, match="with respect to input 1"):
        gradcheck(lambda x, y: x * scale(y.detach()), [x0, x0])


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (
            [x0.astype("float32")],
            {},
            r"gradcheck: input 0 must be float64, got float32: use .astype\('float64'\)",
        ),
        ([x0, np.array([1])], {}, "gradcheck: input 1 must be float64, got int64"),
        ([x0], {"order": 3}, "gradcheck: order must be 1 or 2, got 3"),
        ([], {}, "gradcheck: expected at least one input to differentiate with respect to, got none"),
    ],
)
def test_refused(inputs, options, message):
    with pytest.raises(GradientError, match=message):
        gradcheck(lambda *xs: xs[0], inputs, **options)


def test_changes_nothing(fake_device):
    x = Tensor(x0.copy(), requires_grad=True)
    assert gradcheck(ops.tanh, [x])
    np.testing.assert_array_equal(x.numpy(), x0)
    assert x.grad is None
    assert gradcheck(ops.tanh, [Tensor(x0, device=fake_device)])


def test_trees():
    point = {"w": x0, "b": [np.array([1.0, 2.0])]}
    assert gradcheck(
        lambda t, s: {"a": ops.tanh(t["w"]) * s, "rest": [t["b"][0] ** 3]}, [point, np.array(2.0)]
    )
    scale = wrong(lambda ctx, g: g)
    message = r"first derivative with respect to input 0.b.0 of shape \(2,\): expected .* got"
    with pytest.raises(GradientError, match=message):
        gradcheck(lambda t: [t["w"], scale(t["b"][0])], [point])


def test_a_gradient_of_another_shape():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    with pytest.raises(ShapeError, match=r"Broken.backward: input 0 has shape \(1, 3\), its gradient \(\)"):
        gradcheck(Broken.apply, [x0])
