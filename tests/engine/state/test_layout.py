"""All parameters in one flat buffer."""

import numpy as np
import pytest

from sknet.engine import Gradient
from sknet.engine._memory import Layout
from sknet.exceptions import StateError

SHAPES = {"0.weight": (3, 5), "0.bias": (5,), "scale": (), "empty": (0, 4)}


def values():
    return {
        name: np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
        for name, shape in SHAPES.items()
    }


def test_views_share_the_buffer_and_do_not_overlap():
    layout = Layout(SHAPES)
    flat = np.zeros(layout.size)
    layout.fill(flat, values())
    views = layout.views(flat)
    for name, expected in values().items():
        np.testing.assert_array_equal(views[name], expected)
        assert views[name].shape == SHAPES[name]
    for number, view in enumerate(views.values(), 1):
        view[...] = number
    assert [float(view.max(initial=number)) for number, view in enumerate(views.values(), 1)] == [1, 2, 3, 4]
    assert flat.max() == 3


def test_every_parameter_begins_on_a_cache_line():
    layout = Layout(SHAPES)
    assert all(part.start * 4 % 64 == 0 for part in layout.slices.values())
    assert layout.size * 4 % 64 == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scale": None},
            r"expected arrays for exactly \['0\.bias', '0\.weight', 'empty', 'scale'\], got \['0",
        ),
        ({"more": np.zeros(1)}, r"got \['0\.bias', '0\.weight', 'empty', 'more', 'scale'\]"),
        ({"0.weight": np.zeros((5, 3))}, r"'0\.weight' must have shape \(3, 5\), got \(5, 3\)"),
    ],
)
def test_values_that_do_not_fit_are_not_written(changes, message):
    layout = Layout(SHAPES)
    flat = np.zeros(layout.size)
    given = {name: array for name, array in (values() | changes).items() if array is not None}
    with pytest.raises(StateError, match=message):
        layout.fill(flat, given)
    assert not flat.any()


def test_gradient_is_a_mapping_of_arrays():
    layout = Layout(SHAPES)
    flat = np.ones(layout.size)
    gradient = Gradient(layout, flat, {"mean": np.zeros(2)})
    assert list(gradient) == list(SHAPES)
    assert len(gradient) == 4
    assert np.shares_memory(gradient["0.weight"], flat)
    assert repr(Gradient(Layout({"b": (2,)}), np.ones(16), {})) == "Gradient({'b': (2,)})"
    with pytest.raises(KeyError):
        gradient["other"]
