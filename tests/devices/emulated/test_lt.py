"""The emulated cuBLASLt: products with what follows them, against NumPy; what it refuses; capture."""

import ctypes
import importlib

import numpy as np
import pytest

from tests.devices.emulated import counted

cupy = importlib.import_module("cupy")
# As the library's documentation numbers them.
FLOAT32, FLOAT64, COMPUTE = 0, 1, {"float32": 68, "float64": 70, "bfloat16": 75, "tf32": 77}
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS = 3, 4, 7, 8
BATCH, BATCH_STRIDE = 5, 6
RELU, RELU_BIAS, BGRADA, BGRADB = 2, 6, 256, 512
SUCCESS, INVALID, INTERNAL, UNSUPPORTED = 0, 7, 14, 15
WORKSPACE = 1024


@pytest.fixture(scope="module")
def library():
    return ctypes.CDLL("libcublasLt.so.12")


class Product:
    """d = alpha op(a) op(b), of arrays in Fortran order."""

    def __init__(self, library, a, b, d, ta=False, tb=False, compute=None, **attributes):
        self.library, self.arrays = library, (a, b, d)
        self.kind = FLOAT64 if d.dtype == "float64" else FLOAT32
        self.how = self.made("MatmulDesc", compute or COMPUTE[d.dtype.name], self.kind)
        self.set("MatmulDesc", self.how, TRANSPOSE_A, ctypes.c_int(ta))
        self.set("MatmulDesc", self.how, TRANSPOSE_B, ctypes.c_int(tb))
        for name, value in attributes.items():
            self.set("MatmulDesc", self.how, globals()[name.upper()], value)
        self.layouts = [self.layout(x) for x in (a, b, d)]
        self.workspace = cupy.empty(WORKSPACE, "uint8")

    def made(self, kind, *arguments):
        handle = ctypes.c_void_p()
        assert getattr(self.library, f"cublasLt{kind}Create")(ctypes.byref(handle), *arguments) == SUCCESS
        return handle

    def set(self, kind, handle, attribute, value):
        function = getattr(self.library, f"cublasLt{kind}SetAttribute")
        size = ctypes.c_size_t(ctypes.sizeof(value))
        assert function(handle, attribute, ctypes.byref(value), size) == SUCCESS

    def layout(self, x):
        rows, columns = x.shape[-2:]
        stride = x.strides[-1] // x.itemsize
        sizes = [ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(stride)]
        made = self.made("MatrixLayout", self.kind, *sizes)
        if x.ndim == 3:
            self.set("MatrixLayout", made, BATCH, ctypes.c_int(len(x)))
            self.set("MatrixLayout", made, BATCH_STRIDE, ctypes.c_int64(x.strides[0] // x.itemsize))
        return made

    def choose(self):
        """Ask for an algorithm; return the status."""
        preference, self.algorithm = self.made("MatmulPreference"), ctypes.create_string_buffer(96)
        self.set("MatmulPreference", preference, 1, ctypes.c_uint64(WORKSPACE))
        a, b, d = self.layouts
        return self.library.cublasLtMatmulAlgoGetHeuristic(
            None, self.how, a, b, d, d, preference, 1, self.algorithm, ctypes.byref(ctypes.c_int())
        )

    def run(self, stream=None, alpha=1.0):
        """Issue it; return the status."""
        scalar = ctypes.c_double if self.kind == FLOAT64 else ctypes.c_float
        a, b, d = (
            (ctypes.c_void_p(x.data.ptr), layout) for x, layout in zip(self.arrays, self.layouts, strict=True)
        )
        scale, zero = ctypes.byref(scalar(alpha)), ctypes.byref(scalar(0.0))
        place = ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(WORKSPACE)
        at = ctypes.c_void_p((stream or cupy.cuda.get_current_stream()).ptr)
        return self.library.cublasLtMatmul(
            None, self.how, scale, *a, *b, zero, *d, *d, self.algorithm, *place, at
        )


def fortran(*shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return cupy.asarray(values).swapaxes(-1, -2).copy().swapaxes(-1, -2)


def pointer(x):
    return ctypes.c_void_p(x.data.ptr)


def done(product, **options):
    assert product.choose() == SUCCESS
    with counted() as counts:
        assert product.run(**options) == SUCCESS
    assert counts.named() == {"library_calls": 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True), (True, True)])
def test_products(library, dtype, ta, tb):
    a, b = (
        fortran(*((4, 3) if ta else (3, 4)), dtype=dtype),
        fortran(*((5, 4) if tb else (4, 5)), dtype=dtype),
    )
    d = fortran(3, 5, dtype=dtype)
    done(Product(library, a, b, d, ta, tb), alpha=2.0)
    expected = 2 * (a.get().T if ta else a.get()) @ (b.get().T if tb else b.get())
    np.testing.assert_allclose(d.get(), expected, rtol=1e-5)


def test_batches(library):
    a, b, d = fortran(6, 3, 4), fortran(6, 4, 5), fortran(6, 3, 5)
    done(Product(library, a, b, d))
    np.testing.assert_allclose(d.get(), a.get() @ b.get(), rtol=1e-5)


@pytest.mark.parametrize(("compute", "bits"), [(COMPUTE["tf32"], 10), (COMPUTE["bfloat16"], 7)])
def test_rounded_factors(library, compute, bits):
    """Halves go to the even neighbour; of the sum of two products, all bits of float32 remain."""
    unit = 2.0**-bits
    given = [1 + unit / 2, 1 + 3 * unit / 2, 1 + 0.51 * unit, 1 + 0.49 * unit, -1 - unit / 2, 3e38, np.inf]
    expected = [1, 1 + 2 * unit, 1 + unit, 1, -1, None, np.inf]
    for value, rounded in zip(given, expected, strict=True):
        a, b, d = fortran(1, 2), fortran(2, 1), fortran(1, 1)
        a[...], b[...] = cupy.asarray([[value, 2.0**-20]], "f4"), 1
        done(Product(library, a, b, d, compute=compute))
        if rounded is None:
            assert abs(d.item() / value - 1) < unit
        else:
            assert d.item() == np.float32(rounded + 2.0**-20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relu(library, dtype):
    a, b, d = (fortran(*shape, dtype=dtype) for shape in ((6, 4), (4, 5), (6, 5)))
    vector = cupy.asarray(np.linspace(-1, 1, 6, dtype=dtype))
    done(Product(library, a, b, d, epilogue=ctypes.c_int(RELU_BIAS), bias=pointer(vector)))
    before = a.get() @ b.get()
    np.testing.assert_allclose(d.get(), np.maximum(before + vector.get()[:, None], 0), rtol=1e-5, atol=1e-6)
    done(Product(library, a, b, d, epilogue=ctypes.c_int(RELU)))
    np.testing.assert_allclose(d.get(), np.maximum(before, 0), rtol=1e-5, atol=1e-6)


def test_sums_of_an_operand(library):
    a, b, d, total = fortran(3, 4), fortran(4, 5), fortran(3, 5), cupy.empty(3, "float32")
    done(Product(library, a, b, d, epilogue=ctypes.c_int(BGRADA), bias=pointer(total)))
    np.testing.assert_allclose(total.get(), a.get().sum(1), rtol=1e-5)


def test_a_product_in_a_graph(library):
    a, b, d = fortran(3, 4), fortran(4, 5), fortran(3, 5)
    product, stream = Product(library, a, b, d), cupy.cuda.Stream(non_blocking=True)
    assert product.choose() == SUCCESS
    stream.begin_capture()
    assert product.choose() == INTERNAL
    assert product.algorithm.raw == bytes(96)
    product.algorithm = None  # the default one
    assert product.run(stream) == SUCCESS
    graph = stream.end_capture()
    for _ in range(2):
        a *= 2
        graph.launch(stream)
        np.testing.assert_allclose(d.get(), a.get() @ b.get(), rtol=1e-5)


def test_what_is_refused(library):
    a, b, d, total = fortran(3, 4), fortran(4, 5), fortran(3, 5), cupy.empty(3)
    more = {"epilogue": ctypes.c_int(BGRADA), "bias": pointer(total)}
    unused = Product(library, a, b, d, **more | {"epilogue": ctypes.c_int(RELU)})
    assert unused.choose() == UNSUPPORTED  # a vector that nothing uses
    assert Product(library, a, b, d, compute=COMPUTE["float64"]).choose() == UNSUPPORTED
    assert Product(library, fortran(4, 3), b, d, ta=True, **more).choose() == UNSUPPORTED
    assert Product(library, a, b, d, **more | {"epilogue": ctypes.c_int(BGRADB)}).choose() == UNSUPPORTED
    unknown = {"epilogue": ctypes.c_int(BGRADA | RELU_BIAS)}
    assert Product(library, a, b, d, **more | unknown).choose() == INVALID
    wrong = Product(library, a, a, d)
    assert wrong.choose() == SUCCESS
    assert wrong.run() == INVALID
    of_host = Product(library, a, b, d, **more | {"bias": ctypes.c_void_p(np.empty(3).ctypes.data)})
    assert of_host.choose() == SUCCESS
    assert of_host.run() == INVALID
    without = Product(library, a, b, d)
    assert without.choose() == SUCCESS
    without.workspace = cupy.empty(WORKSPACE + 8, "uint8")[8:]
    assert without.run() == INVALID
