"""Errors of cuBLASLt, from a library that refuses; what it computes is tested where there is one."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from sknet.device import Ending, form_of
from sknet.device._products import Library, Places, Products, library
from sknet.exceptions import DeviceError

FORM = form_of(*(np.ones(shape, "float32") for shape in ((3, 4), (4, 5), (3, 5))))


class Refusing:
    """A library whose functions succeed, but for one."""

    def __init__(self, name, status):
        self._refused = name, status

    def __getattr__(self, name):
        refused, status = self._refused
        return lambda *args: status if name == refused else 0


class Finding(Refusing):
    """One that has an algorithm for everything."""

    def __getattr__(self, name):
        refused = super().__getattr__(name)

        def called(*args):
            if name == "cublasLtMatmulAlgoGetHeuristic":
                args[-1]._obj.value = 1
            return refused(*args)

        return called


def test_a_handle_that_is_refused():
    with pytest.raises(
        DeviceError, match=r"cublasLtCreate failed for a handle: status 1 \(not initialized\)"
    ):
        Library(Refusing("cublasLtCreate", 1), 1024)


def test_an_algorithm_that_cannot_be_chosen():
    refusing = Library(Refusing("cublasLtMatmulAlgoGetHeuristic", 14), 1024)
    expected = r"no algorithm .* \(3, 4\) @ \(4, 5\) of float32: status 14 \(internal error\).*captured"
    with pytest.raises(DeviceError, match=expected):
        refusing.chosen(FORM, (), Places(256, 512, 768, 768))


def test_a_form_without_an_algorithm_is_left_to_others():
    refusing = Library(Refusing("cublasLtMatmulAlgoGetHeuristic", 15), 1024)
    assert refusing.chosen(FORM, (), Places(256, 256, 256, 256)) is None


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("cublasLtMatmulAlgoGetHeuristic", 15),
        ("cublasLtMatmulAlgoGetHeuristic", 7),
        ("cublasLtMatmul", 15),
        ("cublasLtMatmulDescSetAttribute", 7),
    ],
)
def test_an_ending_that_is_refused(name, status):
    """Whether in the search or when a product is issued."""
    memory = SimpleNamespace(size=0, data=SimpleNamespace(ptr=256))

    def takes(functions):
        return Products(Library(functions, 1024), lambda nbytes: memory, lambda: 0).takes(FORM, ("bias",))

    assert not takes(Finding(name, status))
    assert takes(Finding("nothing", status))


class FakeVector:
    """What of an array matters to products: here it does not begin at a multiple of 16 bytes."""

    def __init__(self, *shape):
        self.shape, self.dtype, self.ndim = shape, np.dtype("float32"), len(shape)
        self.strides, self.size = np.zeros(shape, "float32").strides, math.prod(shape)
        self.data = SimpleNamespace(ptr=4)


def test_an_ending_that_is_refused_for_some_addresses():
    products = Products(Library(Refusing("cublasLtMatmulAlgoGetHeuristic", 15), 1024), None, None)
    arrays = FakeVector(3, 4), FakeVector(4, 5), FakeVector(3, 5)
    with pytest.raises(
        DeviceError, match=r"no product of \(3, 4\) and \(4, 5\) with \('bias',\).*of 16 bytes"
    ):
        products.finished(*arrays, Ending(("bias",), FakeVector(5)))


def test_a_product_that_fails():
    failing = Library(Refusing("cublasLtMatmul", 13), 1024)
    with pytest.raises(DeviceError, match=r"cublasLtMatmul failed for \(3, 4\) @ .* 13 \(execution failed\)"):
        failing.multiply(FORM)


def test_a_library_that_is_not_there():
    assert library(1) is None
