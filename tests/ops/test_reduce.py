"""Reductions of empty arrays, ties, extremes, and axes that do not exist."""

import math

import numpy as np
import pytest
import scipy.special

from sknet import Tensor, grad, ops
from sknet.autograd import gradcheck
from sknet.exceptions import DtypeError, ShapeError

REDUCTIONS = [
    *(ops.sum, ops.mean, ops.max, ops.min, ops.var, ops.std, ops.prod, ops.any, ops.all, ops.count_nonzero)
]


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.__name__)
class TestAxes:
    def test_a_missing_axis(self, op):
        with pytest.raises(ShapeError, match=f"{op.__name__}: axis 2 does not exist in an array with 2 axes"):
            op(np.ones((2, 3)), axis=2)

    def test_a_repeated_axis(self, op):
        with pytest.raises(ShapeError, match=rf"{op.__name__}: an axis is repeated in \(0, -2\)"):
            op(np.ones((2, 3)), axis=(0, -2))

    def test_a_non_integer_axis(self, op):
        with pytest.raises(TypeError, match=f"{op.__name__}: an axis must be an integer, got 1.5"):
            op(np.ones((2, 3)), axis=1.5)
        with pytest.raises(TypeError, match=f"{op.__name__}: an axis must be an integer, got 'x'"):
            op(np.ones((2, 3)), axis=("x",))

    def test_numpys_integers_and_lists(self, op):
        x = np.arange(6.0).reshape(2, 3)
        expected = op(x, axis=1).numpy()
        for axis in (np.int64(1), np.int8(-1), [1], (np.int64(-1),)):
            np.testing.assert_array_equal(op(x, axis=axis).numpy(), expected)

    def test_empty_tuple_of_axes(self, op):
        x = np.arange(6.0).reshape(2, 3)
        assert op(x, axis=()).shape == (2, 3)
        assert op(np.array(3.0)).shape == ()


class TestNothing:
    @pytest.mark.parametrize("op", [ops.mean, ops.var])
    def test_mean_is_nan_without_a_warning(self, op):
        assert math.isnan(op(np.ones(0)).item())
        assert op(np.ones((0, 3)), axis=0, keepdims=True).shape == (1, 3)
        assert np.isnan(op(np.ones((0, 3)), axis=0).numpy()).all()
        assert op(np.ones((3, 0)), axis=0).shape == (0,)

    def test_variance_of_too_few_is_nan(self):
        assert math.isnan(ops.var([3.0], correction=1).item())

    def test_sum_is_zero(self):
        assert ops.sum(np.ones((0, 3)), axis=0).numpy().tolist() == [0.0, 0.0, 0.0]
        assert ops.sum_squares(np.ones(0)).item() == 0.0

    @pytest.mark.parametrize("op", [ops.max, ops.min, ops.argmax, ops.argmin])
    def test_there_is_no_largest_element(self, op):
        message = rf"{op.__name__}: there is no element along axis \(-1,\) of shape \(2, 0\)"
        arguments = {"axis": -1}
        with pytest.raises(ShapeError, match=message):
            op(np.ones((2, 0)), **arguments)
        assert op(np.ones((0, 2)), **arguments).shape[0] == 0

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3)])
    def test_exponentials(self, shape):
        """A softmax of nothing is empty; the sum of no exponentials is 0, and its logarithm -inf."""
        for op in (ops.softmax, ops.log_softmax):
            assert op(np.ones(shape, "float32"), axis=0).shape == shape
        for axis in (None, 0, tuple(range(len(shape)))):
            expected = np.max(np.ones(shape), axis, initial=-np.inf)
            np.testing.assert_array_equal(ops.logsumexp(np.ones(shape), axis).numpy(), expected)

    @pytest.mark.parametrize("op", [ops.argmax, ops.softmax, ops.log_softmax, ops.logsumexp])
    def test_a_single_number_has_no_axis(self, op):
        with pytest.raises(
            ShapeError, match=f"{op.__name__}: axis -1 does not exist in an array with 0 axes"
        ):
            op(1.0, axis=-1)


class TestTies:
    def test_share_the_gradient(self):
        x = Tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
        slopes = grad(lambda x: ops.max(x, axis=1).sum())(x).numpy()
        np.testing.assert_allclose(slopes, [[0, 1 / 2, 1 / 2], [1 / 3] * 3])
        np.testing.assert_allclose(grad(ops.min)(x).numpy(), [[1, 0, 0], [0, 0, 0]])

    def test_argmax_takes_the_first(self):
        assert ops.argmax([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], axis=1).numpy().tolist() == [1, 0]
        assert ops.argmin([[1.0, 3.0, 1.0], [2.0, 2.0, 2.0]], axis=1).numpy().tolist() == [0, 0]


class TestProducts:
    """Gradients at zeros, where dividing the product by an element would fail."""

    @pytest.mark.parametrize(
        ("row", "expected"),
        [([2.0, 3.0, 4.0], [12, 8, 6]), ([2.0, 0.0, 4.0], [0, 8, 0]), ([0.0, 3.0, 0.0], [0, 0, 0])],
    )
    def test_first_order(self, row, expected):
        np.testing.assert_array_equal(grad(ops.prod)(Tensor(row)).numpy(), expected)

    @pytest.mark.parametrize(
        "op", [ops.prod, lambda x: ops.cumulative_prod(x).sum()], ids=["all", "up to each"]
    )
    @pytest.mark.parametrize("zeros", [(), (2,), (0,), (6,), (1, 4), (0, 1, 6)])
    def test_second_order(self, op, zeros):
        x = np.random.default_rng(0).uniform(0.5, 2.0, 7)
        x[list(zeros)] = 0.0
        assert gradcheck(op, [x], order=2)

    @pytest.mark.parametrize("axis", [None, 0, (0, 2), (-1, 1)])
    def test_over_several_axes(self, axis):
        x = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3, 2))
        x[0, 1], x[1, 2, 0] = 0.0, 0.0
        assert gradcheck(lambda x: ops.prod(x, axis), [x], order=2)

    def test_of_nothing_is_one(self):
        assert ops.prod(np.ones((0, 3)), 0).numpy().tolist() == [1.0, 1.0, 1.0]
        assert grad(lambda x: ops.prod(x))(Tensor(np.ones((0, 3)))).shape == (0, 3)

    def test_of_many(self):
        x = np.random.default_rng(0).uniform(0.9, 1.1, 1001)
        np.testing.assert_allclose(grad(ops.prod)(Tensor(x)).numpy(), x.prod() / x, rtol=1e-12)


class TestDeviations:
    def test_without_any_the_gradient_is_zero(self):
        x = Tensor([[1.0, 1.0], [1.0, 3.0]])
        assert ops.std(x, 1).numpy().tolist() == [0.0, 1.0]
        np.testing.assert_array_equal(grad(lambda x: ops.std(x, 1).sum())(x).numpy(), [[0, 0], [-0.5, 0.5]])

    def test_of_too_few_is_nan(self):
        assert math.isnan(ops.std([3.0], correction=1).item())


class TestTruth:
    def test_of_nothing(self):
        assert not ops.any(np.ones(0)).item()
        assert ops.all(np.ones(0)).item()

    def test_nan_is_true(self):
        assert ops.all([math.nan]).item()
        assert ops.count_nonzero([math.nan, 0.0, -0.0]).item() == 1

    def test_count_of_booleans(self):
        assert ops.count_nonzero([[True, False], [True, True]], axis=0).numpy().tolist() == [2, 1]


class TestTypes:
    def test_integers_add_up_as_in_numpy(self):
        for dtype in ("bool", "int8", "uint8", "int32", "uint64"):
            x = np.ones((2, 3), dtype)
            assert ops.sum(x, 0).dtype == x.sum(0).dtype
        assert ops.mean([True, False]).item() == 0.5
        assert ops.mean([1, 2]).dtype == "float64"

    @pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, ops.logsumexp])
    @pytest.mark.parametrize("dtype", ["int64", "bool"])
    def test_floating_operands_are_required(self, op, dtype):
        message = rf"{op.__name__}: expected a floating-point operand, got {dtype}: use .astype\('float32'\)"
        with pytest.raises(DtypeError, match=message):
            op(np.ones((2, 3), dtype))

    def test_variance_over_n_minus_correction(self):
        x = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
        np.testing.assert_allclose(ops.var(x, 0, correction=1).numpy(), x.var(0, ddof=1), rtol=1e-6)
        assert ops.var(x, 0, correction=0.5).dtype == "float32"


class TestExtremes:
    x = np.array([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4 + 1], [1e307, -1e307, 0.0], [-np.inf, 0.0, 1.0]])

    @pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, ops.logsumexp])
    def test_nothing_overflows(self, op):
        expected = getattr(scipy.special, op.__name__)(self.x, axis=-1)
        np.testing.assert_allclose(op(self.x, axis=-1).numpy(), expected, rtol=1e-14)

    @pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
    def test_rows_sum_to_one_in_float32(self, op):
        out = op(self.x[:2].astype("float32")).numpy()
        total = out.sum(-1) if op is ops.softmax else np.exp(out).sum(-1)
        np.testing.assert_allclose(total, 1, rtol=1e-6)

    @pytest.mark.filterwarnings("ignore:divide by zero encountered in log")
    def test_logsumexp_of_infinities(self):
        rows = [[-np.inf, -np.inf], [np.inf, 0.0], [np.nan, 0.0], [np.inf, np.inf]]
        expected = [-np.inf, np.inf, np.nan, np.inf]
        np.testing.assert_array_equal(ops.logsumexp(rows, 1).numpy(), expected)

    @pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, ops.logsumexp])
    def test_gradients_are_finite(self, op):
        assert np.isfinite(grad(lambda x: (op(x, axis=-1)[:1]).sum())(Tensor(self.x[:3])).numpy()).all()

    def test_gradient_of_log_softmax_is_one_hot_minus_probabilities(self):
        x = Tensor([[0.5, -1.0, 2.0]])
        slope = grad(lambda x: ops.log_softmax(x)[0, 2])(x).numpy()
        np.testing.assert_allclose(
            slope, np.array([[0.0, 0.0, 1.0]]) - scipy.special.softmax(x.numpy()), rtol=1e-14
        )

    def test_variance_far_from_zero(self):
        x = np.array([1e8, 1e8 + 1, 1e8 + 2])
        assert ops.var(x).item() == pytest.approx(2 / 3)
