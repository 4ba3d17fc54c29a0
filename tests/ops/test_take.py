"""Taking rows and elements by computed indices: duplicates, and indices out of bounds."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.compile import compile
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError

x = np.arange(12.0).reshape(3, 4)


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


class TestTake:
    @pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
    def test_adding_in_every_dtype(self, dtype):
        values = np.arange(12).reshape(4, 3).astype(dtype)
        out = ops.scatter_add(np.zeros((5, 3), dtype), [4, 0, 4, -1], values)
        expected = np.zeros((5, 3), dtype)
        np.add.at(expected, [4, 0, 4, -1], values)
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.numpy(), expected)

    @pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
    def test_indices_of_every_kind(self, dtype):
        indices = np.array([2, 0, 2], dtype)
        np.testing.assert_array_equal(ops.take(x, indices).numpy(), x[[2, 0, 2]])
        slope = grad(lambda t: ops.take(t, indices).sum())(Tensor(x))
        np.testing.assert_array_equal(slope.numpy()[:, 0], [1, 0, 2])

    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: ops.take(x, [0.0]), DtypeError, "take: indices must be integers, got float64"),
            (lambda: ops.take(x, [True]), DtypeError, "take: indices must be integers, got bool"),
            (lambda: ops.take(x, [3]), IndexError, "take: cannot compute .* index 3 is out of bounds"),
            (lambda: ops.take(x, [0], 2), ShapeError, "take: axis 2 does not exist in an array with 2 axes"),
            (
                lambda: ops.scatter_add(x, [0.0], x[:1]),
                DtypeError,
                "scatter_add: indices must be integers, got float64",
            ),
            (
                lambda: ops.scatter_add(x, [0, 1], x),
                ShapeError,
                r"scatter_add: values of shape \(3, 4\) do not have the indices' shape \(2,\) in place",
            ),
            (
                lambda: ops.scatter_add(x, [0, 1], x[:2, :1]),
                ShapeError,
                r"scatter_add: values of shape \(2, 1\) do not fit into shape \(3, 4\) with indices",
            ),
            (
                lambda: ops.scatter_add(x, [-4], x[:1]),
                IndexError,
                "put: cannot compute with operands .* index -4 is out of bounds",
            ),
            (
                lambda: ops.embedding([0], np.ones(3)),
                ShapeError,
                r"embedding: expected a table of shape \(n, d\), got shape \(3,\)",
            ),
            (lambda: ops.embedding([3], x), IndexError, "take: .* index 3 is out of bounds for 3 elements"),
            (lambda: ops.embedding([-1], x), IndexError, "take: .* index -1 is out of bounds for 3 elements"),
            (lambda: ops.one_hot([1.0], 3), DtypeError, "one_hot: indices must be integers, got float64"),
            (lambda: ops.one_hot([3], 3), IndexError, "put_along_axis: .* index 3 is out of bounds"),
        ],
    )
    def test_refused(self, call, error, message):
        with pytest.raises(error, match=message):
            call()


NAMED = {
    "embedding": lambda i, x: ops.embedding(i, x),
    "embedding with padding": lambda i, x: ops.embedding(i, x, padding_idx=-7),
    "one_hot": lambda i, x: ops.one_hot(i, 5, "float64") @ x,
    "take": lambda i, x: ops.take(x, i, from_end=False),
    "take along columns": lambda i, x: ops.take(x.T, i, axis=1, from_end=False),
    "take_along_axis": lambda i, x: ops.take_along_axis(
        x, ops.broadcast_to(i.reshape(-1, 1), (i.size, 3)), 0, from_end=False
    ),
    "one a row": lambda i, x: ops.take_along_axis(x.T[:, :5], i.reshape(-1, 1)[:3], from_end=False),
}


OUTSIDE = [
    *[("int64", wrong) for wrong in (-1, -5, -6, 5, 2**62, -(2**63))],
    *[
        ("int32", -1),
        ("int16", -1),
        ("int8", -1),
        ("int8", -128),
        ("int8", 127),
        ("uint8", 255),
        ("uint8", 5),
    ],
]


class TestFromTheStart:
    """Where negative indices do not count from the end, they raise: eager, compiled and backward."""

    @staticmethod
    def run(op, how, indices):
        """Return the value and the gradient of an op."""
        table = np.arange(15.0).reshape(5, 3)

        def both(i, x):
            x.requires_grad = True
            out = NAMED[op](i, x)
            return out, gradients((out * out).sum(), [x])[0]

        if how == "eager":
            return [x.numpy() for x in both(Tensor(indices), Tensor(table))]
        valid = np.zeros_like(indices)
        return compile(both, (valid, table), exact=how == "exact")(indices, table)

    @pytest.mark.parametrize("op", NAMED)
    @pytest.mark.parametrize("how", ["eager", "exact", "relaxed"])
    def test_all_integers(self, op, how):
        expected = self.run(op, "eager", np.array([4, 0, 3, 3, 1]))
        for dtype in ("int64", "int32", "int8", "uint8", "uint16"):
            for a, b in zip(self.run(op, how, np.array([4, 0, 3, 3, 1], dtype)), expected, strict=True):
                np.testing.assert_array_equal(a, b)
        for dtype, wrong in OUTSIDE:
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for 5 elements: indices"):
                self.run(op, how, np.array([2, wrong, 0, 1, 1], dtype))

    def test_more_elements_than_a_narrow_index_can_name(self):
        with pytest.raises(IndexError, match="index -1 is out of bounds for 300 elements"):
            ops.embedding(np.array([-1], "int8"), np.ones((300, 2)))
        assert ops.embedding(np.array([200, 255], "uint8"), np.ones((300, 2))).shape == (2, 2)

    @pytest.mark.parametrize("padding", [-1, 2, 99])
    def test_padding(self, padding):
        """It is compared with the given indices: -1 does not mean the last row."""
        table = Tensor(np.arange(1.0, 16.0).reshape(5, 3), requires_grad=True)
        indices = np.array([[0, padding], [4, 4]])
        out = ops.embedding(indices, table, padding)
        np.testing.assert_array_equal(out.numpy()[0, 1], np.zeros(3))
        np.testing.assert_array_equal(out.numpy()[[0, 1, 1], [0, 0, 1]], table.numpy()[[0, 4, 4]])
        out.sum().backward()
        assert table.grad.numpy()[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 2.0]
        with pytest.raises(DtypeError, match="embedding: indices must be integers, got float64"):
            ops.embedding(indices * 1.0, table, padding)

    def test_elsewhere_they_count_from_the_end(self):
        np.testing.assert_array_equal(ops.take(x, [-1]).numpy(), x[[-1]])
        np.testing.assert_array_equal(Tensor(x)[Tensor([-1])].numpy(), x[[-1]])


PLAIN = {
    "take": lambda x: ops.take(x, np.array([2, 0, 2])),
    "take, a list": lambda x: ops.take(x, [1, -1], axis=1),
    "take_along_axis": lambda x: ops.take_along_axis(x, np.array([[2, 0], [1, 1]]), axis=0),
    "scatter_add": lambda x: ops.scatter_add(x, np.array([1, 1, 0]), 2 * x, axis=0),
    "embedding": lambda x: ops.embedding(np.array([[0, 2], [2, 1]]), x),
    "one_hot": lambda x: ops.matmul(ops.one_hot(Tensor([0, 2], device=x.device), 3), x),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_indices_go_to_the_device(name, fake_device):
    values = np.arange(6.0).reshape(3, 2)
    found = []
    for device in ("cpu", fake_device):
        x = Tensor(values, requires_grad=True, device=device)
        result = PLAIN[name](x)
        (result**2).sum().backward()
        assert result.device == x.grad.device == x.device
        found.append((result.to("cpu").numpy(), x.grad.to("cpu").numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
