"""Edge cases of elementwise functions: 0, ties, infinity, and numbers on either side."""

import math

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.autograd import hvp
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError
from tests.ops.helpers import slopes

inf, nan = math.inf, math.nan


def dtype_of(x):
    return x.dtype.type


class TestPow:
    @pytest.mark.parametrize(
        ("exponent", "expected"), [(0, 0.0), (0.0, 0.0), (1, 1.0), (1.0, 1.0), (2, 0.0), (3.5, 0.0)]
    )
    def test_gradient_at_zero_of_a_constant_exponent(self, exponent, expected):
        assert slopes(lambda x: x**exponent, 0.0) == [expected]

    @pytest.mark.parametrize(("exponent", "expected"), [(0, 0.0), (1, 0.0), (2, 2.0), (3, 0.0)])
    def test_second_order_at_zero(self, exponent, expected):
        assert grad(grad(lambda x: x**exponent))(Tensor(0.0)).item() == expected

    @pytest.mark.parametrize(
        ("base", "exponent", "expected"),
        [
            (0.0, 0.0, [0.0, 0.0]),
            (0.0, 2.0, [0.0, 0.0]),
            (0.0, 1.0, [1.0, 0.0]),
            (3.0, 0.0, [0.0, math.log(3.0)]),
            (5e-324, 0.0, [0.0, math.log(5e-324)]),
            (-2.0, 3.0, [12.0, nan]),
        ],
    )
    @pytest.mark.filterwarnings("ignore:invalid value encountered in log")
    def test_gradients_of_both_operands(self, base, exponent, expected):
        np.testing.assert_allclose(slopes(ops.pow, base, exponent), expected)

    def test_mixed_second_order_at_a_zero_exponent(self):
        # d/dy (y * x ** (y - 1)) at y = 0 is 1 / x
        slope = grad(lambda y: grad(lambda x, y: ops.pow(x, y))(Tensor(4.0), y))(Tensor(0.0))
        assert slope.item() == 0.25

    @pytest.mark.parametrize(("base", "expected"), [(2.0, math.log(2.0)), (0.0, 0.0), (1, 0.0), (-1.0, nan)])
    def test_a_constant_base_stays_weakly_typed(self, base, expected):
        x = Tensor(np.zeros(1, "float32"), requires_grad=True)
        (base**x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), [expected], rtol=1e-6)
        assert x.grad.dtype == "float32"

    def test_integers_to_negative_powers(self):
        with pytest.raises(
            ValueError, match=r"pow: cannot compute with operands int64\(1,\): Integers to negative"
        ):
            ops.pow([2], -1)


def test_divide_does_not_overflow_in_between():
    tiny = np.float32(1e-30)
    x = Tensor(np.float32([tiny]), requires_grad=True)
    (Tensor(np.float32([1e-30])) / x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [-1e30], rtol=1e-6)


class TestTies:
    def test_maximum_and_minimum_share(self):
        assert slopes(ops.maximum, [1.0, 2.0, 2.0], [1.0, 1.0, 3.0]) == [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]
        assert slopes(ops.minimum, [1.0, 2.0, 2.0], [1.0, 1.0, 3.0]) == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]

    def test_with_a_number(self):
        assert slopes(lambda x: ops.maximum(x, 1.0), [0.0, 1.0, 2.0]) == [[0.0, 0.5, 1.0]]
        assert slopes(lambda x: ops.minimum(1, x), [0.0, 1.0, 2.0]) == [[1.0, 0.5, 0.0]]

    def test_abs_and_sign_at_zero(self):
        assert slopes(ops.abs, [-1.0, 0.0, 1.0]) == [[-1.0, 0.0, 1.0]]
        assert slopes(ops.sign, [-1.0, 0.0, 1.0]) == [[0.0, 0.0, 0.0]]

    @pytest.mark.parametrize("function", [ops.abs, ops.relu, ops.sign, lambda x: ops.maximum(x, 0.0)])
    def test_second_derivatives_at_kinks_are_zero(self, function):
        second = grad(lambda x: grad(lambda x: function(x).sum())(x).sum())(Tensor([-1.0, 0.0, 1.0]))
        assert second.numpy().tolist() == [0.0, 0.0, 0.0]

    def test_clip_lets_gradients_through_at_its_limits(self):
        assert slopes(lambda x: ops.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [
            [0.0, 1.0, 1.0, 1.0, 0.0]
        ]

    def test_tensor_limits_of_clip_get_the_gradient_where_they_are_active(self):
        x, low, high = [-1.0, 0.0, 0.5, 1.0, 2.0, 0.5], [0.0] * 5 + [2.0], [1.0] * 6
        assert slopes(ops.clip, x, low, high) == [
            [0.0, 1.0, 1.0, 1.0, 0.0, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0, 1.0],  # where low > high the result is high
        ]

    @pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
    def test_clip_with_one_limit(self, dtype):
        x = np.array([0, 1, 3], dtype)
        assert ops.clip(x, min=1).numpy().tolist() == np.maximum(x, 1).tolist()
        assert ops.clip(x, max=1).numpy().tolist() == np.minimum(x, 1).tolist()
        assert ops.clip(x, max=1.5).dtype == np.clip(x, None, 1.5).dtype
        assert ops.clip(x).data is x

    @pytest.mark.parametrize(
        "function", [ops.relu, ops.relu6, lambda x: ops.where(x > 0, x, 0.0), lambda x: ops.clip(x, 0.5, 2)]
    )
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_infinite_gradients_do_not_affect_the_unselected_operand(self, function, dtype):
        x = Tensor(np.array([-1.0, 1.0], dtype), requires_grad=True)
        [g] = gradients(function(x), [x], Tensor(np.array([inf, inf], dtype)))
        assert g.numpy().tolist() == [0.0, inf]

    def test_nan_stays(self):
        x = Tensor([nan])
        for function in (
            ops.relu,
            ops.maximum,
            ops.minimum,
            ops.clip,
            ops.leaky_relu,
            ops.elu,
            ops.hardswish,
            ops.abs,
        ):
            arguments = (0.0,) if function in (ops.maximum, ops.minimum, ops.clip) else ()
            assert math.isnan(function(x, *arguments).item()), function


class TestWhere:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
    def test_or_zero_is_bitwise_numpys(self, dtype, shape):
        condition = np.array([True, False, True])
        for value in (inf, nan, -0.0, 1.5, -1e-7):
            x = np.full(shape, value, dtype)
            for out, expected in (
                (ops.where(condition, x, 0.0), np.where(condition, x, dtype_of(x)(0))),
                (ops.where(condition, x[..., None], 0.0), np.where(condition, x[..., None], dtype_of(x)(0))),
                (ops.where(condition, x, -0.0), np.where(condition, x, dtype_of(x)(-0.0))),
            ):
                assert out.dtype == dtype
                assert out.numpy().tobytes() == expected.tobytes()

    def test_numbers_on_both_sides(self):
        out = ops.where([True, False], 1.0, 0.0)
        assert out.numpy().tolist() == [1.0, 0.0]
        assert out.dtype == "float64"
        assert ops.where([True, False], 1, 0).dtype == "int64"

    def test_a_number_does_not_widen(self):
        assert ops.where([True], np.zeros(1, "float32"), 1.0).dtype == "float32"
        assert ops.where([True], np.float64(1.0), np.zeros(1, "float32")).dtype == "float32"

    def test_the_unselected_branch_does_not_affect_the_gradient(self):
        x = Tensor([-1.0, 4.0], requires_grad=True)
        ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1.0)), 0.0).sum().backward()
        assert x.grad.numpy().tolist() == [0.0, 0.25]

    def test_a_gradient_of_the_condition_is_refused(self):
        c = Tensor([1.0, 0.0], requires_grad=True)
        with pytest.raises(
            RuntimeError, match=r"'where' has no gradient with respect to operand 0: detach\(\) it"
        ):
            ops.where(c, c, 1.0).sum().backward()


class TestTypes:
    @pytest.mark.parametrize(
        "scalar", [2, 2.0, True, np.float64(2.0), np.float32(2.0), np.int64(2), np.bool_(True)]
    )
    @pytest.mark.parametrize(
        "op", [ops.add, ops.subtract, ops.multiply, ops.divide, ops.pow, ops.maximum, ops.xlogy]
    )
    def test_scalars_do_not_upcast(self, op, scalar):
        x = Tensor(np.ones(2, "float32"), requires_grad=True)
        for out in (op(x, scalar), op(scalar, x)):
            assert out.dtype == "float32"
            [g] = [grad(lambda v, op=op: op(v, scalar).sum())(x.detach())]
            assert g.dtype == "float32"

    def test_gradients_have_their_operands_dtype(self):
        x = Tensor(np.ones(2, "float32"), requires_grad=True)
        y = Tensor(np.ones((3, 2)), requires_grad=True)
        out = x * y
        assert out.dtype == "float64"
        out.sum().backward()
        assert (x.grad.dtype, x.grad.shape) == ("float32", (2,))
        assert (y.grad.dtype, y.grad.shape) == ("float64", (3, 2))

    def test_two_numbers_make_a_tensor(self):
        assert ops.add(1, 2).item() == 3
        assert ops.exp(0.0).shape == ()

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: ops.subtract([True], [True]), "subtract: not defined for bool and bool: use .astype"),
            (lambda: ops.negative([True]), "negative: not defined for bool: use .astype"),
            (
                lambda: ops.add(Tensor([1.0]), 1j),
                "a tensor holds booleans, integers or real numbers, got dtype complex",
            ),
            (lambda: ops.add(Tensor([1.0]), np.complex128(1j)), "real numbers, got dtype complex128"),
            (lambda: ops.add(Tensor([1.0]), "a"), "real numbers, got dtype <U1"),
        ],
    )
    def test_refused(self, call, message):
        with pytest.raises(DtypeError, match=message):
            call()

    def test_shapes_that_do_not_broadcast(self):
        with pytest.raises(ShapeError, match=r"add: shapes \(2,\) and \(3,\) do not broadcast together"):
            ops.add(np.ones(2), np.ones(3))
        with pytest.raises(ShapeError, match=r"where: shapes \(2,\) and \(3,\) do not broadcast together"):
            ops.where(np.ones(2, bool), np.ones(3), 0.0)

    def test_numbers_out_of_range(self):
        with pytest.raises(
            ValueError, match=r"add: cannot compute with operands uint8\(1,\): Python integer -1"
        ):
            ops.add(np.ones(1, "uint8"), -1)


class TestAstype:
    def test_same_dtype_is_the_same_tensor(self):
        x = Tensor([1.0])
        assert ops.astype(x, "float64") is x
        assert x.astype("float64") is not x

    def test_gradients_come_back_in_the_operands_dtype(self):
        x = Tensor(np.ones(2, "float32"), requires_grad=True)
        x.astype("float64").sum().backward()
        assert x.grad.dtype == "float32"

    def test_no_gradient_through_integers(self):
        x = Tensor([1.5], requires_grad=True)
        assert not x.astype("int64").requires_grad
        assert not ops.astype(x, bool).requires_grad

    def test_complex_is_refused(self):
        with pytest.raises(DtypeError, match="real numbers, got dtype complex64"):
            Tensor([1.0]).astype("complex64")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.maximum(x, 0.0),
        lambda x: ops.maximum(0.0, x),
        lambda x: -ops.minimum(-x, 0.0),
        lambda x: ops.relu(x),
        lambda x: ops.clip(x, 0.0),
        lambda x: ops.max(ops.stack([x, np.zeros(3)]), axis=0),
        lambda x: -ops.min(ops.stack([-x, np.zeros(3)]), axis=0),
        lambda x: ops.hardswish(x - 3.0),
    ],
    ids=["maximum", "other side", "minimum", "relu", "clip", "max", "min", "hardswish"],
)
@pytest.mark.parametrize(
    "after", [ops.sqrt, ops.log, lambda x: x**0.5, lambda x: x**1.5], ids=["sqrt", "log", "root", "power"]
)
def test_an_infinite_gradient_does_not_reach_what_was_not_chosen(function, after):
    x = np.array([-800.0, -2.0, -0.5])
    with np.errstate(all="ignore"):
        first = grad(lambda x: ops.sum(after(function(x))))(x)
        (second,) = hvp(lambda x: ops.sum(after(function(x))), (x,), (np.ones(3),))
    np.testing.assert_array_equal(first.numpy(), 0.0)
    np.testing.assert_array_equal(second.numpy(), 0.0)
