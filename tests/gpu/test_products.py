"""Compiled products on a GPU: by cuBLASLt where one call does it, else by CuPy; in graphs as well."""

import importlib

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.device import Device, active, backend, to_device
from sknet.exceptions import DeviceError
from tests.contracts.checks import FLOATS
from tests.devices.rounding import BITS, rounded

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")
SHAPES = [
    ((3, 4), (4, 5)), ((1, 4), (4, 5)), ((3, 1), (1, 5)), ((3, 4), (4, 1)), ((4,), (4, 5)), ((3, 4), (4,)),
    ((6, 3, 4), (6, 4, 5)), ((6, 3, 4), (4, 5)), ((3, 4), (6, 4, 5)), ((2, 3, 3, 4), (2, 3, 4, 5)),
    ((2, 1, 3, 4), (2, 3, 4, 5)), ((65, 130), (130, 67)),
]  # fmt: skip


def there(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return values, to_device(values, CUDA)


def assert_close(found, expected):
    tolerance = 1e-13 if expected.dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found.get(), expected, rtol=0, atol=tolerance * max(1, abs(expected).max()))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_products_and_those_of_transposes(left, right, dtype):
    (x, on_x), (y, on_y) = there(*left, dtype=dtype), there(*right, dtype=dtype, seed=1)

    def function(x, y):
        found = [ops.matmul(x, y)]
        if x.ndim > 1 and y.ndim > 1:
            found.append(ops.matmul(ops.matrix_transpose(y), ops.matrix_transpose(x)))
        return found

    product, *transposed = compile(function, (on_x, on_y))(on_x, on_y)
    assert_close(product, x @ y)
    for found in transposed:
        assert_close(found, np.swapaxes(x @ y, -1, -2))


@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("int64")])
def test_what_cublaslt_does_not_take_is_computed_by_cupy(dtype):
    x, y = (
        (10 * np.random.default_rng(0).standard_normal(shape)).astype(dtype) for shape in ((6, 8), (4, 5))
    )
    on_x, on_y = to_device(x, CUDA), to_device(y, CUDA)
    found = compile(lambda x, y: ops.matmul(x[:, ::2], y), (on_x, on_y))(on_x, on_y)
    assert_close(found, x[:, ::2] @ y)


def test_operands_need_not_be_aligned():
    values, memory = there(41)
    x, y = memory[1:21].reshape(4, 5), memory[21:].reshape(5, 4)
    program = compile(ops.matmul, (x, y), slots=(x, y))
    program.run()
    assert_close(program.result, values[1:21].reshape(4, 5) @ values[21:].reshape(5, 4))


def test_products_in_a_graph():
    (x, on_x), (y, on_y) = there(30, 40), there(40, 20)
    program = compile(lambda x, y: ops.matmul(ops.matmul(x, y) * 2, y.T), (on_x, on_y), slots=(on_x, on_y))
    with active(CUDA):
        program.run()
        graph = backend("cuda").captured(program.run, CUDA)
        for n in range(3):
            on_x[...] = to_device(x + n, CUDA)
            program.result.fill(np.nan)
            graph()
            assert_close(program.result, (x + n) @ y * 2 @ y.T)


def test_without_cublaslt_products_are_cupys(monkeypatch):
    """As with a version of CUDA of which there is none."""
    monkeypatch.setattr(importlib.import_module("cupy").cuda.runtime, "runtimeGetVersion", lambda: 1000)
    (x, on_x), (y, on_y) = there(30, 40), there(40, 20)
    program = compile(ops.matmul, (on_x, on_y), slots=(on_x, on_y))
    with active(CUDA):
        program.run()
        assert_close(program.result, x @ y)
        with pytest.raises(DeviceError, match=r"cuda:0.* cannot be captured.*cuBLAS.*unsupported"):
            backend("cuda").captured(program.run, CUDA)
        program.run()


# -- precisions -------------------------------------------------------------------------------

TOLERANCES = {"float32": 2e-6, "tf32": 4e-3, "bfloat16": 3e-2}


def by_hand(x, y, precision):
    """Return a product of factors that are rounded before."""
    x, y = (a if precision == "float32" else rounded(a, BITS[precision]) for a in (x, y))
    return np.matmul(x.astype("float64"), y.astype("float64"))


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_precisions(left, right, precision):
    """Compiled, called at once, into an array, of transposes, and with copies of what is not contiguous."""
    (x, on_x), (y, on_y) = there(*left), there(*right, seed=1)
    wide = there(*left[:-1], 2 * left[-1])[1]
    wide[..., ::2] = on_x
    with active(CUDA, precision):
        program = compile(ops.matmul, (on_x, on_y))
        found = [ops.matmul(on_x, on_y).data, ops.matmul(wide[..., ::2], on_y).data]
        into = backend("cuda").empty(found[0].shape, "float32", CUDA)
        found.append(backend("cuda").xp.matmul(on_x, on_y, out=into))
    assert found[-1] is into
    found.append(program(on_x, on_y))
    expected = by_hand(x, y, precision)
    scale = np.abs(x).max() * np.abs(y).max() * x.shape[-1]
    for each in found:
        np.testing.assert_allclose(each.get(), expected, atol=TOLERANCES[precision] * scale, rtol=0)


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_errors_are_those_of_the_precision(precision):
    """More than those of float32, and no more than rounded factors explain."""
    (x, on_x), (y, on_y) = there(128, 256), there(256, 64, seed=1)
    errors = {}
    for name in ("float32", precision):
        with active(CUDA, name):
            found = compile(ops.matmul, (on_x, on_y))(on_x, on_y)
        errors[name] = np.abs(found.get() - np.matmul(x.astype("float64"), y.astype("float64"))).max()
    bound = (np.abs(x) @ np.abs(y)).max() * 2.0 ** (1 - BITS[precision])
    assert 20 * errors["float32"] < errors[precision] < bound


@pytest.mark.parametrize("scales", [(1.0, 1.0), (1e-25, 1e-3), (1e32, 1e-30)])
@pytest.mark.parametrize("sizes", [(256, 256, 256), (64, 4096, 64), (4096, 64, 64)])
def test_three_products_in_tf32_are_nearly_as_exact_as_one_in_float32(sizes, scales):
    rows, terms, columns = sizes
    (x, on_x), (y, on_y) = there(rows, terms), there(terms, columns, seed=1)
    x, y = (each * np.float32(scale) for each, scale in zip((x, y), scales, strict=True))
    on_x[...], on_y[...] = to_device(x, CUDA), to_device(y, CUDA)
    expected, errors = x.astype("float64") @ y.astype("float64"), {}
    for name in ("float32", "tf32", "tf32x3"):
        with active(CUDA, name):
            found = compile(ops.matmul, (on_x, on_y))(on_x, on_y)
        errors[name] = np.abs(found.get() - expected).max()
    assert errors["tf32x3"] <= 4 * errors["float32"]
    assert 4 * errors["float32"] < errors["tf32"]


def test_what_is_not_float32_has_no_precision():
    with active(CUDA, "bfloat16"):
        for dtype in ("float64", "int64"):
            x, y = (10 * np.random.default_rng(0).standard_normal((2, 6, 6))).astype(dtype)
            found = ops.matmul(to_device(x, CUDA), to_device(y, CUDA)).data
            assert_close(found, x @ y)


def test_shapes_that_do_not_fit_are_refused_as_ever():
    (_, x), (_, y), (_, z) = there(3, 4), there(5, 4), there(3, 4)
    with active(CUDA, "tf32"):
        for operands in ((x, y), (x, y.T, z)):
            with pytest.raises(ValueError, match=r"[Ss]hape|dimension|Output|core"):
                backend("cuda").xp.matmul(*operands[:2], out=operands[2] if len(operands) > 2 else None)
