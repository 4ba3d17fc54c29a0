"""CuPy and cuBLASLt, by fakes of both: errors without a GPU, with too few, or from a library that refuses."""

import contextlib
import json
import math
import re
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from sknet.device import Device, Ending, form_of
from sknet.device._backend import SPECIAL_FUNCTIONS
from sknet.device._cupy import OLDEST, REDUCTIONS, CupyBackend
from sknet.device._products import Library, Places, Products, algorithms_of, library, said
from sknet.exceptions import DeviceError
from tests.project import ROOT


class FakeRuntimeError(RuntimeError):
    pass


class FakeModule:
    def __init__(self, **arguments):
        self.arguments = arguments

    def get_function(self, name):
        return name, self.arguments


def quirky(name):
    """Return a reduction that writes its result as CuPy does: of F-ordered arrays in that order."""

    def reduced(x, axis=None, out=None, keepdims=False):
        result = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        if out is None:
            return result
        if name == "min":
            raise TypeError(
                "operand type(s) all returned NotImplemented"
            )  # of the dtype that `out` is taken for
        is_turned = x.flags.f_contiguous and not x.flags.c_contiguous
        np.ndarray(out.shape, out.dtype, out, order="F" if is_turned else "C")[...] = result
        return out

    return reduced


def solve(x, y):
    """Solve systems of equations as CuPy does, without broadcasting."""
    if x.shape[:-1] != y.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return np.linalg.solve(x, y)


@pytest.fixture
def count(monkeypatch):
    """Pretend that CuPy is installed; the list holds the number of GPUs, or the error of counting them."""
    answer = [2]

    def get_device_count():
        if isinstance(answer[0], Exception):
            raise answer[0]
        return answer[0]

    def module(name, **members):
        made = ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    runtime = SimpleNamespace(
        getDeviceCount=get_device_count, CUDARuntimeError=FakeRuntimeError, memGetInfo=lambda: (1000, 4000)
    )
    memory = SimpleNamespace(OutOfMemoryError=MemoryError)
    cuda = SimpleNamespace(memory=memory, runtime=runtime, Device=lambda index: contextlib.nullcontext(index))
    module(
        "cupy",
        __version__="14.0.0",
        ndarray=type("ndarray", (), {}),
        cuda=cuda,
        asarray=lambda x: ("on the GPU", x),
        exp=np.exp,
        broadcast_to=np.broadcast_to,
        linalg=SimpleNamespace(solve=solve, inv=np.linalg.inv),
        **{name: quirky(name) for name in REDUCTIONS},
        RawModule=FakeModule,
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 24),
    )
    special = module("cupyx.scipy.special", **dict.fromkeys(SPECIAL_FUNCTIONS, np.exp))
    sparse = module("cupyx.scipy.sparse", issparse=lambda x: False)
    scipy = module("cupyx.scipy", special=special, sparse=sparse)
    module("cupyx", scipy=scipy)
    return answer


def test_uses_cupys_functions(count):
    owner = CupyBackend()
    assert owner.xp.exp is np.exp
    assert owner.kind == "cuda"
    assert owner.array_type is sys.modules["cupy"].ndarray
    assert owner.from_host([1.0], Device("cuda", 1)) == ("on the GPU", [1.0])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_write_their_result_in_the_order_of_out(count, name, order, axis, keepdims):
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    x = x.swapaxes(0, 1) if order == "A" else np.array(x, order=order)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    reduced = getattr(CupyBackend().xp, name)
    out = np.empty(expected.shape, expected.dtype)
    assert reduced(x, axis=axis, out=out, keepdims=keepdims) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(reduced(x, axis, keepdims=keepdims), expected)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_rows_are_added_in_types_that_cuda_can_add(count, monkeypatch, dtype):
    seen = []

    def add_at(out, rows, values):
        seen.append((out.dtype, values.dtype))
        np.add.at(out, rows, values)

    monkeypatch.setattr(sys.modules["cupy"], "add", SimpleNamespace(at=add_at), raising=False)
    out = np.zeros((3, 1), dtype)
    CupyBackend().xp.add_rows_at(out, np.array([2, 0, 2]), np.array([[1], [-2], [-5]], dtype))
    np.testing.assert_array_equal(out, [[-2], [0], [-4]])
    added = np.dtype("uint64" if dtype == "int64" else dtype)
    assert seen == [(added, added)]


@pytest.mark.parametrize(("x", "y"), [((2, 2), (2, 3)), ((2, 1, 2, 2), (3, 2, 4)), ((2, 2), (3, 2, 1))])
def test_systems_of_equations_broadcast(count, x, y):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(x) + 3 * np.eye(2), rng.standard_normal(y)
    linalg = CupyBackend().xp.linalg
    np.testing.assert_array_equal(linalg.solve(x, y), np.linalg.solve(x, y))
    assert linalg.inv is np.linalg.inv


def test_kernels_are_compiled_as_one_module_without_fused_multiply_add(count):
    first, second = CupyBackend().kernels("the text", ["map0", "map1"], Device("cuda"))
    arguments = {"code": "the text", "options": ("--fmad=false",), "backend": "nvrtc"}
    assert first == ("map0", arguments)
    assert second[1] is first[1]


def test_free_memory_includes_cupys_pool(count):
    assert CupyBackend().free_memory(Device("cuda")) == 1024


def test_too_few_gpus(count):
    owner = CupyBackend()
    owner.check(Device("cuda", 1))
    with pytest.raises(
        DeviceError, match="device 'cuda:2' requested, but there are only 2 CUDA devices here"
    ):
        owner.check(Device("cuda", 2))


def test_no_usable_gpu(count):
    count[0] = FakeRuntimeError("cudaErrorInsufficientDriver")
    message = r"device 'cuda:0' requested, but there is no usable GPU here \(cudaErrorInsufficientDriver\)"
    with pytest.raises(DeviceError, match=message):
        CupyBackend().check(Device("cuda"))


def test_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        DeviceError,
        match=r"needs CuPy, which cannot be imported .*: install CuPy with pip install .*\[cuda12\]",
    ):
        CupyBackend()


@pytest.mark.parametrize("version", ["14.0.0", "14.2.0rc1", "15.0.0a1", "100.0"])
def test_versions_that_are_taken(count, monkeypatch, version):
    monkeypatch.setattr(sys.modules["cupy"], "__version__", version)
    assert CupyBackend().kind == "cuda"


@pytest.mark.parametrize("version", ["13.6.0", "9.0.0", "13.0.0b1"])
def test_older_versions_are_refused(count, monkeypatch, version):
    monkeypatch.setattr(sys.modules["cupy"], "__version__", version)
    message = (
        rf"device 'cuda' needs CuPy 14 or later, and CuPy {version} is installed: install CuPy with pip "
        r"install .scikit-neural\[cuda12\]. or pip install .scikit-neural\[cuda13\]., or use device='cpu'"
    )
    with pytest.raises(DeviceError, match=message):
        CupyBackend()


@pytest.mark.parametrize("version", [12, 13])
def test_the_extras_install_what_the_backend_takes(version):
    """A wheel of CuPy without `ctk` has no cuBLAS."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras[f"cuda{version}"] == [f"cupy-cuda{version}x[ctk]>={OLDEST}"]


# -- cuBLASLt: what it computes is tested where there is one -----------------------------------------

FORM = form_of(*(np.ones(shape, "float32") for shape in ((3, 4), (4, 5), (3, 5))))


class Refusing:
    """A library whose functions succeed, but for one."""

    def __init__(self, name, status):
        self._refused = name, status

    def __getattr__(self, name):
        refused, status = self._refused
        return lambda *args: status if name == refused else 0


class Finding(Refusing):
    """One that has algorithms for everything."""

    most = 3

    def __init__(self, *refused):
        super().__init__(*refused)
        self.asked = []

    def __getattr__(self, name):
        refused = super().__getattr__(name)

        def called(*args):
            if name == "cublasLtMatmulAlgoGetHeuristic":
                args[-1]._obj.value = min(args[-3], self.most)
                self.asked.append(args[-3])
                for n in range(args[-1]._obj.value):
                    args[-2][n].workspace = 100 + n
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


@pytest.mark.parametrize(("which", "found"), [(0, 0), (2, 2), (7, 0)])
def test_the_algorithm_of_the_table(which, found):
    """Where fewer are offered than when it was measured, the first is taken."""
    places = Places(256, 512, 768, 768, 260)
    functions, name = Finding("nothing", 0), said(FORM, ("bias",), (256, 256, 256, 256, 4))
    library = Library(functions, 1024, {name: which})
    assert library.chosen(FORM, ("bias",), places).found.workspace == 100 + found
    assert library.chosen(FORM, (), places).found.workspace == 100
    aligned = 256, 256, 256, 256, 4
    assert library.forms() == [(FORM, ("bias",), aligned), (FORM, (), aligned)]
    assert functions.asked == ([which + 1, 1] if found == which else [which + 1, 1, 1])


def test_the_committed_table():
    """By capability and version, names of products, and small numbers."""
    assert algorithms_of("1.0, 1") == {}
    table = json.loads((ROOT / "sknet/device/_algorithms.json").read_text())
    for device, known in table.items():
        assert re.fullmatch(r"\d+, \d+", device)
        assert all(0 < which < 16 for which in known.values())
