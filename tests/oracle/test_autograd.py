"""Transformations, hooks, in-place changes and checkpoints against PyTorch's, in float64."""

import numpy as np
import pytest

from sknet import Function, Tensor, no_grad, ops
from sknet.autograd import checkpoint, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from sknet.core import gradients

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own use of it

RNG = np.random.default_rng(0)
POINT = {"w": RNG.standard_normal((4, 3)), "b": [RNG.standard_normal(4)]}
x0 = RNG.standard_normal((5, 3))


def net(xp, p, x):
    """Return several results; `xp` is sknet's functions or PyTorch's."""
    h = xp.tanh(x @ p["w"].T + p["b"][0])
    return {"h": h, "rest": (xp.exp(h).sum(), (p["b"][0] * p["b"][0])[:2])}


def scalar(xp, p, x):
    return (net(xp, p, x)["h"] ** 3).sum() * net(xp, p, x)["rest"][0]


def mine(function):
    return lambda *args: function(ops, *args)


def theirs(function):
    return lambda *args: function(torch, *args)


def as_torch(tree):
    if isinstance(tree, dict):
        return {key: as_torch(child) for key, child in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(as_torch(child) for child in tree)
    return torch.tensor(tree)


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)


def like(tree, seed):
    """Draw a tree of the structure and shapes of another."""
    rng = np.random.default_rng(seed)

    def draw(part):
        if isinstance(part, dict):
            return {key: draw(child) for key, child in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(draw(child) for child in part)
        return rng.standard_normal(np.shape(part))

    return draw(tree)


T_POINT, tx = as_torch(POINT), torch.tensor(x0)


class TestTransforms:
    def test_grad(self):
        for argnums in (0, 1, (0, 1), (1, 0)):
            expected = torch.func.grad(theirs(scalar), argnums)(T_POINT, tx)
            assert_same(grad(mine(scalar), argnums)(POINT, x0), expected)

    def test_value_and_aux(self):
        function = lambda xp: lambda p, x: (scalar(xp, p, x), net(xp, p, x))  # noqa: E731
        slope, (value, aux) = torch.func.grad_and_value(function(torch), has_aux=True)(T_POINT, tx)
        assert_same(value_and_grad(function(ops), has_aux=True)(POINT, x0), ((value, aux), slope))
        assert_same(grad(function(ops), has_aux=True)(POINT, x0), (slope, aux))

    def test_vjp(self):
        value, pullback = vjp(mine(net), POINT, x0)
        t_value, t_pullback = torch.func.vjp(theirs(net), T_POINT, tx)
        assert_same(value, t_value)
        cotangents = like({"h": np.ones((5, 4)), "rest": (1.0, np.ones(2))}, 1)
        assert_same(pullback(cotangents), t_pullback(as_torch(cotangents)))

    def test_jvp(self):
        tangents = like((POINT, x0), 2)
        expected = torch.func.jvp(theirs(net), (T_POINT, tx), as_torch(tangents))
        assert_same(jvp(mine(net), (POINT, x0), tangents), expected)

    @pytest.mark.parametrize("rows", [1, 5])  # fewer results than arguments, and more
    @pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
    def test_jacobian(self, rows, argnums):
        expected = torch.func.jacrev(theirs(net), argnums)(T_POINT, tx[:rows])
        assert_same(jacobian(mine(net), argnums)(POINT, x0[:rows]), expected)

    @pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
    def test_hessian(self, argnums):
        expected = torch.func.hessian(theirs(scalar), argnums)(T_POINT, tx)
        assert_same(hessian(mine(scalar), argnums)(POINT, x0), expected)

    def test_hessian_of_several_results(self):
        function = lambda xp: lambda x: xp.exp(x[:2]) * x[2]  # noqa: E731
        expected = torch.func.hessian(function(torch))(tx[0])
        assert_same(hessian(function(ops))(x0[0]), expected)

    def test_hvp(self):
        tangents = like((POINT, x0), 3)
        slope = torch.func.grad(theirs(scalar), (0, 1))
        expected = torch.func.jvp(slope, (T_POINT, tx), as_torch(tangents))[1]
        assert_same(hvp(mine(scalar), (POINT, x0), tangents), expected)

    def test_composed_with_each_other(self):
        inner = lambda f, vjp_: lambda x: (vjp_(f, x)[1](f(x))[0] ** 2).sum()  # noqa: E731
        expected = torch.func.grad(inner(torch.tanh, torch.func.vjp))(tx)
        assert_same(grad(inner(ops.tanh, vjp))(x0), expected)


def both(function):
    """Run a function of a leaf with PyTorch's tensors and with sknet's; compare all results."""
    x, t = Tensor(x0, requires_grad=True), torch.tensor(x0, requires_grad=True)
    found, expected = function(ops, x), function(torch, t)
    assert_same(found, expected)
    if t.grad is not None:
        assert_same(x.grad, t.grad)


class TestTape:
    def test_hooks(self):
        def function(xp, x):
            seen = []
            y = x * 2
            for tensor, factor in ((x, 3), (y, 5), (y, 7), (x, 11)):
                tensor.register_hook(lambda g, factor=factor: seen.append(g) or g * factor + 1)
            removed = y.register_hook(lambda g: g * 100)
            removed.remove()
            y.retain_grad()
            z = xp.exp(y) * y
            z.sum().backward()
            return [*seen, y.grad]

        both(function)

    def test_hooks_on_the_way_to_an_intermediate(self):
        def function(xp, x):
            y = x * 2
            y.register_hook(lambda g: g * 5)
            z = xp.exp(y).sum()
            if xp is ops:
                return [gradients(z, [y])[0], gradients(z, [x])[0]]
            # One at a time: of both together, PyTorch returns y's gradient as it was before the hook.
            return [torch.autograd.grad(z, [t], retain_graph=True)[0] for t in (y, x)]

        both(function)

    def test_hooks_in_a_gradient_of_a_gradient(self):
        def function(xp, x):
            y = x * x
            y.register_hook(lambda g: g * y)
            z = (y * 3).sum()
            if xp is ops:
                [first] = gradients(z, [x], create_graph=True)
            else:
                [first] = torch.autograd.grad(z, [x], create_graph=True)
            first.sum().backward()
            return first

        both(function)

    @pytest.mark.parametrize("is_retained_first", [False, True])
    def test_kept_gradients_of_what_changes_in_place(self, is_retained_first):
        def function(xp, x):
            y = x * 2
            if is_retained_first:
                y.retain_grad()
            y *= x
            y.retain_grad()
            (y * 7).sum().backward()
            return y.grad

        both(function)

    def test_changes_in_place(self):
        def function(xp, x):
            y = x * 2
            y += x[0]
            y[0] = x[1] * 3
            y[1:3, 0] *= 5
            z = xp.exp(y)
            y -= 1
            y[y.detach().numpy() > 0] = 0.5
            (y * y + z).sum().backward()
            return y

        both(function)

    def test_steps_inside_no_grad(self):
        def function(xp, x):
            for _ in range(3):
                x.grad = None
                (xp.exp(x) * x).sum().backward()
                with no_grad(), torch.no_grad():
                    x -= 0.1 * x.grad
                    x[0] *= 0.5
            return x

        x0_before = x0.copy()
        x, t = Tensor(x0.copy(), requires_grad=True), torch.tensor(x0, requires_grad=True)
        assert_same(function(ops, x), function(torch, t))
        np.testing.assert_array_equal(x0, x0_before)

    def test_changes_after_saving_for_backward(self):
        def function(xp, x):
            y = xp.tanh(x)
            z = (y * y).sum()
            with no_grad(), torch.no_grad():
                y *= 2
            with pytest.raises(RuntimeError):  # both raise
                z.backward()
            return x

        both(function)

    def test_checkpoint(self):
        def function(xp, x):
            block = lambda h, w: xp.tanh(h * w) + h  # noqa: E731
            if xp is ops:
                again = checkpoint
            else:
                again = lambda *args: torch.utils.checkpoint.checkpoint(*args, use_reentrant=False)  # noqa: E731
            (again(block, again(block, x, x * 2), x) ** 2).sum().backward()
            return x

        both(function)

    def test_a_custom_function(self):
        def forward(ctx, x, y, scale):
            ctx.save_for_backward(x, y)
            ctx.scale = scale
            return x * y * scale, x + y

        def backward(ctx, of_product, of_sum):
            x, y = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, True, False)
            return of_product * y * ctx.scale + of_sum, of_product * x * ctx.scale + of_sum, None

        def function(xp, x):
            base = Function if xp is ops else torch.autograd.Function
            namespace = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
            own = type("Own", (base,), namespace)
            product, total = own.apply(x, x * 3, 2.0)
            (product * total + own.apply(x, x, 0.5)[1]).sum().backward()
            return [product, total]

        both(function)
