"""The dtypes that sknet computes in."""

import numpy as np
import pytest

from sknet.device import check_float_dtype, is_floating, result_dtype
from sknet.exceptions import DtypeError


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32"), "f4"])
def test_accepted(dtype):
    assert check_float_dtype(dtype, where="the model") is np.dtype("float32")


@pytest.mark.parametrize("dtype", ["float16", "int64", "float33", None, object, 3])
def test_refused(dtype):
    with pytest.raises(
        DtypeError, match=r"the dtype of the model must be one of \['float32', 'float64'\], got "
    ):
        check_float_dtype(dtype, where="the model")


def test_floating():
    assert [is_floating(d) for d in ("float16", "float64", "int8", "bool", "complex64")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_numbers_are_weakly_typed():
    x = np.ones(1, "float32")
    assert result_dtype(x, 2.0) == result_dtype(2, x) == result_dtype(True, x) == "float32"
    assert result_dtype(x, np.ones(1)) == "float64"
    assert result_dtype(np.ones(1, "int64"), 2.0) == "float64"
