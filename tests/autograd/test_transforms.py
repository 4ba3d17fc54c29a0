"""grad, vjp, jvp and hvp: trees, nesting, and the caller's tensors."""

from collections import namedtuple

import numpy as np
import pytest

from sknet import Function, Tensor, grad, no_grad, ops, value_and_grad
from sknet.autograd import hvp, jvp, vjp
from sknet.core import gradients
from sknet.exceptions import DeviceError, DtypeError, GradientError, ShapeError

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


def test_unused_arguments_have_zero_gradients():
    assert grad(lambda x, y: x.sum(), argnums=1)(Tensor([1.0]), Tensor([1.0, 2.0])).numpy().tolist() == [
        0.0,
        0.0,
    ]
    assert grad(lambda x: Tensor(1.0))(Tensor([1.0, 2.0])).numpy().tolist() == [0.0, 0.0]


def test_arguments_are_not_changed():
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


class TestAux:
    def test_is_handed_on(self):
        f = lambda x: ((x**2).sum(), {"twice": x * 2, "n": 3})  # noqa: E731
        (value, rest), slope = value_and_grad(f, has_aux=True)(np.array([1.0, 2.0]))
        assert value.item() == 5.0
        assert rest["twice"].numpy().tolist() == [2.0, 4.0]
        assert not rest["twice"].requires_grad
        assert rest["n"] == 3
        slope_again, rest = grad(f, has_aux=True)(np.array([1.0, 2.0]))
        assert slope_again.numpy().tolist() == slope.numpy().tolist() == [2.0, 4.0]
        assert rest["n"] == 3

    def test_stays_connected_to_the_callers_tape(self):
        a = Tensor(2.0, requires_grad=True)
        _, rest = grad(lambda x: (x, a * x), has_aux=True)(Tensor(3.0))
        assert gradients(rest, [a])[0].item() == 3.0

    def test_refused(self):
        with pytest.raises(GradientError, match=r"grad: .* must return a pair \(value, rest\), got Tensor"):
            grad(lambda x: x, has_aux=True)(Tensor(1.0))


def both_of(p, s):
    return {"y": p["w"] @ p["x"] * s, "rest": (p["x"].sum(),)}


POINT = {"w": np.array([[1.0, 2.0], [3.0, 4.0]]), "x": np.array([5.0, 6.0])}


class TestVjp:
    def test_trees(self):
        value, pullback = vjp(both_of, POINT, np.array(2.0))
        assert value["y"].numpy().tolist() == [34.0, 78.0]
        assert not value["y"].requires_grad
        cotangents = {"y": np.array([1.0, 10.0]), "rest": (np.array(100.0),)}
        for _ in range(2):
            p, s = pullback(cotangents)
            np.testing.assert_array_equal(p["w"].numpy(), 2 * np.outer([1.0, 10.0], POINT["x"]))
            np.testing.assert_array_equal(p["x"].numpy(), 2 * POINT["w"].T @ [1.0, 10.0] + 100)
            assert s.item() == 17.0 + 390.0
            assert not s.requires_grad

    def test_has_aux(self):
        _, pullback, rest = vjp(lambda x: (x * 2, "note"), np.ones(2), has_aux=True)
        assert rest == "note"
        assert pullback(np.ones(2))[0].numpy().tolist() == [2.0, 2.0]

    def test_the_pullback_can_be_differentiated(self):
        u = Tensor(3.0, requires_grad=True)
        _, pullback = vjp(lambda x: x**2, Tensor(5.0))
        assert gradients(pullback(u)[0], [u])[0].item() == 10.0
        second = grad(lambda x: vjp(lambda y: y**3, x)[1](1.0)[0])
        assert second(Tensor(2.0)).item() == 12.0

    def test_cotangents_get_the_dtype_of_the_value(self):
        [g] = vjp(lambda x: x * 2, Tensor(np.ones(2, "float32")))[1]([1.0, 2.0] @ np.eye(2))
        assert g.dtype == "float32"

    @pytest.mark.parametrize(
        ("cotangents", "error", "message"),
        [
            (
                {"y": np.ones(2)},
                GradientError,
                r"vjp: the cotangents must have .* expected leaves at \['y', 'rest",
            ),
            (
                tuple(range(10_000)),
                GradientError,
                r"expected leaves at \['y', 'rest.*\], got \['0', '1', .{,300}\.\.\..{,300}$",
            ),
            (
                {"y": np.ones(3), "rest": (1.0,)},
                ShapeError,
                r"the cotangents at 'y' must have shape \(2,\), got",
            ),
            (
                {"y": Tensor(np.ones(2), device="meta"), "rest": (1.0,)},
                DeviceError,
                "the cotangents at 'y' must be on 'cpu', got 'meta'",
            ),
        ],
    )
    def test_refused(self, cotangents, error, message):
        with pytest.raises(error, match=message):
            vjp(both_of, POINT, 2.0)[1](cotangents)


class TestJvp:
    def test_trees(self):
        tangents = {"w": np.array([[1.0, 0.0], [0.0, 1.0]]), "x": np.array([1.0, -1.0])}
        value, derivative = jvp(both_of, (POINT, np.array(2.0)), (tangents, np.array(3.0)))
        w, x = POINT["w"], POINT["x"]
        assert value["rest"][0].item() == 11.0
        expected = 2 * (tangents["w"] @ x + w @ tangents["x"]) + 3 * w @ x
        np.testing.assert_array_equal(derivative["y"].numpy(), expected)
        assert derivative["rest"][0].item() == 0.0
        assert not derivative["y"].requires_grad

    def test_constant_results(self):
        _, (a, b) = jvp(lambda x: (Tensor(np.ones(3)), (x > 0.0)), (np.ones(2),), (np.ones(2),))
        assert a.numpy().tolist() == [0.0, 0.0, 0.0]
        assert b.shape == (2,)

    def test_has_aux(self):
        assert jvp(lambda x: (x, "note"), (1.0,), (2.0,), has_aux=True)[2] == "note"

    def test_nested(self):
        along = lambda x: jvp(lambda y: y**3, (x,), (Tensor(1.0),))[1]  # noqa: E731
        assert jvp(along, (Tensor(2.0),), (Tensor(1.0),))[1].item() == 12.0
        assert grad(along)(Tensor(2.0)).item() == 12.0
        v = Tensor(1.0, requires_grad=True)
        assert gradients(jvp(lambda y: y**3, (Tensor(2.0),), (v,))[1], [v])[0].item() == 12.0

    def test_of_a_custom_function(self):
        class Cube(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * x

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 3 * ctx.saved_tensors[0] ** 2

        assert jvp(Cube.apply, (Tensor(2.0),), (Tensor(10.0),))[1].item() == 120.0

    def test_refused(self):
        with pytest.raises(ShapeError, match=r"jvp: the tangents at '0' must have shape \(2,\), got \(3,\)"):
            jvp(lambda x: x, (np.ones(2),), (np.ones(3),))


class TestHvp:
    def test_trees(self):
        f = lambda p, s: ((p["w"] @ p["x"]) ** 2).sum() * s  # noqa: E731
        v = ({"w": np.ones((2, 2)), "x": np.array([1.0, 2.0])}, np.array(0.5))
        p, s = hvp(f, (POINT, np.array(2.0)), v)
        expected = jvp(grad(f, (0, 1)), (POINT, np.array(2.0)), v)[1]
        np.testing.assert_allclose(p["w"].numpy(), expected[0]["w"].numpy())
        np.testing.assert_allclose(p["x"].numpy(), expected[0]["x"].numpy())
        np.testing.assert_allclose(s.numpy(), expected[1].numpy())
        assert not s.requires_grad

    def test_refused(self):
        with pytest.raises(ShapeError, match=r"hvp: the tangents at '0' must have shape \(2,\), got \(\)"):
            hvp(lambda x: x.sum(), (np.ones(2),), (1.0,))
        with pytest.raises(GradientError, match="grad: the function must return a scalar tensor"):
            hvp(lambda x: x, (np.ones(2),), (np.ones(2),))
