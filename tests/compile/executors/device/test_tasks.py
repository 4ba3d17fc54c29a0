"""Pools, convolutions and sums at computed places on a device, in parts, in any layout, and at the limits."""

import re

import numpy as np
import pytest

from sknet import grad, ops
from sknet.compile import compile
from sknet.core import Tensor, gradients
from tests.compile.executors.device.test_executor import check, off, on
from tests.compile.executors.device.test_reductions import drawn, replayed
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


# -- convolutions of 3 x 3 by tiles -----------------------------------------------------------

TILED = {
    "even": ((3, 16, 8, 6), (16, 16, 3, 3), 1),
    "odd, without padding": ((2, 17, 7, 9), (16, 17, 3, 3), 0),
    "padded by two and by one": ((2, 16, 5, 4), (18, 16, 3, 3), (2, 1)),
    "one row": ((2, 16, 3, 8), (16, 16, 3, 3), 0),
}


@pytest.mark.parametrize("parts", ["whole", "parts"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", TILED)
def test_tiles(how, dtype, parts, fake_device, limits):
    """Convolution and both gradients, against the host; also of a few samples at a time."""
    shape, weight, padding = TILED[how]
    if parts == "parts":
        limits("bytes of columns of a convolution", 1)
    x, w = drawn(shape, dtype), drawn(weight, dtype, 1)

    def function(x, w):
        for each in (x, w):
            each.requires_grad = True
        found = ops.conv2d(x, w, padding=padding)
        return [found, *gradients(ops.sum(ops.sin(found)), [x, w])]

    found, compiled = replayed(function, x, w, device=fake_device)
    n_parts = 1 if parts == "whole" else shape[0]
    assert len(re.findall(r"products\[", compiled.source)) == n_parts * 3 * 16  # of three convolutions
    for each, expected in zip(found, function(Tensor(x), Tensor(w)), strict=True):
        scale = np.abs(expected.numpy()).max()
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(each, expected.numpy(), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("weight", "options"),
    [
        ((16, 8, 3, 3), {"groups": 2}),
        ((16, 16, 3, 3), {"stride": 2}),
        ((16, 16, 3, 3), {"dilation": 2}),
        ((16, 16, 3, 2), {}),
        ((8, 16, 3, 3), {}),  # few filters
        ((30, 16, 3, 3), {}),  # many filters for so few channels
        ((16, 16, 3, 3), {"padding": 3}),
    ],
)
def test_others_are_products_of_columns(weight, options, fake_device):
    x, w = drawn((2, 16, 8, 8), "float32"), drawn(weight, "float32", 1)
    [found], compiled = replayed(lambda x, w: [ops.conv2d(x, w, **options)], x, w, device=fake_device)
    assert "products[" not in compiled.source
    expected = ops.conv2d(Tensor(x), Tensor(w), **options).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
