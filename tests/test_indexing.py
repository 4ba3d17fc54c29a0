"""Properties of indices."""

import numpy as np
import pytest

from sknet._indexing import is_basic, may_repeat, rows_of, with_ellipsis

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
