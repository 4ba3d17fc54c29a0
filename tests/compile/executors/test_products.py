"""Products of matrices: the parts they are made in."""

import pytest

from sknet._parallel import SMALL, small_limit
from sknet.compile.numpy._emitters import parts_of


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
