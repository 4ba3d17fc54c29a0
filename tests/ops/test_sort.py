"""Ties, NaN, and functions whose shape depends on values."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.exceptions import DeviceError, ShapeError

TIES = np.array([2.0, 1.0, 2.0, 3.0, 1.0, 3.0])


class TestOrder:
    def test_equal_elements_keep_theirs(self):
        assert ops.argsort(TIES).numpy().tolist() == [1, 4, 0, 2, 3, 5]
        assert ops.argsort(TIES, descending=True).numpy().tolist() == [3, 5, 0, 2, 1, 4]

    def test_nan_is_largest(self):
        x = [1.0, np.nan, -np.inf, np.inf]
        np.testing.assert_array_equal(ops.sort(x).numpy(), [-np.inf, 1.0, np.inf, np.nan])
        np.testing.assert_array_equal(ops.sort(x, descending=True).numpy(), [np.nan, np.inf, 1.0, -np.inf])
        assert ops.argsort(x, descending=True).numpy().tolist() == [1, 3, 0, 2]

    def test_many_ties_along_any_axis(self):
        x = np.random.default_rng(0).integers(0, 4, (5, 40, 3))
        for axis in range(3):
            for descending in (False, True):
                expected = np.argsort(-x if descending else x, axis, kind="stable")
                np.testing.assert_array_equal(ops.argsort(x, axis, descending).numpy(), expected)

    def test_gradients_go_where_elements_came_from(self):
        weights = np.arange(6.0)
        slope = grad(lambda x: (ops.sort(x) * weights).sum())(Tensor(TIES)).numpy()
        assert slope[[1, 4, 0, 2, 3, 5]].tolist() == weights.tolist()
        slope = grad(lambda x: (ops.sort(x, descending=True) * weights).sum())(Tensor(TIES)).numpy()
        assert sorted(slope) == weights.tolist()

    @pytest.mark.parametrize("op", [ops.sort, ops.argsort, lambda x: ops.topk(x, 1)])
    def test_a_single_number_has_no_axis(self, op):
        with pytest.raises(ShapeError, match="axis -1 does not exist in an array with 0 axes"):
            op(1.0)


class TestTopK:
    def test_of_equal_elements_the_first(self):
        values, indices = ops.topk(TIES, 3)
        assert (values.numpy().tolist(), indices.numpy().tolist()) == ([3.0, 3.0, 2.0], [3, 5, 0])
        values, indices = ops.topk(TIES, 3, largest=False)
        assert (values.numpy().tolist(), indices.numpy().tolist()) == ([1.0, 1.0, 2.0], [1, 4, 0])

    @pytest.mark.parametrize("largest", [True, False])
    @pytest.mark.parametrize("k", [1, 7, 50, 99, 100])
    def test_among_many_as_if_all_were_sorted(self, k, largest):
        x = np.random.default_rng(k).integers(0, 12, (20, 100)).astype("float32")
        x[x == 11] = np.nan
        x[x == 10] = np.inf
        expected = ops.argsort(x, descending=largest).numpy()[:, :k]
        np.testing.assert_array_equal(ops.topk(x, k, largest=largest)[1].numpy(), expected)
        np.testing.assert_array_equal(ops.topk(x.T, k, 0, largest)[1].numpy(), expected.T)

    @pytest.mark.parametrize("k", [1, 30, 50, 100])
    @pytest.mark.parametrize("share", [0.3, 1.0])
    @pytest.mark.parametrize("largest", [True, False])
    def test_any_number_of_nan(self, largest, share, k):
        rng = np.random.default_rng(0)
        x = rng.integers(-5, 5, (3, 100)).astype("float32")
        x[rng.random(x.shape) < 0.1] = np.inf
        x[rng.random(x.shape) < share] = np.nan
        values, places = ops.topk(x, k, largest=largest)
        assert values.dtype == x.dtype
        np.testing.assert_array_equal(places.numpy(), ops.argsort(x, descending=largest).numpy()[:, :k])

    def test_gradient(self):
        slope = grad(lambda x: (ops.topk(x, 2)[0] * [1.0, 10.0]).sum())(Tensor([1.0, 5.0, 3.0]))
        assert slope.numpy().tolist() == [0.0, 1.0, 10.0]

    @pytest.mark.parametrize("k", [7, -1])
    def test_refused(self, k):
        with pytest.raises(ShapeError, match=rf"topk: k is {k}, and axis -1 of shape \(6,\) has 6 elements"):
            ops.topk(TIES, k)


class TestSearch:
    def test_refused(self):
        with pytest.raises(
            ShapeError, match=r"searchsorted: expected a sorted array of one axis, got .*\(2, 2\)"
        ):
            ops.searchsorted(np.ones((2, 2)), [1.0])
        with pytest.raises(ValueError, match="searchsorted: side must be 'left' or 'right', got 'top'"):
            ops.searchsorted([1.0], [1.0], "top")


class TestShapesThatDependOnValues:
    def test_nonzero(self):
        x = np.array([[0.0, 3.0, np.nan], [1.0, 0.0, 0.0]])
        for mine, theirs in zip(ops.nonzero(x), np.nonzero(x), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs)
        np.testing.assert_array_equal(Tensor(x)[ops.nonzero(x)].numpy(), x[np.nonzero(x)])

    def test_unique_values(self):
        assert ops.unique_values([[3, 1], [1, 2]]).numpy().tolist() == [1, 2, 3]
        assert ops.unique_values(np.ones(0, "float32")).dtype == "float32"

    def test_on_another_device(self, fake_device):
        x = Tensor([0, 2, 0, 2], device=fake_device)
        found = [*ops.nonzero(x), ops.unique_values(x)]
        assert all(part.device == fake_device for part in found)
        assert [part.numpy().tolist() for part in found] == [[1, 3], [0, 2]]

    def test_a_single_number(self):
        with pytest.raises(ShapeError, match=r"nonzero: expected at least 1 axis, got shape \(\)"):
            ops.nonzero(1.0)

    @pytest.mark.parametrize("op", [ops.nonzero, ops.unique_values])
    def test_without_data(self, op):
        with pytest.raises(DeviceError, match="needs data, but a meta array has only a shape and a dtype"):
            op(Tensor([1.0], device="meta"))
