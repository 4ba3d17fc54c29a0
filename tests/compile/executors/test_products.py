"""Products of matrices: the parts they are made in, and NumPy's own loop called from native code."""

import math

import numpy as np
import pytest

from sknet.compile.executors._products import SMALL, parts_of, product_source, product_workspace, small_limit
from sknet.compile.executors.native._program import HEAD

SHAPES = [(3, 4, 5), (200, 64, 100), (127, 100, 90), (1, 7, 300), (300, 1, 2), (4, 0, 3)]


@pytest.mark.parametrize("rows", [1, 64, 97, 99, 200, 256])
@pytest.mark.parametrize("limit", [0, 1000, SMALL])
def test_parts(rows, limit):
    for per_row in (1, limit // rows, limit // rows + 1, 3 * limit // (2 * rows), 3 * limit // rows):
        parts = parts_of(rows, per_row, limit)
        assert rows % parts == 0
        assert parts == 1 or limit < rows * per_row <= 2 * limit
        assert parts == 1 or rows // parts * per_row <= limit
    assert parts_of(200, 6400, SMALL) == 2
    assert parts_of(97, 15000, SMALL) == 1


def test_the_limit_is_that_of_this_machine():
    assert small_limit() in (0, SMALL)


def test_the_loop_is_found():
    """Without it everything works, but more slowly; so it is checked here."""
    rooms = [product_workspace(dtype) for dtype in ("float32", "float64")]
    assert all(room[0] for room in rooms)
    assert rooms[0][0] != rooms[1][0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_native_code_gets_the_bits_of_numpy(dtype):
    pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")
    namespace = {}
    exec(HEAD.format(dtype=dtype) + product_source(), namespace)
    rng = np.random.default_rng(0)
    for m, k, n in SHAPES:
        a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
        parts = parts_of(m, k * n, small_limit())
        expected = np.matmul(a.reshape(parts, -1, k) if k else a, b).reshape(m, n)
        turned = a.T.copy().T, b.T.copy().T
        for left, right in ((a, b), (turned[0], b), (a, turned[1])):
            for room in (product_workspace(dtype), np.zeros(18, np.int64)):
                out = np.full((m, n), np.nan, dtype)
                namespace["product"](left, right, out, room)
                np.testing.assert_allclose(
                    out, expected, rtol=0, atol=math.sqrt(max(k, 1)) * 20 * np.finfo(dtype).eps
                )
        out = np.empty((m, n), dtype)
        namespace["product"](a, b, out, product_workspace(dtype))
        np.testing.assert_array_equal(out, expected)
