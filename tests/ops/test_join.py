"""Joining, splitting, repeating, padding: shapes that do not fit, and views."""

import numpy as np
import pytest

from sknet import Tensor, grad, ops
from sknet.exceptions import ShapeError

x = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ops.split(x, 2, 1),
            r"split: axis 1 of shape \(2, 3\) has length 3, which cannot be divided",
        ),
        (lambda: ops.split(x, 0), r"split: .* cannot be divided into 0 equal parts: give the positions"),
        (lambda: ops.split(x, 2, 2), "split: axis 2 does not exist in an array with 2 axes"),
        (lambda: ops.unstack(1.0), "unstack: axis 0 does not exist in an array with 0 axes"),
        (lambda: ops.roll(x, (1, 2), 0), r"roll: 2 shifts \(1, 2\) do not fit 1 axes 0"),
        (lambda: ops.roll(x, 1, 5), "roll: axis 5 does not exist in an array with 2 axes"),
        (lambda: ops.flip(x, 2), "flip: axis 2 does not exist in an array with 2 axes"),
        (
            lambda: ops.tile(x, (2, -1)),
            r"tile: the numbers of repetitions must not be negative, got \(2, -1\)",
        ),
        (
            lambda: ops.repeat(x, (1, 2), 1),
            r"repeat: expected one number, or 3 for axis 1 of shape \(2, 3\), none .* negative, got \[1, 2\]",
        ),
        (lambda: ops.repeat(x, -1), r"repeat: expected one number, or 6 for axis 0 of shape \(6,\).* got -1"),
        (
            lambda: ops.pad(x, ((1, 1),) * 3),
            r"pad: expected a number or at most 2 pairs .* of shape \(2, 3\), got \(\(1, 1\), \(1, 1\), ",
        ),
        (lambda: ops.pad(x, -1), "pad: expected a number .* not negative.* got -1"),
        (lambda: ops.pad(x, ((1,),)), r"pad: expected a number or at most 2 pairs .* got \(\(1,\),\)"),
        (
            lambda: ops.pad(np.ones((2, 0)), ((1, 1),), "reflect"),
            r"pad: axis -1 of shape \(2, 0\) has no element to repeat",
        ),
        (lambda: ops.moveaxis(x, (0, 1), 0), r"moveaxis: \(0, 1\) are 2 axes, 0 are 1 places"),
        (lambda: ops.moveaxis(x, 2, 0), "moveaxis: axis 2 does not exist in an array with 2 axes"),
        (lambda: ops.moveaxis(x, (0, 0), (0, 1)), r"moveaxis: an axis is repeated in \(0, 0\)"),
        (lambda: ops.flatten(x, 2), "flatten: axis 2 does not exist in an array with 2 axes"),
        (lambda: ops.expand_dims(x, (0, 0)), r"expand_dims: an axis is repeated in \(0, 0\)"),
        (
            lambda: ops.broadcast_arrays(x, np.ones(2)),
            r"broadcast_arrays: shapes \(2, 3\) and \(2,\) do not broadcast together",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ShapeError, match=message):
        call()


def test_unknown_modes():
    with pytest.raises(
        ValueError, match=r"pad: mode must be one of \['constant', 'reflect', .*\], got 'edge'"
    ):
        ops.pad(x, 1, "edge")


def test_views_share_memory():
    parts = [
        *ops.split(x, (1, 2), 1),
        *ops.unstack(x),
        ops.flip(x),
        *ops.broadcast_arrays(x, np.ones((4, 2, 3)))[:1],
    ]
    for view in (*parts, ops.moveaxis(x, 0, 1), ops.flatten(x)):
        assert np.shares_memory(view.data, x)


def test_all_elements_in_a_row():
    np.testing.assert_array_equal(
        ops.concat([x, 7.0, x.T], axis=None).numpy(), np.concatenate([x, 7.0, x.T], axis=None)
    )


def test_several_new_axes():
    for axis in ((0, 1), (-1, 0), (1, -2), (), np.int64(1)):
        assert ops.expand_dims(x, axis).shape == np.expand_dims(x, axis).shape


def test_each_part_gets_its_gradient():
    first, *_, last = (lambda parts: parts)(ops.split(Tensor(x), 3, 1))
    assert (first.shape, last.shape) == ((2, 1), (2, 1))
    slope = grad(lambda t: (ops.split(t, 3, 1)[2] * ops.unstack(t, 1)[0].reshape(2, 1)).sum())(Tensor(x))
    np.testing.assert_array_equal(slope.numpy(), np.stack([x[:, 2], np.zeros(2), x[:, 0]], 1))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [((1, 2),), ((0, 5), (7, 0)), ((1, 0), (2, 2))])
def test_padding_wider_than_the_axis(mode, widths):
    numpys = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    every = ((0, 0),) * (2 - len(widths)) + widths
    np.testing.assert_array_equal(ops.pad(x, widths, mode).numpy(), np.pad(x, every, numpys))


def test_numpys_integers_and_arrays():
    two = np.int64(2)
    np.testing.assert_array_equal(ops.tile(x, two).numpy(), np.tile(x, 2))
    np.testing.assert_array_equal(ops.tile(x, np.array([2, 1])).numpy(), np.tile(x, (2, 1)))
    np.testing.assert_array_equal(ops.pad(x, two).numpy(), np.pad(x, 2))
    np.testing.assert_array_equal(ops.roll(x, two, np.int8(0)).numpy(), np.roll(x, 2, 0))
    np.testing.assert_array_equal(ops.repeat(x, two, 1).numpy(), np.repeat(x, 2, 1))
    assert [part.shape for part in ops.split(x, two)] == [(1, 3), (1, 3)]
    assert [part.shape for part in ops.split(x, np.array([1]), 1)] == [(2, 1), (2, 2)]


def test_padding_of_integers():
    out = ops.pad(np.arange(3), 1, value=-1)
    assert (out.dtype, out.numpy().tolist()) == (np.arange(3).dtype, [-1, 0, 1, 2, -1])


def test_numbers_of_repetitions_may_be_tensors():
    assert ops.repeat([1, 2], Tensor([0, 3])).numpy().tolist() == [2, 2, 2]
