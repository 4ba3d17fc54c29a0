"""Arrays in bfloat16 on a GPU: errors, a fit by hand, endings, and graphs that give the same bits."""

import numpy as np
import pytest

from sknet.compile import compile
from sknet.device import HALVES, Device, Ending, active, backend, form_of, to_device, to_host
from sknet.exceptions import DeviceError
from sknet.ops import matmul, matrix_transpose
from tests.compile.executors.device.test_halves import (
    UNIT,
    draws,
    half,
    model_on,
    test_a_fit_is_that_by_hand,
    test_errors_of_two_layers_against_float64,
    test_gathered_rows_have_the_bits_of_numpys_roundings,
    test_rows_are_rounded_as_they_are_gathered,
)
from tests.devices.rounding import from_halves, to_halves
from tests.engine.precisions import host

__all__ = [
    "test_a_fit_is_that_by_hand",
    "test_errors_of_two_layers_against_float64",
    "test_gathered_rows_have_the_bits_of_numpys_roundings",
    "test_rows_are_rounded_as_they_are_gathered",
]

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")


@pytest.fixture
def place():
    """The device of the tests above."""
    return CUDA


@pytest.fixture(autouse=True)
def _all_sizes(limits):
    limits("multiplications of a product in three parts", 1)


@pytest.mark.parametrize("parts", [(), ("bias",), ("relu",), ("bias", "relu"), ("sums of y",)], ids=str)
@pytest.mark.parametrize("out", ["uint16", "float32"])
def test_the_library(parts, out):
    """What it has not, kernels compute; what it has is right."""
    x, w, b = draws((48, 40), (40, 64), (64,))
    owner = backend("cuda")
    with owner.activate(CUDA):
        given = [to_device(to_halves(each), CUDA) for each in (x, w)]
        result = to_device(np.zeros((48, 64), out), CUDA)
        [form] = [form_of(*given, result).in_precision(HALVES)]
        if not owner.finishes(form, parts):
            assert parts, "this GPU has no products of bfloat16"
            return
        is_summed = parts == ("sums of y",)
        vector = to_halves(b) if out == "uint16" else b
        vector = to_device(np.zeros_like(vector) if is_summed else vector, CUDA)
        owner.products(HALVES)(*given, result, Ending(parts, vector, None, 0.0))()
    found = to_host(result) if out == "float32" else from_halves(to_host(result))
    expected = half(x).astype(float) @ half(w).astype(float)
    if "bias" in parts:
        expected += half(b) if out == "uint16" else b
    if "relu" in parts:
        expected = np.maximum(expected, 0)
    np.testing.assert_allclose(found, expected, rtol=0 if out == "float32" else UNIT, atol=1e-4)
    if is_summed:
        sums = to_host(vector) if out == "float32" else from_halves(to_host(vector))
        np.testing.assert_allclose(sums, half(w).sum(0), rtol=UNIT if out == "uint16" else 1e-5, atol=1e-4)


def test_a_library_without_such_products_is_an_error(monkeypatch):
    """CuPy would multiply the integers that stand for them."""
    owner = backend("cuda")
    with owner.activate(CUDA):
        x = to_device(to_halves(draws((32, 32))[0]), CUDA)
        made = owner.products(HALVES)
        out = to_device(np.zeros((32, 32), "float64"), CUDA)
        with pytest.raises(DeviceError, match="cuBLASLt has no product of"):
            made(x, x, out)


def test_transposes_and_views():
    x, y = draws((64, 48), (64, 48))

    def function(x, y):
        return matmul(matrix_transpose(x), y), matmul(x[:32], matrix_transpose(y))

    with active(CUDA, "bfloat16"):
        arrays = [to_device(each, CUDA) for each in (x, y)]
        found = compile(function, tuple(arrays))(*arrays)
    for each, expected in zip(found, (half(x).T @ half(y), half(x)[:32] @ half(y).T), strict=True):
        np.testing.assert_allclose(to_host(each), expected, rtol=0, atol=1e-4)


def test_two_fits_have_the_same_bits():
    X, y = draws((256, 40), (256, 36))
    fits = []
    for _ in range(2):
        model = model_on(CUDA, "bfloat16", "adam")
        model.fit(X, y, epochs=3, batch_size=64)
        fits.append(host(model))
    for name, array in fits[0].items():
        np.testing.assert_array_equal(array, fits[1][name])
