"""Axes count from the end."""

import numpy as np
import pytest

from sknet.core import normalize_axes, normalize_axis
from sknet.exceptions import ShapeError


def test_counted_from_the_end():
    assert [normalize_axis(a, 3, "op") for a in (0, 1, 2, -1, -3)] == [-3, -2, -1, -1, -3]
    assert normalize_axes(None, 2, "op") == (-2, -1)
    assert normalize_axes((0, -1), 3, "op") == (-3, -1)
    assert normalize_axes([np.int64(1)], 2, "op") == (-1,)
    assert normalize_axes((), 2, "op") == ()
    assert normalize_axes(None, 0, "op") == ()


@pytest.mark.parametrize("axis", [3, -4, 100])
def test_out_of_range(axis):
    with pytest.raises(ShapeError, match=f"op: axis {axis} does not exist in an array with 3 axes"):
        normalize_axis(axis, 3, "op")


def test_twice():
    with pytest.raises(ShapeError, match=r"op: an axis is repeated in \(0, -3\)"):
        normalize_axes((0, -3), 3, "op")


@pytest.mark.parametrize("axis", [1.0, "0", None])
def test_not_an_integer(axis):
    with pytest.raises(TypeError, match=f"op: an axis must be an integer, got {axis!r}"):
        normalize_axis(axis, 3, "op")
