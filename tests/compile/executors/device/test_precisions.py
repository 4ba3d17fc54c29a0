"""Products of compiled programs have the precision in which their program was compiled, wherever it runs."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.device import active, products_in, to_device, to_host
from tests.devices import fake
from tests.devices.rounding import BITS, rounded

PRECISIONS = "float32", *BITS


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def factors(*shapes, device, precision):
    """Return arrays, and what their products are of."""
    found = [values(*shape, seed=i) for i, shape in enumerate(shapes)]
    kept = [x if precision == "float32" else rounded(x, BITS[precision]) for x in found]
    return [to_device(x, device) for x in found], kept


SHAPES = [
    ((6, 5), (5, 4)),
    ((3, 6, 5), (3, 5, 4)),
    ((3, 6, 5), (5, 4)),
    ((2, 1, 6, 5), (2, 3, 5, 4)),
    ((5,), (5, 4)),
]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_factors_are_rounded(fake_device, shapes, precision):
    arrays, (x, y) = factors(*shapes, device=fake_device, precision=precision)
    with active(fake_device, precision):
        eager = ops.matmul(*arrays).data
        program, exact = (compile(ops.matmul, tuple(arrays), exact=exact) for exact in (False, True))
    for found in (eager, program(*arrays), exact(*arrays)):
        np.testing.assert_array_equal(to_host(found), x @ y)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_endings_follow_the_rounded_product(fake_device, precision):
    arrays, (x, y, _) = factors((20, 5), (5, 32), (32,), device=fake_device, precision=precision)
    with active(fake_device, precision):
        program = compile(lambda x, y, b: ops.relu(ops.matmul(x, y) + b), tuple(arrays))
        with fake.counted() as counts:
            found = program(*arrays)
    assert counts.precisions == {precision: 1}
    np.testing.assert_array_equal(to_host(found), np.maximum(x @ y + values(32, seed=2), 0))


def test_a_program_keeps_its_precision(fake_device):
    arrays, _ = factors((6, 5), (5, 4), device=fake_device, precision="float32")
    with active(fake_device):
        made = {}
        for precision in PRECISIONS:
            with products_in(precision):
                made[precision] = compile(ops.matmul, tuple(arrays))
        assert len({id(program.plan) for program in made.values()}) == 3
        for precision, program in made.items():
            for around in PRECISIONS:
                with products_in(around), fake.counted() as counts:
                    program(*arrays)
                assert counts.precisions == {precision: 1}
            assert (f"products in {precision}" in program.source) == (precision != "float32")


def test_a_program_on_the_host_has_no_precision():
    x, y = values(6, 5), values(5, 4, seed=1)
    with products_in("bfloat16"):
        np.testing.assert_array_equal(compile(ops.matmul, (x, y))(x, y), x @ y)


CALLS = {
    "convolution": (ops.conv1d, (4, 3, 9), (5, 3, 3)),
    "of images": (ops.conv2d, (4, 3, 9, 8), (5, 3, 3, 2)),
    "columns that are not contiguous": (lambda x, w: ops.matmul(x[:, ::2], w), (4, 6), (3, 5)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_functions_that_are_called_multiply_in_it_too(fake_device, name, precision):
    function, *shapes = CALLS[name]
    arrays, kept = factors(*shapes, device=fake_device, precision=precision)
    with active(fake_device, precision):
        program = compile(function, tuple(arrays))
    with fake.counted() as counts:
        found = program(*arrays)
    assert set(counts.precisions) == {precision}
    np.testing.assert_allclose(to_host(found), function(*kept).numpy(), rtol=1e-6, atol=1e-6)


def test_inner_products_are_float32(fake_device):
    """Sums of products, of squares and of losses are computed so."""
    arrays, (x, y) = factors((40,), (40,), device=fake_device, precision="float32")
    with active(fake_device, "bfloat16"):
        for function in (lambda x, y: ops.sum(x * y), ops.matmul, lambda x, y: ops.sum_squares(x, y)):
            program = compile(function, tuple(arrays))
            with fake.counted() as counts:
                found = program(*arrays)
            assert not set(counts.precisions) & set(BITS)
            np.testing.assert_allclose(to_host(found), function(x, y).numpy(), rtol=1e-6)


def test_float64_is_float64(fake_device):
    x, y = values(6, 5).astype(float), values(5, 4, seed=1).astype(float)
    arrays = to_device(x, fake_device), to_device(y, fake_device)
    with active(fake_device, "tf32"):
        found = compile(ops.matmul, arrays)(*arrays)
    np.testing.assert_array_equal(to_host(found), x @ y)
