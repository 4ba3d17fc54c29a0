"""Products with what follows them in one launch by cuBLASLt, against NumPy, and in a graph."""

import itertools

import numpy as np
import pytest

from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import Device, Ending, active, backend, form_of, to_device
from tests.compile.executors.device.test_executor import off, on
from tests.compile.executors.device.test_finishes import random_function
from tests.devices.finished import CHAINS, WITH_TERM

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")
SHAPES = [(40, 20, 30), (64, 54, 512), (33, 17, 100), (7, 5, 129), (128, 64, 16)]


def there(*shape, seed=0, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return values, to_device(values, CUDA)


def product_of(x, y, out, *ending, precision="float32"):
    """Return a product that cuBLASLt finishes."""
    form, ending = form_of(x, y, out).in_precision(precision), Ending(*ending)
    assert backend("cuda").finishes(form, ending.parts), f"{form} cannot have {ending.parts}"
    return backend("cuda").products(precision)(x, y, out, ending)


TOLERANCES = {"float64": 1e-12, "float32": 1e-4, "tf32": 2e-2, "bfloat16": 2e-1}


@pytest.fixture(params=["float64", "float32", "CUPY_TF32", "tf32", "bfloat16"])
def precision(request, monkeypatch):
    """The dtype of arrays, the precision of their products, and its tolerance."""
    if request.param == "float64":
        return "float64", "float32", TOLERANCES["float64"]
    if request.param == "CUPY_TF32":
        monkeypatch.setenv("CUPY_TF32", "1")
        return "float32", "float32", TOLERANCES["tf32"]
    return "float32", request.param, TOLERANCES[request.param]


@pytest.mark.parametrize(("n", "k", "m"), SHAPES)
@pytest.mark.parametrize("parts", CHAINS, ids=str)
def test_endings(parts, n, k, m, precision):
    """In a launch, and in a graph."""
    dtype, precision, tolerance = precision
    shapes = (n, k), (k, m), (m,), (n, m)
    (x, on_x), (y, on_y), (row, vector), of_term = (
        there(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)
    )
    (term, on_term), factor = (of_term, 0.5) if parts in WITH_TERM else ((None, None), 0.0)
    expected = x @ y + (0 if term is None else factor * term)
    expected = expected + (row if "bias" in parts else 0)
    expected = np.maximum(expected, 0) if "relu" in parts else expected
    with active(CUDA):
        out = backend("cuda").zeros((n, m), dtype, CUDA)
        product = product_of(on_x, on_y, out, parts, vector, on_term, factor, precision=precision)
        product()
        found = out.get()
        out.fill(np.nan)
        backend("cuda").captured(product, CUDA)()
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(found, out.get())
    if "sums of y" in parts:
        np.testing.assert_allclose(vector.get(), y.sum(0), rtol=tolerance, atol=tolerance)


# -- of several products ------------------------------------------------------------------------

MEMBERS = 3


def vectors(columns, dtype):
    """Return vectors that begin at multiples of 64 bytes, in memory with other numbers between them."""
    values, memory = there(MEMBERS, 16 * (columns // 16 + 2), dtype=dtype)
    return values[:, :columns], memory[:, :columns]


@pytest.mark.parametrize(("n", "k", "m"), [(40, 20, 32), (64, 54, 512), (33, 16, 100), (8, 4, 132)])
@pytest.mark.parametrize("parts", CHAINS, ids=str)
def test_endings_of_several(parts, n, k, m, precision):
    dtype, precision, tolerance = precision
    (x, on_x), (y, on_y), of_term = (
        there(MEMBERS, *shape, seed=i, dtype=dtype) for i, shape in enumerate(((n, k), (k, m), (n, m)))
    )
    row, vector = vectors(m, dtype)
    (term, on_term), factor = (of_term, 0.5) if parts in WITH_TERM else ((None, None), 0.0)
    expected = x @ y + (0 if term is None else factor * term)
    expected = expected + (row[:, np.newaxis] if "bias" in parts else 0)
    expected = np.maximum(expected, 0) if "relu" in parts else expected
    with active(CUDA):
        out = backend("cuda").zeros((MEMBERS, n, m), dtype, CUDA)
        product_of(on_x, on_y, out, parts, vector, on_term, factor, precision=precision)()
    np.testing.assert_allclose(out.get(), expected, rtol=tolerance, atol=tolerance)
    if "sums of y" in parts:
        np.testing.assert_allclose(vector.get(), y.sum(1), rtol=tolerance, atol=tolerance)
        between = vector.base[:, m : 16 * (m // 16 + 2)].get()
        np.testing.assert_array_equal(between, there(MEMBERS, 16 * (m // 16 + 2), dtype=dtype)[0][:, m:])


@pytest.mark.parametrize("transposed", [*itertools.product([False, True], repeat=2)], ids=str)
def test_transposed_factors(transposed):
    (x, on_x), (y, on_y) = (
        there(*((20, 40) if transposed[0] else (40, 20))),
        there(*((30, 20) if transposed[1] else (20, 30)), seed=1),
    )
    if transposed[0]:
        x, on_x = x.T, on_x.T
    if transposed[1]:
        y, on_y = y.T, on_y.T
    row, vector = there(30, seed=2)
    with active(CUDA):
        out = backend("cuda").zeros((40, 30), "float32", CUDA)
        product_of(on_x, on_y, out, ("bias",), vector)()
    np.testing.assert_allclose(out.get(), x @ y + row, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(20))
def test_random_functions(seed):
    function, args = random_function(seed)
    args_there = on(CUDA, args)
    found, is_finite = off(compile(function, args_there)(*args_there))
    assert is_finite
    for mine, theirs in zip(found, function(*map(Tensor, args))[0], strict=True):
        scale = np.abs(theirs.numpy()).max() + 1
        np.testing.assert_allclose(mine / scale, theirs.numpy() / scale, atol=2e-4)
