"""Flatten."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import ShapeError


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 2, 3), (5, 6)), ((5,), (5, 1)), ((5, 2), (5, 2)), ((0, 2, 3), (0, 6)), ((5, 0), (5, 0))],
)
def test_shapes(shape, expected):
    x = np.arange(np.prod(shape), dtype=float).reshape(shape)
    out = nn.Flatten()(x)
    assert out.shape == expected
    np.testing.assert_array_equal(out.numpy(), x.reshape(expected))


def test_a_scalar():
    with pytest.raises(ShapeError, match=r"expected an input of shape \(n_samples, \.\.\.\), got a scalar"):
        nn.Flatten()(1.0)


@pytest.mark.parametrize("axes", [(0, -1), (1, 2), (-2, -1), (2, 2), (0, 1)], ids=str)
def test_some_axes(axes):
    torch = pytest.importorskip("torch")
    x = np.arange(120.0).reshape(2, 3, 4, 5)
    np.testing.assert_array_equal(
        nn.Flatten(*axes)(x).numpy(), torch.nn.Flatten(*axes)(torch.tensor(x)).numpy()
    )


@pytest.mark.parametrize("axes", [(2, 1), (1, 4), (-5, 1)], ids=str)
def test_axes_that_are_not_there(axes):
    with pytest.raises(ShapeError, match=r"shape \(2, 3, 4\) has no axes from start_dim to end_dim"):
        nn.Flatten(*axes)(np.ones((2, 3, 4)))


@pytest.mark.parametrize(
    ("dim", "lengths"), [(1, (2, 3)), (-1, [5, 1]), (1, (-1, 2)), (1, (3, -1, 2))], ids=str
)
def test_unflatten(dim, lengths):
    torch = pytest.importorskip("torch")
    x = np.arange(60.0).reshape(2, 6, 5)
    expected = torch.nn.Unflatten(dim, tuple(lengths))(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(nn.Unflatten(dim, lengths)(x).numpy(), expected)


@pytest.mark.parametrize(("dim", "lengths"), [(1, (2, 2)), (1, (4, -1)), (2, (2,))], ids=str)
def test_unflatten_what_does_not_divide(dim, lengths):
    with pytest.raises(ShapeError, match=r"Unflatten\(dim=.*\): .*an input of shape \(2, 6\)"):
        nn.Unflatten(dim, lengths)(np.ones((2, 6)))


@pytest.mark.parametrize("lengths", [(), (-1, -1), (2, -2), ("a",)], ids=str)
def test_lengths_that_are_none(lengths):
    with pytest.raises(ValueError, match="'unflattened_size' parameter of Unflatten must hold lengths"):
        nn.Unflatten(1, lengths)
