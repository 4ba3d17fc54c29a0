"""Addresses that are read from the memory of NumPy's objects."""

import numpy as np
import pytest

from sknet.compile.native._instructions import address_of

ROWS = np.arange(24, dtype=np.float32).reshape(4, 6)
ARRAYS = {
    "whole": ROWS,
    "a part": ROWS[1:, 2:4],
    "reversed": ROWS[::-1, ::-1],
    "transposed": ROWS.T,
    "repeated": np.broadcast_to(ROWS[0], (4, 6)),
    "one number": np.float64(1)[...],
    "empty": np.zeros((0, 3)),
    "of a buffer": np.frombuffer(bytes(range(16)), np.int32),
    "of another class": np.ma.masked_array(ROWS, ROWS > 3),
    "a field": np.zeros(3, [("a", "i1"), ("b", "f8")])["b"],
    "objects": np.array([None, "a"], dtype=object),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_they_are_numpys(kind):
    assert address_of(ARRAYS[kind]) == ARRAYS[kind].ctypes.data


def test_none_has_none():
    assert address_of(None) == 0


def test_memory_in_a_file(tmp_path):
    array = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(5, 3))
    assert address_of(array[2:]) == array.ctypes.data + 24
