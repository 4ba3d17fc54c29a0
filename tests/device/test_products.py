"""Forms of products: they say where the elements of all matrices are; only what needs copies has none."""

import math

import numpy as np
import pytest

from sknet.device import form_of

RNG = np.random.default_rng(0)


def elements(memory, each, count):
    """Return the matrices of a form, read from the memory of an array element by element."""
    lines, neighbours = (each.rows, each.columns) if each.in_rows else (each.columns, each.rows)
    places = (
        np.arange(count)[:, None, None] * each.batch_stride
        + np.arange(lines)[:, None] * each.stride
        + np.arange(neighbours)
    )
    found = memory[places]
    return found if each.in_rows else found.swapaxes(1, 2)


def stored(*shape, order=None):
    """Return an array whose axes lie in memory in some order, and its memory."""
    order = range(len(shape)) if order is None else order
    memory = RNG.standard_normal(math.prod(shape))
    return memory.reshape([shape[i] for i in order]).transpose(np.argsort(order)), memory


TAKEN = {
    "rows": (stored(3, 4), stored(4, 5), (3, 5), 1),
    "columns": (stored(3, 4, order=(1, 0)), stored(4, 5, order=(1, 0)), (3, 5), 1),
    "a row": (stored(1, 4), stored(4, 5), (1, 5), 1),
    "a column": (stored(3, 4), stored(4, 1), (3, 1), 1),
    "one element": (stored(3, 1), stored(1, 5, order=(1, 0)), (3, 5), 1),
    "a vector": (stored(4), stored(4, 5), (5,), 1),
    "by a vector": (stored(3, 4), stored(4), (3,), 1),
    "vectors": (stored(4), stored(4), (), 1),
    "a batch": (stored(6, 3, 4), stored(6, 4, 5), (6, 3, 5), 6),
    "transposed in a batch": (stored(6, 3, 4, order=(0, 2, 1)), stored(6, 4, 5), (6, 3, 5), 6),
    "two axes of batches": (stored(2, 3, 3, 4), stored(2, 3, 4, 5), (2, 3, 3, 5), 6),
    "the same for all": (stored(3, 4), stored(6, 4, 5), (6, 3, 5), 6),
    "more rows": (stored(6, 3, 4), stored(4, 5), (6, 3, 5), 1),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_form_says_where_elements_are(name):
    (x, of_x), (y, of_y), shape, count = TAKEN[name]
    out = np.zeros(shape)
    form = form_of(x, y, out)
    assert form.number == count
    product = elements(of_x, form.x, count) @ elements(of_y, form.y, count)
    assert form.out.in_rows
    np.testing.assert_allclose(product.reshape(shape), x @ y, rtol=1e-13)
    elements_of_out = np.arange(out.size).reshape(product.shape)
    np.testing.assert_array_equal(elements(np.arange(out.size), form.out, count), elements_of_out)


X, Y, OUT = np.ones((3, 4)), np.ones((4, 5)), np.ones((3, 5))
NOT_TAKEN = {
    "every other column": (np.ones((3, 8))[:, ::2], Y, OUT),
    "from the last row on": (X[::-1], Y, OUT),
    "rows that are one": (np.broadcast_to(X[0], X.shape), Y, OUT),
    "a result in columns": (X, Y, np.ones((5, 3)).T),
    "two dtypes": (X.astype("float32"), Y, OUT),
    "nothing to add": (X[:, :0], Y[:0], OUT),
    "batches in another order": (np.ones((3, 2, 3, 4)).swapaxes(0, 1), Y, np.ones((2, 3, 3, 5))),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_needs_copies_has_no_form(name):
    assert form_of(*NOT_TAKEN[name]) is None
