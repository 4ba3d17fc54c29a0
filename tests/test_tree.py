"""Trees: leaves, paths, structure."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from sknet._tree import leaves, map_leaves, paths, rebuild

Pair = namedtuple("Pair", "first second")
TREE = {"b": [1, (2, 3)], "a": Pair(4, None), "c": {}, "d": OrderedDict(x=5)}


def test_leaves_keep_their_order():
    assert leaves(TREE) == [1, 2, 3, 4, 5]
    assert paths(TREE) == ["b.0", "b.1.0", "b.1.1", "a.first", "d.x"]
    assert (leaves(7), paths(7)) == ([7], [""])
    assert leaves(None) == leaves([]) == []
    assert leaves("text") == ["text"]


def test_map_keeps_the_structure():
    doubled = map_leaves(lambda x: 2 * x, TREE)
    assert doubled == {"b": [2, (4, 6)], "a": Pair(8, None), "c": {}, "d": OrderedDict(x=10)}
    assert [type(doubled[k]) for k in "bad"] == [list, Pair, OrderedDict]
    assert list(doubled) == list(TREE)
    assert map_leaves(lambda x: 2 * x, 3) == 6


def test_map_over_several():
    total = map_leaves(lambda *xs: sum(xs), {"a": 1, "b": [2]}, {"a": 10, "b": [20]}, {"a": 100, "b": (200,)})
    assert total == {"a": 111, "b": [222]}


def test_arrays_are_leaves():
    x = np.ones(3)
    [leaf] = leaves({"x": x})
    assert leaf is x


@pytest.mark.parametrize(
    ("other", "got"),
    [
        ({"a": 1}, r"\['a'\]"),
        ({"a": 1, "c": 2}, r"\['a', 'c'\]"),
        ({"b": 1, "a": 2}, r"\['b', 'a'\]"),  # of the same size, but with every leaf in a different place
        ([1, 2], r"\['0', '1'\]"),
        (None, r"\[\]"),
    ],
)
def test_another_structure_raises(other, got):
    message = rf"trees of different structure: expected leaves at \['a', 'b'\], got {got}"
    with pytest.raises(ValueError, match=message):
        map_leaves(lambda x, y: x, {"a": 1, "b": 2}, other)


def test_rebuild_takes_values_in_order():
    assert rebuild(TREE, iter("abcde")) == {
        "b": ["a", ("b", "c")],
        "a": Pair("d", None),
        "c": {},
        "d": {"x": "e"},
    }
    assert rebuild(None, iter([])) is None
