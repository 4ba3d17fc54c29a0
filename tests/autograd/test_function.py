"""Functions with a gradient of their own."""

import numpy as np
import pytest

from sknet import Function, Tensor, grad, no_grad, ops
from sknet.autograd import gradcheck
from sknet.core import gradients
from sknet.exceptions import GradientError, ShapeError


class Multiply(Function):
    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * y * scale

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y * ctx.scale, gradient * x * ctx.scale, None


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = ops.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        [y] = ctx.saved_tensors
        return gradient * y


def broken(forward=lambda ctx, x: x * 1, backward=lambda ctx, gradient: gradient):
    return type("Broken", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


x0, y0 = np.array([0.5, -1.0]), np.array([2.0, 3.0])


def test_several_inputs_and_constants():
    x, y = Tensor(x0, requires_grad=True), Tensor(y0, requires_grad=True)
    Multiply.apply(x, y, 3.0).sum().backward()
    assert x.grad.numpy().tolist() == (3 * y0).tolist()
    assert y.grad.numpy().tolist() == (3 * x0).tolist()


def test_gradients_of_any_order():
    assert gradcheck(lambda x, y: Multiply.apply(x, y, 3.0), [x0, y0])
    third = grad(grad(grad(lambda x: Multiply.apply(Multiply.apply(x, x, 1.0), x, 1.0))))
    assert third(Tensor(2.0)).item() == 6.0


def test_a_saved_result_is_differentiable():
    assert gradcheck(Exp.apply, [x0])
    assert grad(grad(grad(Exp.apply)))(Tensor(1.0)).item() == pytest.approx(np.e)


def test_backward_runs_once_for_all_inputs():
    calls = []

    class Count(Multiply):
        @staticmethod
        def backward(ctx, gradient):
            calls.append(gradient)
            return Multiply.backward(ctx, gradient)

    x, y = Tensor(x0, requires_grad=True), Tensor(y0, requires_grad=True)
    out = Count.apply(x, y, 1.0).sum()
    gradients(out, [x, y])
    assert len(calls) == 1
    gradients(out, [x, y])
    assert len(calls) == 2


def test_inputs_without_a_gradient_need_none():
    x = Tensor(x0, requires_grad=True)
    Multiply.apply(x, Tensor(y0), 1.0).sum().backward()
    assert x.grad.numpy().tolist() == y0.tolist()
    only_first = broken(lambda ctx, x, y: x * y, lambda ctx, g: (g, None))
    only_first.apply(x, 2.0).sum().backward()


def test_unrecorded():
    x = Tensor(x0, requires_grad=True)
    assert not Multiply.apply(Tensor(x0), Tensor(y0), 1.0).requires_grad
    with no_grad():
        assert not Multiply.apply(x, Tensor(y0), 1.0).requires_grad
    assert Multiply.apply(x, Tensor(y0), 1.0).requires_grad


def test_forward_may_return_its_input():
    identity = broken(lambda ctx, x: x, lambda ctx, g: g * 2)
    x = Tensor(x0, requires_grad=True)
    y = identity.apply(x)
    assert y is not x
    y.sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 2.0]


def test_gradients_get_the_dtype_of_their_input():
    x = Tensor(x0.astype("float32"), requires_grad=True)
    broken(backward=lambda ctx, g: g.astype("float64")).apply(x).sum().backward()
    assert x.grad.dtype == "float32"
    x.grad = None
    broken(backward=lambda ctx, g: np.ones(2)).apply(x).sum().backward()  # an array will do
    assert x.grad.numpy().tolist() == [1.0, 1.0]


def test_on_another_device(fake_device):
    x = Tensor(x0, requires_grad=True, device=fake_device)
    Exp.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.exp(x0))
    assert x.grad.device == fake_device


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            broken(backward=lambda ctx, g: (g, g)),
            GradientError,
            "Broken.backward must return one gradient for each of 1 inputs, got 2",
        ),
        (
            broken(backward=lambda ctx, g: g.sum()),
            ShapeError,
            r"Broken.backward: input 0 has shape \(2,\), its gradient \(\)",
        ),
        (
            broken(forward=lambda ctx, x: x.numpy()),
            GradientError,
            "Broken.forward must return a tensor or a tuple of tensors, got ndarray",
        ),
        (
            broken(forward=lambda ctx, x: (x, 1.0)),
            GradientError,
            "Broken.forward must return a tensor or a tuple of tensors, got Tensor, float",
        ),
        (
            broken(forward=lambda ctx, x: ()),
            GradientError,
            "Broken.forward must return a tensor or a tuple of tensors, got an empty tuple",
        ),
        (Function, TypeError, r"a Function must define a static method forward\(ctx, \*inputs\)"),
        (
            type("Half", (Function,), {"forward": staticmethod(lambda ctx, x: x * 1)}),
            TypeError,
            r"must define a static method backward\(ctx, \*gradients\)",
        ),
    ],
)
def test_refused(function, error, message):
    with pytest.raises(error, match=message):
        function.apply(Tensor(x0, requires_grad=True)).sum().backward()
