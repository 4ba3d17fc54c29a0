"""Shapes that do not fit, and views."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.exceptions import ShapeError

x = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ops.reshape(x, (4, 2)),
            r"reshape: 6 elements of shape \(2, 3\) do not fit into shape \(4, 2\)",
        ),
        (
            lambda: ops.reshape(x, (4, -1)),
            r"reshape: 6 elements of shape \(2, 3\) do not fit into shape \(4, -1\)",
        ),
        (lambda: ops.reshape(x, (-1, -1)), r"do not fit into shape \(-1, -1\)"),
        (lambda: ops.reshape(np.ones((0, 3)), (-1, 0)), r"reshape: 0 elements of shape \(0, 3\) do not fit"),
        (
            lambda: ops.permute_dims(x, (0,)),
            r"permute_dims: expected every axis of shape \(2, 3\) once, got \(-2,\)",
        ),
        (lambda: ops.permute_dims(x, (0, 0)), r"permute_dims: an axis is repeated in \(0, 0\)"),
        (lambda: ops.permute_dims(x, (0, 2)), r"permute_dims: axis 2 does not exist in an array with 2 axes"),
        (lambda: ops.broadcast_to(x, (3, 3)), r"broadcast_to: shape \(2, 3\) does not broadcast to \(3, 3\)"),
        (lambda: ops.broadcast_to(x, (3,)), r"broadcast_to: shape \(2, 3\) does not broadcast to \(3,\)"),
        (lambda: ops.broadcast_to([1.0], (-1,)), r"broadcast_to: shape \(1,\) does not broadcast to \(-1,\)"),
        (
            lambda: ops.matrix_transpose([1.0]),
            r"matrix_transpose: expected at least 2 axes, got shape \(1,\)",
        ),
        (lambda: ops.expand_dims(x, 3), "expand_dims: axis 3 does not exist in an array with 3 axes"),
        (lambda: ops.squeeze(x, 0), r"squeeze: axis 0 of shape \(2, 3\) has length 2, not 1"),
        (lambda: ops.squeeze(x, 2), "squeeze: axis 2 does not exist in an array with 2 axes"),
        (lambda: ops.concat([]), "concat: expected at least one tensor, got an empty sequence"),
        (lambda: ops.concat([x, x.T]), r"concat: shapes \[\(2, 3\), \(3, 2\)\] differ outside axis -2"),
        (lambda: ops.concat([x, x[0]]), r"concat: shapes \[\(2, 3\), \(3,\)\] differ outside axis -2"),
        (lambda: ops.concat([x, np.array(1.0)]), r"concat: shapes \[\(2, 3\), \(\)\] differ outside axis -2"),
        (lambda: ops.concat([np.array(1.0)]), "concat: axis 0 does not exist in an array with 0 axes"),
        (lambda: ops.stack([x, x.T]), r"stack: expected tensors of one shape, got \[\(2, 3\), \(3, 2\)\]"),
        (lambda: ops.stack([]), "stack: expected tensors of one shape, got no tensor"),
        (lambda: ops.sum_squares(), "sum_squares: expected at least one tensor, got none"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_views_share_memory():
    for view in (
        ops.reshape(x, (3, 2)),
        ops.permute_dims(x, (1, 0)),
        ops.matrix_transpose(x),
        ops.broadcast_to(x, (4, 2, 3)),
        ops.expand_dims(x, 0),
        ops.squeeze(x[None], 0),
        Tensor(x)[0],
        Tensor(x).T,
    ):
        assert np.shares_memory(view.data, x)


def test_transpose_reverses_all_axes():
    y = np.zeros((2, 3, 4))
    assert Tensor(y).T.shape == (4, 3, 2)
    assert ops.matrix_transpose(y).shape == (2, 4, 3)
    assert Tensor(1.0).T.shape == ()


def test_concat_gives_each_its_part_of_the_gradient():
    weights = np.arange(5.0)
    first, second = grad(lambda a, b: (ops.concat([a, b]) * weights).sum(), argnums=(0, 1))(
        Tensor(np.zeros(2, "float32")), Tensor(np.zeros(3))
    )
    assert first.numpy().tolist() == [0.0, 1.0]
    assert second.numpy().tolist() == [2.0, 3.0, 4.0]
    assert first.dtype == "float32"


def test_the_same_tensor_twice():
    slope = grad(lambda a: (ops.concat([a, a]) * np.arange(4.0)).sum())(Tensor([1.0, 1.0]))
    assert slope.numpy().tolist() == [2.0, 4.0]


def test_lengths_that_are_booleans_are_numbers():
    x = np.arange(6.0).reshape(2, 3)
    for found, shape in ((ops.reshape(x, (True, 6)), (1, 6)), (ops.broadcast_to(x, (True, 2, 3)), (1, 2, 3))):
        assert found.shape == shape
        np.testing.assert_array_equal(found.numpy(), x.reshape(shape))
