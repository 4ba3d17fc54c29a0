"""Round trips of documents."""

import math
import re

import numpy as np
import pytest

from sknet.exceptions import LoadError
from sknet.persistence import read, write

TREES = {
    "nothing": {},
    "list": [1, [2, []], {"a": None}],
    "numbers": {"small": 5e-324, "third": 1 / 3, "big": 2**100, "minus": -0.0, "true": True},
    "text": {"é": "ü\n\0", "": "empty", "quote": '"\\'},
    "not finite": [math.inf, -math.inf],
    "only a number": 3,
}


def there_and_back(folder, tree, **params):
    write(folder / "a", tree, "example", **params)
    return read(folder / "a", "example")


@pytest.mark.parametrize("name", TREES)
def test_comes_back(tmp_path, name):
    for compress in (False, True):
        found = there_and_back(tmp_path, TREES[name], compress=compress)
        assert found == TREES[name]
        assert repr(found) == repr(TREES[name])  # True is no 1, and -0.0 no 0.0


def test_nan_comes_back(tmp_path):
    assert math.isnan(there_and_back(tmp_path, [math.nan])[0])


def test_scalars_of_numpy_become_numbers_and_tuples_lists(tmp_path):
    found = there_and_back(tmp_path, (np.float32(0.1), np.int64(3), np.True_, (1,)))
    assert found == [float(np.float32(0.1)), 3, True, [1]]
    assert [type(x) for x in found] == [float, int, bool, list]


def test_arrays_whose_places_look_alike(tmp_path):
    tree = {
        "a/b": np.array([1]),
        "a": {"b": np.array([2]), "b'": np.array([3])},
        "__metadata__": np.array([4]),
    }
    for compress in (False, True):
        found = there_and_back(tmp_path, tree, compress=compress)
        every = [found["a/b"], found["a"]["b"], found["a"]["b'"], found["__metadata__"]]
        assert every == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": {"b": {1, 2}}}, "a document holds .*: got set in 'a/b'"),
        ({"a": [len]}, "got builtin_function_or_method in 'a/0'"),
        ({"a": 1j}, "got complex in 'a'"),
        ({"a": {1: 2}}, "keys must be str, .*: got 1 in 'a'"),
        ({"a": {"$array": "b"}}, "keys must be str, .*: got '\\$array' in 'a'"),
    ],
)
def test_unsupported_values_are_named(tmp_path, tree, message):
    with pytest.raises(TypeError, match=message):
        write(tmp_path / "a", tree, "example")
    assert not list(tmp_path.iterdir())


def test_another_kind_is_rejected(tmp_path):
    write(tmp_path / "a", {}, "estimator")
    where = re.escape(str(tmp_path / "a"))
    with pytest.raises(LoadError, match=f"{where} is an sknet file of kind 'estimator', not"):
        read(tmp_path / "a", "checkpoint")
