"""Batches: order of rows, dtypes, and no copy of the whole data."""

import numpy as np
import pytest
import scipy.sparse

from sknet.device import Device
from sknet.engine import Batches

X = np.arange(44.0).reshape(11, 4)
Y = np.arange(11)
W = np.linspace(1, 2, 11)
CPU = Device("cpu")


def make(X=X, y=Y, weight=None, size=4, dtype="float64", rows=None):
    return Batches(X, y, weight, size, np.dtype(dtype), CPU, rows)


@pytest.mark.parametrize("size", [1, 4, 11, 100])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix])
@pytest.mark.parametrize(
    "order", [None, np.random.default_rng(0).permutation(11)], ids=["in order", "shuffled"]
)
def test_every_row_comes_once(size, kind, order):
    batches = make(kind(X), weight=W, size=size)
    taken = [(*batches.take(chosen), n) for chosen, n in batches.parts(order)]
    assert len(taken) == batches.n_batches == -(-11 // size)
    assert [n for *_, n in taken] == [len(part[1]) for part in taken]
    expected = np.arange(11) if order is None else order
    dense = np.concatenate([part.toarray() if hasattr(part, "toarray") else part for part, *_ in taken])
    np.testing.assert_array_equal(dense, X[expected])
    np.testing.assert_array_equal(np.concatenate([y for _, y, _, _ in taken]), Y[expected])
    np.testing.assert_array_equal(np.concatenate([w for _, _, w, _ in taken]), W[expected])


def test_some_rows_only():
    rows = np.array([7, 2, 9, 0])
    batches = make(weight=W, rows=rows, size=3)
    assert batches.n_samples == 4
    inputs, y, weight = batches.take(np.array([3, 1]))
    np.testing.assert_array_equal(y, [0, 2])
    np.testing.assert_array_equal(inputs, X[[0, 2]])
    np.testing.assert_array_equal(weight, W[[0, 2]])
    np.testing.assert_array_equal(batches.take(slice(0, 2))[0], X[[7, 2]])


def test_real_numbers_take_the_computing_dtype_and_classes_stay():
    batches = make(y=Y.astype(float)[:, None], weight=W, dtype="float32")
    inputs, y, weight = batches.take(slice(0, 2))
    assert (inputs.dtype, y.dtype, weight.dtype) == ("float32", "float32", "float32")
    assert make(dtype="float32").take(slice(0, 2))[1].dtype == Y.dtype
    assert make().take(slice(0, 2))[2] is None


def test_inputs_are_not_copied_as_a_whole():
    assert make(dtype="float32").X is X
    assert np.shares_memory(make().take(slice(2, 5))[0], X)
