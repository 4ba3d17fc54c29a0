"""Products of matrices: the parts they are made in."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile

LIMIT = 10**6  # multiplications for which a BLAS may have kernels of its own
SIZES = [(200, 64, 100), (97, 100, 150), (99, 100, 150), (256, 50, 100), (64, 100, 100), (64, 200, 200)]


def parts_of(rows, inner, columns):
    """Return the number of parts of a compiled product, whose result is checked."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, inner)), rng.normal(size=(inner, columns))
    made = compile(ops.matmul, (x, y))
    np.testing.assert_allclose(made(x, y), x @ y, rtol=1e-10, atol=1e-10)
    [call] = made.calls()
    given = call.args[0]
    return len(given) if given.ndim == 3 else 1


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_parts(size, limits):
    limits.multiplications_of_small_products(LIMIT)
    n, rows = np.prod(size), size[0]
    parts = parts_of(*size)
    assert rows % parts == 0
    assert n // parts <= LIMIT or parts == 1
    assert (parts > 1) == (LIMIT < n <= 2 * LIMIT and rows != 97)  # a prime number


def test_as_few_parts_as_there_can_be(limits):
    limits.multiplications_of_small_products(LIMIT)
    assert [parts_of(*size) for size in SIZES[:3]] == [2, 1, 3]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_without_such_kernels_a_product_is_one(size, limits):
    limits.multiplications_of_small_products(0)
    assert parts_of(*size) == 1


@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_this_machine_has_them_or_not(size):
    rows, inner, columns = size
    assert parts_of(rows, inner, columns + 1) in (1, 2, 3)
