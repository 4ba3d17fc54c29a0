"""Properties of indices."""

import numpy as np
import pytest

from sknet._frames import are_indices, is_basic, may_repeat, rows_of, with_ellipsis

X = np.arange(24).reshape(2, 3, 4)
INDICES = [
    0, np.int64(1), slice(1, None), None, Ellipsis, (0, slice(None)), (1, 2, 3), (..., 0), (None, 1), (),
    [0, 1], np.array([1, 0, 1]), (slice(None), np.array([0, 0])), X % 2 == 0, np.array([True, False]),
    (np.array([0, 1]), np.array([2, 2]), 0), (np.array([[0], [1]]), slice(None), np.array([0, 3, 3])),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indices_are_told_apart_as_numpy_does(index):
    found = X[with_ellipsis(index)] if not isinstance(index, list) else X[index]
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, X[index])
    assert is_basic(index) == np.may_share_memory(found, X)
    if not isinstance(index, list):
        assert may_repeat(index) >= (np.unique(found).size < found.size)


@pytest.mark.parametrize("index", [i for i in INDICES if not isinstance(i, list)], ids=repr)
def test_rows_of_an_index_are_what_it_takes(index):
    rows, length = rows_of(np, index, X.shape)
    np.testing.assert_array_equal(X.reshape(-1, length)[rows].ravel(), X[index].ravel())


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64", ">i4", ">u2", "bool", "float64"])
@pytest.mark.parametrize(
    ("numbers", "are"),
    [([], True), ([0, 1], True), ([1, 1, 0], True), ([0, 2], False), ([0, -1], False), ([5, -1], False)],
)
def test_numbers_below_a_length_are_indices(numbers, are, dtype):
    x = np.array(numbers).astype(dtype)
    expected = all(0 <= number < 2 for number in x.tolist())
    assert are_indices(x, 2) == expected
    assert expected == are or dtype == "bool"  # in which every number is 0 or 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_length_may_exceed_what_a_dtype_holds(dtype):
    assert are_indices(np.arange(100, dtype=dtype), 1000)
    assert are_indices(np.array([-1]).astype(dtype), 1000) == (dtype == "uint8")
