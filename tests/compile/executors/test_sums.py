"""Sums and products of plans, which are not the calls of the primitives' own forwards."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from sknet import ops
from sknet.compile import compile

SHAPES = [
    (300, 128),
    (7, 11, 64),
    (5, 3, 9, 8),
    (64, 100, 128),
    (2, 9973),
    (1, 6),
    (6, 1),
    (4, 1, 5),
    (0, 3),
    (3, 0),
]


def planned(function, *args):
    return compile(function, args)(*args).copy()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_over_any_axes(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for count in range(1, x.ndim + 1):
        for axis in itertools.combinations(range(x.ndim), count):
            for keepdims in (False, True):
                found = planned(lambda x, a=axis, k=keepdims: ops.sum(x, a, keepdims=k), x)
                expected = x.astype(np.float64).sum(axis, keepdims=keepdims)
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.sqrt(x.size))


def test_infinities_and_nan_stay_in_their_sums():
    x = np.ones((3, 4, 50), np.float32)
    x[0, 0, 0], x[1, 1, 1], x[2, 2, 2] = np.inf, np.nan, -np.inf
    np.testing.assert_array_equal(planned(lambda x: ops.sum(x, -1), x), x.sum(-1))
    np.testing.assert_array_equal(planned(lambda x: ops.sum(x, (0, 2)), x), x.sum((0, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inner", [1, 2, 40])
@pytest.mark.parametrize("turned", [False, True])
def test_a_stack_of_matrices_times_one(turned, inner, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 30, inner)).astype(dtype)
    y = rng.standard_normal((inner, 20)).astype(dtype)
    function = (lambda x, y: ops.matmul(ops.permute_dims(x, (1, 0, 2)), y)) if turned else ops.matmul
    expected = (x.transpose(1, 0, 2) if turned else x).astype(float) @ y
    np.testing.assert_allclose(planned(function, x, y), expected, rtol=1e-5, atol=1e-5)


def test_a_column_of_infinities_times_a_row_with_zeros_is_nan():
    x, y = np.full((2, 3, 1), np.inf, np.float32), np.array([[0.0, 1.0]], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(planned(ops.matmul, x, y), x @ y)


def test_sums_beside_a_sparse_matrix():
    slot = ops.SparseSlot((3, 4), "float32")
    slot.matrix = scipy.sparse.csr_array(np.eye(3, 4, dtype=np.float32))
    y = np.arange(24, dtype=np.float32).reshape(4, 6)
    product, sums = compile(lambda y: (ops.matmul(slot, y), ops.sum(y, -1)), (y,))(y)
    np.testing.assert_array_equal(product, y[:3])
    np.testing.assert_array_equal(sums, y.sum(-1))
