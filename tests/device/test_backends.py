"""Devices by name, arrays by type, and the functions of backends."""

import itertools
import subprocess
import sys
from typing import get_type_hints

import numpy as np
import pytest
import scipy.sparse
import scipy.special

from sknet import Tensor
from sknet.core import PRIMITIVES
from sknet.device import (
    Backend,
    Device,
    LinearAlgebra,
    MetaArray,
    Namespace,
    available,
    backend,
    backend_of,
    device_of,
    is_array,
    namespace,
    register,
    to_device,
    to_host,
)
from sknet.exceptions import DeviceError

try:
    import cupy
except ImportError:
    cupy = None


# Nothing but the device package has been imported, and no device has been asked for.
FIRST = """
import numpy as np
import scipy.sparse
from sknet.device import device_of, is_array
arrays = [np.ones(2), scipy.sparse.eye_array(2, format="csr")]
print([str(device_of(x)) for x in arrays if is_array(x)])
"""


def test_arrays_of_the_host_are_known_from_the_start():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['cpu', 'cpu']"


class TestDevice:
    @pytest.mark.parametrize(
        ("text", "kind", "index", "shown"),
        [
            ("cpu", "cpu", 0, "cpu"),
            ("cuda", "cuda", 0, "cuda:0"),
            ("cuda:1", "cuda", 1, "cuda:1"),
            ("meta", "meta", 0, "meta"),
        ],
    )
    def test_is_read_and_written(self, text, kind, index, shown):
        device = Device.parse(text)
        assert (device.kind, device.index, str(device)) == (kind, index, shown)
        assert Device.parse(device) is device
        assert hash(device) == hash(Device(kind, index))

    @pytest.mark.parametrize("text", ["", "cuda:", "cuda:-1", "CUDA", "cuda:1:2", "cpu ", 0, None])
    def test_refuses(self, text):
        with pytest.raises(
            DeviceError, match="a device must be 'cpu', 'cuda', 'cuda:<index>' or 'meta', got "
        ):
            Device.parse(text)


class TestAvailable:
    def test_built_in_backends(self):
        assert available("cpu") == Device("cpu")
        assert available(Device("meta")) == Device("meta")

    def test_unknown(self):
        with pytest.raises(
            DeviceError, match=r"unknown device 'tpu': expected one of \['cpu', 'cuda', .*'meta'.*\]"
        ):
            available("tpu")

    @pytest.mark.parametrize("kind", ["cpu", "meta"])
    def test_backends_are_singletons(self, kind):
        with pytest.raises(
            DeviceError, match=f"device '{kind}:1' requested, but there is only one '{kind}' device"
        ):
            available(f"{kind}:1")

    @pytest.mark.skipif(cupy is not None, reason="CuPy is installed here")
    def test_cuda_without_cupy_says_how_to_install_it(self):
        message = r"device 'cuda' needs CuPy, which cannot be imported \(.*\): install CuPy with pip install"
        for ask in (
            lambda: available("cuda"),
            lambda: Tensor([1.0], device="cuda:1"),
            lambda: Tensor([1.0]).to("cuda"),
        ):
            with pytest.raises(DeviceError, match=message):
                ask()


class TestArrays:
    def test_numpys(self):
        x = np.ones(2)
        assert is_array(x)
        assert namespace(x) is backend("cpu").xp
        assert device_of(x) == Device("cpu")
        assert to_host(x) is x
        assert to_device(x, Device("cpu")) is x

    def test_sparse_ones(self):
        matrix = scipy.sparse.csr_array(np.eye(2))
        assert is_array(matrix)
        assert backend_of(matrix).is_sparse(matrix)
        assert not backend_of(matrix).is_sparse(np.eye(2))
        assert to_host(matrix) is matrix

    @pytest.mark.parametrize("thing", [[1.0], 1.0, "x", None])
    def test_everything_else(self, thing):
        assert not is_array(thing)
        with pytest.raises(
            TypeError, match=rf"expected an array of a known device \[.*\], got {type(thing).__name__}"
        ):
            backend_of(thing)

    def test_meta_arrays_are_known_from_the_start(self):
        script = (
            "from sknet import Tensor; from sknet.device import MetaArray; import numpy as np\n"
            "x = Tensor(MetaArray((2, 3), np.float32)); assert str(x.device) == 'meta'\n"
            "import sys; Tensor([1.0]).to('cpu'); assert not {'cupy', 'cupyx'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", script], check=True)

    def test_round_trip(self, fake_device):
        x = np.arange(3.0)
        there = to_device(x, fake_device)
        assert device_of(there) == fake_device
        assert to_device(there, fake_device) is there
        other = to_device(there, Device("fake", 1))
        assert device_of(other) == Device("fake", 1)
        np.testing.assert_array_equal(to_host(other), x)
        matrix = scipy.sparse.csr_array(np.eye(2))
        there = to_device(matrix, fake_device)
        assert backend_of(there).is_sparse(there)
        np.testing.assert_array_equal(to_host(there).toarray(), np.eye(2))

    def test_are_created_on_the_device(self, fake_device):
        for device in (Device("cpu"), fake_device, Device("fake", 1), Device("meta")):
            owner = backend(device.kind)
            for make in (owner.empty, owner.zeros, owner.ones):
                made = make((2, 3), "float32", device)
                assert (made.shape, made.dtype, device_of(made)) == ((2, 3), "float32", device)
            full = owner.full((2, 3), 1.5, "float32", device)
            assert (full.shape, full.dtype, device_of(full)) == ((2, 3), "float32", device)
        assert to_host(owner_ones := backend("fake").ones((2,), "float64", fake_device)).tolist() == [
            1.0,
            1.0,
        ]
        assert owner_ones.index == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("length", [1, 5])
def test_rows_are_added_one_after_the_other(dtype, length):
    """Bitwise identical to NumPy, also for a transposed matrix."""
    rng = np.random.default_rng(0)
    values, rows = (10 * rng.standard_normal((length, 300))).astype(dtype).T, rng.integers(0, 20, 300)
    expected = np.ones((20, length), dtype)
    found = expected.copy()
    np.add.at(expected, rows, values)
    backend("cpu").xp.add_rows_at(found, rows, values)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["cpu", "fake", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", ["erf", "erfc", "expit", "logit", "xlogy"])
def test_special_functions_have_the_dtypes_of_scipys(kind, name, fake_device):
    owner, theirs = backend(kind), getattr(scipy.special, name)
    for dtypes in itertools.product("?hlefd", repeat=theirs.nin):
        operands = [np.array([0, 1, 0.5]).astype(dtype) for dtype in dtypes]
        expected = theirs(*operands)
        found = getattr(owner.xp, name)(*(owner.from_host(x, Device(kind)) for x in operands))
        assert found.dtype == expected.dtype, dtypes
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-6, err_msg=str(dtypes))


def test_a_kind_can_be_registered_again():
    class Mine:
        def __init__(self, values):
            self.values = values

    class MyBackend(Backend):
        kind = "mine"
        xp = np
        array_type = Mine

        def from_host(self, array, device):
            return Mine(array)

        def to_host(self, array):
            return array.values

    loads = []
    register("mine", lambda: loads.append(1) or MyBackend())
    first = backend("mine")
    assert backend("mine") is first
    assert loads == [1]
    assert backend_of(Mine(np.ones(1))) is first
    register("mine", MyBackend)
    assert not is_array(Mine(np.ones(1)))  # until it is loaded
    second = backend("mine")
    assert second is not first
    assert backend_of(Mine(np.ones(1))) is second
    assert to_host(to_device(np.ones(1), Device("mine"))).tolist() == [1.0]


class TestMeta:
    def test_shape_and_dtype(self):
        x = MetaArray((2, 3), "float32")
        assert (x.ndim, x.size, x.nbytes, repr(x)) == (2, 6, 24, "MetaArray((2, 3), float32)")
        assert x.astype("float64").dtype == "float64"
        assert MetaArray((), "int8").nbytes == 1

    def test_has_no_data(self):
        message = r"a meta array has no data: got shape \(2,\) on device 'meta'; compute on a real device"
        for read in (np.asarray, to_host, lambda x: np.add(np.ones(2), x)):
            with pytest.raises(DeviceError, match=message):
                read(MetaArray((2,), "float32"))

    def test_its_namespace_computes_nothing(self):
        xp = namespace(MetaArray((2,), "float32"))
        with pytest.raises(
            DeviceError, match="'exp' needs data, but a meta array has only a shape and a dtype"
        ):
            xp.exp(MetaArray((2,), "float32"))


@pytest.mark.parametrize("kind", ["cpu", "fake", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_namespace_has_every_function_that_rules_call(kind):
    xp = backend(kind).xp
    names = [name for name in get_type_hints(Namespace) if name != "linalg"]
    forwards = [p.forward for p in PRIMITIVES.values() if isinstance(p.forward, str)]
    missing = [name for name in (*names, *forwards) if not callable(getattr(xp, name, None))]
    missing += [f"linalg.{name}" for name in get_type_hints(LinearAlgebra) if not hasattr(xp.linalg, name)]
    assert not missing
