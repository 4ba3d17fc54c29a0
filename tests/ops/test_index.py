"""Indexing: duplicates, masks, and indices that point outside."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.exceptions import DtypeError, ShapeError

x = np.arange(12.0).reshape(3, 4)


class TestBrackets:
    @pytest.mark.parametrize(
        "index",
        [
            0,
            -1,
            np.int64(1),
            slice(1, None),
            (slice(None), 2),
            (Ellipsis, 0),
            None,
            [2, 0],
            [],
            ([0, 1], [1, 1]),
            np.array([[0, 1], [2, 2]]),
            x > 5,
            (slice(None, None, -1),),
            True,
        ],
    )
    def test_as_in_numpy(self, index):
        np.testing.assert_array_equal(Tensor(x)[index].numpy(), x[index])

    def test_tensors_index(self):
        t = Tensor(x)
        np.testing.assert_array_equal(t[t > 5].numpy(), x[x > 5])
        np.testing.assert_array_equal(t[Tensor([2, 0]), :2].numpy(), x[[2, 0], :2])

    def test_what_is_taken_twice_gets_both_gradients(self):
        slope = grad(lambda t: (t[[0, 0, 2]] * np.array([[1.0], [2.0], [5.0]])).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy()[:, 0], [3.0, 0.0, 5.0])

    def test_a_mask_puts_gradients_back(self):
        slope = grad(lambda t: (t[x > 5] ** 2).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy(), np.where(x > 5, 2 * x, 0))

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (
                3,
                r"indexing: index 3 is out of bounds for axis 0 .* \(the tensor has shape \(3, 4\)\)",
            ),
            ((0, 0, 0), "indexing: too many indices"),
            ([5], "indexing: index 5 is out of bounds"),
            (np.ones(2, bool), "indexing: boolean index did not match"),
            ("a", "indexing: only integers, slices"),
            ([0.5], "indexing: arrays used as indices must be of integer"),
        ],
    )
    def test_refused(self, index, message):
        with pytest.raises(IndexError, match=message):
            Tensor(x)[index]

    def test_iteration_ends(self):
        rows = list(Tensor(x))
        assert [row.shape for row in rows] == [(4,)] * 3
        first, *_, last = Tensor([1.0, 2.0, 3.0])
        assert (first.item(), last.item()) == (1.0, 3.0)
        with pytest.raises(TypeError, match="a 0-d tensor has no length"):
            iter(Tensor(1.0))


class TestTakeAlongAxis:
    def test_duplicates_add_up(self):
        indices = np.array([[1, 1, 3], [0, 0, 0], [2, 3, 2]])
        weights = np.arange(1.0, 10.0).reshape(3, 3)
        slope = grad(lambda t: (ops.take_along_axis(t, indices) * weights).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy(), [[0, 3, 0, 3], [15, 0, 0, 0], [0, 0, 16, 8]])

    def test_negative_indices_count_from_the_end(self):
        np.testing.assert_array_equal(ops.take_along_axis(x, [[-1], [-4], [1]]).numpy(), [[3], [4], [9]])
        slope = grad(lambda t: ops.take_along_axis(t, [[-1], [-4], [1]]).sum())(Tensor(x))
        assert np.argwhere(slope.numpy()).tolist() == [[0, 3], [1, 0], [2, 1]]

    @pytest.mark.parametrize(
        ("indices", "axis", "error", "message"),
        [
            ([[0.0]], -1, DtypeError, "take_along_axis: indices must be integers, got float64"),
            ([[True]] * 3, -1, DtypeError, "take_along_axis: indices must be integers, got bool"),
            (
                [[0]],
                -1,
                ShapeError,
                r"outside axis -1, indices of shape \(1, 1\) must have the shape of x, \(3, 4\)",
            ),
            (
                [0, 1, 2],
                -1,
                ShapeError,
                r"outside axis -1, indices of shape \(3,\) must have the shape of x, \(3, 4\)",
            ),
            ([[0, 0]], 0, ShapeError, r"outside axis -2, indices of shape \(1, 2\) must have the shape of x"),
            (
                [[4]] * 3,
                -1,
                IndexError,
                r"take_along_axis: cannot compute with operands .* index 4 is out of bounds",
            ),
            ([[0]] * 3, 2, ShapeError, "take_along_axis: axis 2 does not exist in an array with 2 axes"),
        ],
    )
    def test_refused(self, indices, axis, error, message):
        with pytest.raises(error, match=message):
            ops.take_along_axis(x, indices, axis)
