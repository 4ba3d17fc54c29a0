"""Pools, convolutions and sums at computed places on a device, in parts, in any layout, and at the limits."""

import re

import numpy as np
import pytest

from sknet import grad, ops
from sknet.compile import compile
from tests.compile.executors.device.test_executor import check, off, on
from tests.contracts.checks import FLOATS
from tests.contracts.rows import ROWS
from tests.trees import leaves

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(5, 4, 7, 6)), RNG.normal(size=(6, 2, 3, 2))
IDS = RNG.integers(-7, 7, (4, 7))


def close(found, expected, said=""):
    tolerance = 1e-13 if expected.dtype == np.float64 else 1e-5
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=said)


@pytest.mark.parametrize("bytes_of_parts", [1, 10_000])
@pytest.mark.parametrize("op", ["conv2d", "conv_transpose2d", "conv_weight"])
def test_some_samples_at_a_time(op, bytes_of_parts, fake_device, limits):
    limits("bytes of columns of a convolution", bytes_of_parts)
    [row] = [row for row in ROWS if row.op == op]
    check(row, fake_device, close, FLOATS, exact=False)


@pytest.mark.parametrize("op", ["take", "embedding", "scatter_add"])
def test_sums_in_any_order(op, fake_device, limits):
    limits("indices that all threads read", 0)
    for row in (row for row in ROWS if row.op == op):
        check(row, fake_device, close, FLOATS, exact=False)


def turned(x):
    """Return an operand whose elements are not in the order of its axes."""
    return ops.permute_dims(x, (0, 1, 3, 2))


def rows_of(table, indices):
    return ops.take(table, ops.permute_dims(indices, (1, 0)), axis=1)


def permuted(x):
    """Return something from which gradients come in another layout."""
    x = ops.permute_dims(x, tuple(reversed(range(x.ndim))))
    return ops.sin(x) * x


FUNCTIONS = {
    "convolution": (lambda x, w: ops.conv2d(turned(x), turned(w), groups=2, padding=1), (X, W)),
    "transposed": (lambda x, w: ops.conv_transpose2d(turned(x), turned(w), groups=2, stride=2), (X, W[:4])),
    "max pool": (lambda x: ops.max_pool2d(turned(x), 3, 2, 1), (X,)),
    "avg pool": (lambda x: ops.avg_pool2d(turned(x), (2, 3), 1), (X,)),
    "take": (rows_of, (X[0], IDS)),
}


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts(name, is_in_order, fake_device, limits):
    """Operands and gradients are views that are not contiguous."""
    limits("indices that all threads read", 1 << 26 if is_in_order else 0)
    function, args = FUNCTIONS[name]
    floats = tuple(i for i, x in enumerate(args) if x.dtype.kind == "f")

    def both(*given):
        return function(*given), grad(lambda *x: ops.sum(permuted(function(*x))), floats)(*given)

    expected, program = compile(both, args)(*args), compile(both, on(fake_device, args))
    assert re.search(r"\bown\d", program.source)
    for mine, theirs in zip(leaves(off(program(*on(fake_device, args)))), leaves(expected), strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_largest_of_values_that_are_not_finite(value, fake_device):
    x = X.copy()
    x[RNG.random(x.shape) < 0.3] = value

    def both(x):
        return ops.max_pool2d(x, 2, 1, 1), grad(lambda x: ops.sum(ops.max_pool2d(x, 2, 1, 1)))(x)

    found = off(compile(both, on(fake_device, (x,)))(*on(fake_device, (x,))))
    for mine, theirs in zip(leaves(found), leaves(compile(both, (x,))(x)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
