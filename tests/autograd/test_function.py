"""Functions with a custom gradient."""

import numpy as np
import pytest

from sknet import Function, Tensor, grad, no_grad, ops
from sknet.autograd import gradcheck, once_differentiable
from sknet.core import gradients, is_grad_enabled
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


def test_inputs_without_gradient():
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


class DivMod(Function):
    """Several results, one of which is an integer."""

    @staticmethod
    def forward(ctx, x, y):
        quotient, product = x / y, x * y
        ctx.save_for_backward(x, y, quotient, product)
        return quotient, product, (x > y).astype("int64")

    @staticmethod
    def backward(ctx, of_quotient, of_product, of_flag):
        x, y, quotient, product = ctx.saved_tensors
        assert of_flag.numpy().tolist() == [0, 0]
        return (
            of_quotient * quotient / x + of_product * product / x,
            of_product * x - of_quotient * quotient / y,
        )


class TestSeveralResults:
    def test_any_of_them(self):
        for use in (
            lambda a, b: a + b * 2,
            lambda a, b: a,
            lambda a, b: b,
            lambda a, b: a * b,
            lambda a, b: [a, b, a * a],
        ):
            assert gradcheck(lambda x, y, use=use: use(*DivMod.apply(x, y)[:2]), [x0, y0])

    def test_are_a_tuple(self):
        quotient, product, flag = DivMod.apply(Tensor(x0, requires_grad=True), Tensor(y0))
        assert quotient.requires_grad
        assert product.requires_grad
        assert (flag.dtype, flag.requires_grad) == ("int64", False)
        assert isinstance(DivMod.apply(Tensor(x0), Tensor(y0)), tuple)
        one = broken(forward=lambda ctx, x: (x * 1,))
        assert isinstance(one.apply(Tensor(x0)), tuple)

    def test_backward_runs_once_for_all(self):
        calls = []

        class Count(DivMod):
            @staticmethod
            def backward(ctx, *gradients):
                calls.append(len(gradients))
                return DivMod.backward(ctx, *gradients)

        x = Tensor(x0, requires_grad=True)
        quotient, product, _ = Count.apply(x, Tensor(y0))
        (quotient * product).sum().backward()
        assert calls == [3]

    def test_errors_name_the_function(self):
        quotient = DivMod.apply(Tensor(x0, requires_grad=True), Tensor(y0))[0]
        with pytest.raises(GradientError, match="the result of 'DivMod'"):
            quotient.requires_grad = False


def test_needs_input_grad():
    seen = []

    class Watch(Multiply):
        @staticmethod
        def forward(ctx, x, y, scale):
            seen.append(ctx.needs_input_grad)
            return Multiply.forward(ctx, x, y, scale)

    x = Tensor(x0, requires_grad=True)
    Watch.apply(x, Tensor(y0), 1.0)
    with no_grad():
        Watch.apply(x, x, 1.0)
    assert seen == [(True, False, False), (False, False, False)]


def test_none_stops_the_gradient():
    cut = broken(lambda ctx, x, y: x * y, lambda ctx, g: (g, None))
    x, y = Tensor(x0, requires_grad=True), Tensor(y0, requires_grad=True)
    cut.apply(x, y).sum().backward()
    assert y.grad is None
    assert x.grad.numpy().tolist() == [1.0, 1.0]
    (cut.apply(x, y) + y * 2).sum().backward()  # along another path it arrives
    (y * 2 + cut.apply(x, y)).sum().backward()
    assert y.grad.numpy().tolist() == [4.0, 4.0]


class TestOnceDifferentiable:
    class Sine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Tensor(np.sin(x.data))

        @staticmethod
        @once_differentiable
        def backward(ctx, gradient):
            assert not is_grad_enabled()
            return gradient.data * np.cos(ctx.saved_tensors[0].data)

    def test_once(self):
        assert gradcheck(self.Sine.apply, [x0], order=1)

    def test_in_either_order(self):
        class Reversed(self.Sine):
            @once_differentiable
            @staticmethod
            def backward(ctx, gradient):
                return TestOnceDifferentiable.Sine.backward(ctx, gradient)

        x = Tensor(x0, requires_grad=True)
        [first] = gradients(Reversed.apply(x).sum(), [x], create_graph=True)
        with pytest.raises(GradientError, match=r"Reversed.backward is marked"):
            first.sum().backward()

    def test_twice(self):
        message = (
            "Sine.backward is marked with once_differentiable, and a gradient of its gradient is requested"
        )
        x = Tensor(x0, requires_grad=True)
        [first] = gradients(self.Sine.apply(x).sum(), [x], create_graph=True)
        np.testing.assert_array_equal(first.numpy(), np.cos(x0))
        with pytest.raises(GradientError, match=message):
            gradients(first.sum(), [x])


def test_saved_tensors_must_not_change():
    x, y = Tensor(x0, requires_grad=True), Tensor(y0.copy())
    out = Multiply.apply(x, y, 1.0).sum()
    y += 1
    with pytest.raises(GradientError, match=r"Multiply: a value of shape \(2,\) .* was changed in place"):
        out.backward()
