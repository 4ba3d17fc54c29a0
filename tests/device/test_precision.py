"""Names of precisions, and the precision of products that a thread has."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sknet.device import Device, active, check_precision, product_precision, products_in
from sknet.exceptions import DtypeError


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        *[(name, (np.dtype("float32"), name)) for name in ("float32", "tf32", "bfloat16", "tf32x3")],
        *[(each, (np.dtype("float64"), "float64")) for each in ("float64", float, np.float64, "f8")],
        (np.dtype("f4"), (np.dtype("float32"), "float32")),
        (">f4", (np.dtype("float32"), "float32")),
        (">f8", (np.dtype("float64"), "float64")),
        (np.dtype("f8", metadata={"unit": "m"}), (np.dtype("float64"), "float64")),
    ],
)
def test_the_dtype_of_arrays_and_the_precision_of_products(dtype, expected):
    assert check_precision(dtype, where="a test") == expected


@pytest.mark.parametrize("dtype", ["float16", "TF32", "bf16", None, int, np.ones(2), ["tf32"]])
def test_other_dtypes_are_refused(dtype):
    expected = r"dtype of a test must be one of \['float32', 'float64', 'tf32', 'bfloat16', 'tf32x3'\], got "
    with pytest.raises(DtypeError, match=expected):
        check_precision(dtype, where="a test")


@pytest.mark.parametrize("precision", ["float16", "TF32", None, 32])
def test_products_in_no_precision_at_all_are_refused(precision, fake_device):
    expected = rf"the precision of products must be one of \['float32'.*\], got {precision!r}"
    with pytest.raises(DtypeError, match=expected), products_in(precision):
        pass


def test_precisions_nest(fake_device):
    with products_in("tf32"):
        with active(fake_device):
            assert product_precision() == "tf32"  # as it was
        for name, expected in (("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float32")):
            with active(fake_device, name):
                assert product_precision() == expected
        with active(Device("cpu"), "bfloat16"):
            assert product_precision() == "tf32"  # the host has none
        assert product_precision() == "tf32"
    assert product_precision() == "float32"


def test_a_precision_is_that_of_a_thread():
    with ThreadPoolExecutor(1) as pool, products_in("tf32"):
        assert pool.submit(product_precision).result() == "float32"
