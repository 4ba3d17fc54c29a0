"""Products with what follows them in one launch by cuBLASLt, against NumPy, and in a graph."""

import itertools

import numpy as np
import pytest

from sknet.compile import compile
from sknet.compile.executors.device._finishes import CHAINS
from sknet.core import Tensor
from sknet.device import Device, Ending, active, backend, form_of, to_device
from tests.compile.executors.device.test_executor import off, on
from tests.compile.executors.device.test_finishes import random_function

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")
SHAPES = [(40, 20, 30), (64, 54, 512), (33, 17, 100), (7, 5, 129), (128, 64, 16)]


def there(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    return values, to_device(values, CUDA)


def product_of(x, y, out, *ending, precision="float32"):
    """Return a product that cuBLASLt finishes."""
    form, ending = form_of(x, y, out).in_precision(precision), Ending(*ending)
    assert backend("cuda").finishes(form, ending.parts), f"{form} cannot have {ending.parts}"
    return backend("cuda").products(precision)(x, y, out, ending)


TOLERANCES = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 2e-1}


@pytest.fixture(params=["float32", "CUPY_TF32", "tf32", "bfloat16"])
def precision(request, monkeypatch):
    """The name of a precision, and its tolerance."""
    if request.param == "CUPY_TF32":
        monkeypatch.setenv("CUPY_TF32", "1")
        return "float32", TOLERANCES["tf32"]
    return request.param, TOLERANCES[request.param]


FORWARD = [parts for parts in CHAINS if not {"masked", "input", "gelu", "gelu gradient"} & {*parts}]


@pytest.mark.parametrize(("n", "k", "m"), SHAPES)
@pytest.mark.parametrize("parts", FORWARD, ids=str)
def test_endings(parts, n, k, m, precision):
    precision, tolerance = precision
    (x, on_x), (y, on_y), (row, vector) = there(n, k), there(k, m, seed=1), there(m, seed=2)
    term, on_term = there(n, m, seed=3) if parts in ((), ("sums of y",)) else (None, None)
    expected = x @ y + (0 if term is None else np.float32(0.5) * term)
    expected = expected + (row if "bias" in parts else 0)
    expected = np.maximum(expected, 0) if "relu" in parts else expected
    with active(CUDA):
        out, mask = (backend("cuda").zeros((n, m), dtype, CUDA) for dtype in ("float32", "bool"))
        product_of(on_x, on_y, out, parts, vector, mask, on_term, 0.5, precision=precision)()
    np.testing.assert_allclose(out.get(), expected, rtol=tolerance, atol=tolerance)
    if "sums of y" in parts:
        np.testing.assert_allclose(vector.get(), y.sum(0), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "k", "m"), SHAPES)
@pytest.mark.parametrize("parts", [("masked",), ("masked", "sums")], ids=str)
def test_masks(parts, n, k, m, precision):
    """Where a sum is exactly 0, nothing comes back: there the mask has no bit."""
    precision, tolerance = precision
    (x, on_x), (y, on_y), (g, on_g), (w, on_w) = there(n, k), there(k, m, seed=1), there(n, 3), there(3, m)
    x[0], y[:, 1] = 0, 0
    on_x, on_y = to_device(x, CUDA), to_device(y, CUDA)
    with active(CUDA):
        hidden, back, mask = (
            backend("cuda").zeros((n, m), dtype, CUDA) for dtype in ("float32", "float32", "bool")
        )
        _, vector = there(m)
        forward = product_of(on_x, on_y, hidden, ("relu", "mask"), None, mask, precision=precision)
        backward = product_of(on_g, on_w, back, parts, vector, mask, precision=precision)
        for issue in (forward, backward):
            issue()
        graph = backend("cuda").captured(lambda: (forward(), backward()), CUDA)
        results = (hidden, back, vector)[: 1 + len(parts)]
        found = [each.get() for each in results]
        for each in results:
            each.fill(np.nan)
        graph()
    for first, second in zip(found, results, strict=True):
        np.testing.assert_array_equal(first, second.get())
    expected = np.where(found[0] > 0, g @ w, 0)
    np.testing.assert_allclose(found[0], np.maximum(x @ y, 0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[1], expected, rtol=tolerance, atol=tolerance)
    if "sums" in parts:
        np.testing.assert_allclose(found[2], found[1].sum(0), rtol=1e-4, atol=1e-4)


def gelu(x):
    """Return the GELU of x by the formula with a hyperbolic tangent, and its derivative."""
    x = x.astype("float64")
    inner, slope = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3), np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * x**2)
    t = np.tanh(inner)
    return x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t**2) * slope


@pytest.mark.parametrize("members", [None, 3])
@pytest.mark.parametrize(("n", "k", "m"), [(40, 20, 32), (64, 54, 512), (33, 16, 104)])
@pytest.mark.parametrize("parts", [parts for parts in CHAINS if "gelu" in parts], ids=str)
def test_gelus(parts, n, k, m, members, precision):
    """Forward, and the gradient at what the product was, in plain launches and in a graph."""
    precision, tolerance = precision
    several = () if members is None else (members,)
    (x, on_x), (y, on_y), (row, vector) = there(*several, n, k), there(*several, k, m), there(*several, m)
    (g, on_g), (w, on_w), (_, totals) = there(*several, n, 3), there(*several, 3, m), there(*several, m)
    with active(CUDA):
        out, back, beside = (backend("cuda").zeros((*several, n, m), "float32", CUDA) for _ in range(3))
        issued = [product_of(on_x, on_y, out, parts, vector, beside, precision=precision)]
        if "input" in parts:
            backward = "gelu gradient", "sums"
            issued.append(product_of(on_g, on_w, back, backward, totals, beside, precision=precision))
        for issue in issued:
            issue()
        found = [each.get() for each in (out, back, beside, totals)]
        graph = backend("cuda").captured(lambda: [issue() for issue in issued], CUDA)
        graph()
    for first, second in zip(found, (out, back, beside, totals), strict=True):
        np.testing.assert_array_equal(first, second.get())
    before = x @ y + (row[..., np.newaxis, :] if "bias" in parts else 0)
    np.testing.assert_allclose(found[0], gelu(before)[0], rtol=tolerance, atol=tolerance)
    if "input" in parts:
        np.testing.assert_allclose(found[2], before, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found[1], g @ w * gelu(found[2])[1], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(found[3], found[1].sum(-2), rtol=1e-4, atol=1e-3)


# -- of several products ------------------------------------------------------------------------

MEMBERS = 3


def vectors(columns, seed=0):
    """Return vectors that begin at multiples of 64 bytes, in memory with other numbers between them."""
    values, memory = there(MEMBERS, 16 * (columns // 16 + 2), seed=seed)
    return values[:, :columns], memory[:, :columns]


@pytest.mark.parametrize(("n", "k", "m"), [(40, 20, 32), (64, 54, 512), (33, 16, 100), (8, 4, 132)])
@pytest.mark.parametrize("parts", FORWARD, ids=str)
def test_endings_of_several(parts, n, k, m, precision):
    precision, tolerance = precision
    (x, on_x), (y, on_y), (row, vector) = there(MEMBERS, n, k), there(MEMBERS, k, m, seed=1), vectors(m)
    term, on_term = there(MEMBERS, n, m, seed=3) if parts in ((), ("sums of y",)) else (None, None)
    expected = x @ y + (0 if term is None else np.float32(0.5) * term)
    expected = expected + (row[:, np.newaxis] if "bias" in parts else 0)
    expected = np.maximum(expected, 0) if "relu" in parts else expected
    with active(CUDA):
        out, mask = (backend("cuda").zeros((MEMBERS, n, m), dtype, CUDA) for dtype in ("float32", "bool"))
        product_of(on_x, on_y, out, parts, vector, mask, on_term, 0.5, precision=precision)()
    np.testing.assert_allclose(out.get(), expected, rtol=tolerance, atol=tolerance)
    if "sums of y" in parts:
        np.testing.assert_allclose(vector.get(), y.sum(1), rtol=tolerance, atol=tolerance)
        between = vector.base[:, m : 16 * (m // 16 + 2)].get()
        np.testing.assert_array_equal(between, there(MEMBERS, 16 * (m // 16 + 2))[0][:, m:])


@pytest.mark.parametrize(("n", "k", "m"), [(40, 20, 32), (64, 54, 512), (33, 16, 100)])
@pytest.mark.parametrize("parts", [("masked",), ("masked", "sums")], ids=str)
def test_masks_of_several(parts, n, k, m, precision):
    precision, tolerance = precision
    (x, on_x), (y, on_y) = there(MEMBERS, n, k), there(MEMBERS, k, m, seed=1)
    (g, on_g), (w, on_w), (_, vector) = there(MEMBERS, n, 3), there(MEMBERS, 3, m), vectors(m)
    with active(CUDA):
        hidden, back, mask = (
            backend("cuda").zeros((MEMBERS, n, m), dtype, CUDA) for dtype in ("float32", "float32", "bool")
        )
        product_of(on_x, on_y, hidden, ("relu", "mask"), None, mask, precision=precision)()
        product_of(on_g, on_w, back, parts, vector, mask, precision=precision)()
    expected = np.where(hidden.get() > 0, g @ w, 0)
    np.testing.assert_allclose(hidden.get(), np.maximum(x @ y, 0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(back.get(), expected, rtol=tolerance, atol=tolerance)
    if "sums" in parts:
        np.testing.assert_allclose(vector.get(), back.get().sum(1), rtol=1e-4, atol=1e-4)


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


def test_other_dtypes_are_not_finished():
    x = to_device(np.zeros((32, 32)), CUDA)
    with active(CUDA):
        assert not backend("cuda").finishes(form_of(x, x, x.copy()), ("bias",))
        assert backend("cuda").finishes(form_of(x, x, x.copy()), ())


@pytest.mark.parametrize("seed", range(20))
def test_random_functions(seed):
    function, args = random_function(seed)
    args_there = on(CUDA, args)
    found, is_finite = off(compile(function, args_there)(*args_there))
    assert is_finite
    for mine, theirs in zip(found, function(*map(Tensor, args))[0], strict=True):
        scale = np.abs(theirs.numpy()).max() + 1
        np.testing.assert_allclose(mine / scale, theirs.numpy() / scale, atol=2e-4)
