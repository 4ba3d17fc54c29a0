"""CUDA devices: CuPy arrays. CuPy is imported when such a device is requested, never before."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np

from sknet._late import SPECIAL_FUNCTIONS, SpecialFunction, installing, issparse
from sknet._parallel import Lock
from sknet.device._backend import (
    Backend,
    Device,
    Kernel,
    Namespace,
    StreamBranch,
    StreamTransfers,
    product_precision,
    register,
)
from sknet.device._products import (
    HALVES,
    NO_ENDING,
    Ending,
    Form,
    Library,
    Products,
    algorithms_of,
    library,
    multiplied,
)
from sknet.exceptions import DeviceError, DeviceMemoryError

# -- graphs -----------------------------------------------------------------------------------

_lock = Lock()  # what another thread frees or synchronises can break a capture


class Graph:
    """A graph to be launched on the current stream; it keeps the memory that its work uses."""

    def __init__(self, graph: Any, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        self._graph.launch()


def captured(cupy: Any, work: Callable[[], None], device: Device) -> Graph:
    """Return a graph of all that `work` issues, as `Backend.captured` says."""
    if cupy.cuda.get_current_stream().is_capturing():
        raise DeviceError(f"work on device '{device}' cannot be captured: the current stream is, by its user")
    try:
        with _lock:
            return Graph(_recorded(cupy, work), work)
    except Exception as error:  # whatever CuPy, CUDA or the work refuses: it can be launched as it is
        raise DeviceError(f"work on device '{device}' cannot be captured: {error}") from error


def _recorded(cupy: Any, work: Callable[[], None]) -> Any:
    stream = cupy.cuda.Stream(non_blocking=True)  # the default stream cannot be captured
    with stream, cupy.cuda.using_allocator(_refuse):
        stream.begin_capture()
        try:
            work()
        except BaseException:
            with suppress(cupy.cuda.runtime.CUDARuntimeError):
                stream.end_capture()
            raise
        return stream.end_capture()


def _refuse(nbytes: int) -> NoReturn:
    """Allocate nothing: the memory would be free again before the graph is launched."""
    raise DeviceError(f"it asks for {nbytes:,} bytes of memory")


# -- the backend ------------------------------------------------------------------------------

OLDEST = 14  # the major version of CuPy; CuPy 13 refuses `matmul` of vectors with `out=`
INSTALL = f"install CuPy with {installing('cuda12')} or {installing('cuda13')}, or use device='cpu'"

FORKED = (
    "this process was forked from one that has used CUDA, which a fork cannot go on with: start processes by "
    "multiprocessing's 'spawn' or joblib's 'loky', or fork before device='cuda' is used"
)

KERNEL_OPTIONS = ("--fmad=false",)  # of NVRTC, in addition to CuPy's own

# The most bytes that products work in, from compute capability 9.0 on and before: as in PyTorch.
WORKSPACE, WORKSPACE_BEFORE = 32 << 20, 4 << 20

REDUCTIONS = ("all", "any", "argmax", "argmin", "max", "min", "prod", "sum")


def _reduction(function: Callable[..., Any], takes_out: bool) -> Callable[..., Any]:
    """Return one of CuPy's reductions with an `out=` that is written as NumPy writes it."""

    @wraps(function)
    def reduced(x: Any, *args: Any, out: Any = None, **options: Any) -> Any:
        if out is None:
            return function(x, *args, **options)
        if takes_out and (x.flags.c_contiguous or not x.flags.f_contiguous):
            return function(x, *args, out=out, **options)
        out[...] = function(x, *args, **options)
        return out

    return reduced


def _special(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of CuPy's special functions, with results of SciPy's dtypes."""
    resolve_dtypes = SpecialFunction(name).resolve_dtypes

    @wraps(function)
    def computed(*operands: Any, out: Any = None) -> Any:
        dtypes = [x.dtype for x in operands]
        if dtypes[0].kind != "f" or dtypes[-1] != dtypes[0]:
            dtypes = resolve_dtypes((*dtypes, None))
            operands = tuple(x.astype(to, copy=False) for x, to in zip(operands, dtypes[:-1], strict=True))
        return function(*operands, out=out)

    return computed


def _check_nothing(indices: Any, length: int) -> None:
    """Do nothing: a check would synchronise with the device."""


def _never_native() -> bool:
    return False


def _no_small_products() -> int:
    return 0


def _no_native_passes() -> None:
    """Do nothing: native code is for the host."""


def _one_by_one(work: Callable[[int, Any], None], count: int, rooms: Any) -> None:
    for i in range(count):
        work(i, rooms[0])


def _add_rows_at(cupy: Any, out: Any, rows: Any, values: Any) -> None:
    if (
        out.dtype == np.int64
    ):  # CUDA has atomic addition for unsigned integers only, which gives the same bits
        out, values = out.view(np.uint64), values.astype(np.int64, copy=False).view(np.uint64)
    cupy.add.at(out, rows, values)


def _solve(cupy: Any, x: Any, y: Any) -> Any:
    """Solve systems of equations; of CuPy's own function all axes before the matrices must be equal."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (cupy.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, y))
    return cupy.linalg.solve(x, y)


def _public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


def array_functions(cupy: Any, special: Any, matmul: Callable[..., Any]) -> Namespace:
    """Return the functions of CuPy, and of its module of special functions, as rules call them."""
    functions = _public(cupy)
    functions |= {name: _special(name, getattr(special, name)) for name in SPECIAL_FUNCTIONS}
    functions |= {name: _reduction(functions[name], name != "min") for name in REDUCTIONS}
    linalg = SimpleNamespace(**_public(cupy.linalg) | {"solve": partial(_solve, cupy)})
    functions["matmul"] = matmul
    own = {"add_rows_at": partial(_add_rows_at, cupy), "check_indices": _check_nothing, "linalg": linalg}
    own |= {"native_passes": _no_native_passes, "may_be_native": _never_native, "in_threads": _one_by_one}
    own |= {"small_products": _no_small_products}
    return cast(Namespace, SimpleNamespace(**functions | own))


class CupyBackend(Backend):
    """Arrays in the memory of CUDA devices."""

    kind = "cuda"

    def __init__(self) -> None:
        try:
            import cupy
            import cupyx.scipy.sparse
            import cupyx.scipy.special
        except ImportError as error:
            raise DeviceError(
                f"device 'cuda' needs CuPy, which cannot be imported ({error}): {INSTALL}"
            ) from error
        if int(cupy.__version__.partition(".")[0]) < OLDEST:
            raise DeviceError(
                f"device 'cuda' needs CuPy {OLDEST} or later, and CuPy {cupy.__version__} is installed: "
                f"{INSTALL}"
            )
        self._cupy, self._process = cupy, os.getpid()
        self._sparse = cupyx.scipy.sparse
        self._lt_libraries: dict[int, Library] = {}  # by device
        self.memory_errors = (DeviceMemoryError, cupy.cuda.memory.OutOfMemoryError)
        self.xp = array_functions(cupy, cupyx.scipy.special, self._matmul)

    @property
    def array_type(self) -> type:
        return self._cupy.ndarray

    def check(self, device: Device) -> None:
        self._check_process()
        try:
            count = self._cupy.cuda.runtime.getDeviceCount()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(
                f"device '{device}' requested, but there is no usable GPU here ({error})"
            ) from error
        if device.index >= count:
            raise DeviceError(f"device '{device}' requested, but there are only {count} CUDA devices here")

    def _check_process(self) -> None:
        """Raise a DeviceError after a fork, where CUDA's own error does not say what is wrong."""
        if os.getpid() != self._process:
            raise DeviceError(FORKED)

    def from_host(self, array: Any, device: Device) -> Any:
        self.check(device)
        array = array if issparse(array) else np.asarray(array)
        with self.activate(device), self._asking(device, array.shape, array.dtype):
            if issparse(array):
                return self._sparse.csr_matrix(array.tocsr())
            return self._cupy.asarray(array)

    def to_host(self, array: Any) -> np.ndarray:
        return array.get()

    def device_of(self, array: Any) -> Device:
        values = array.data if self.is_sparse(array) else array
        return Device(self.kind, values.device.id)

    def activate(self, device: Device) -> AbstractContextManager[Any]:
        self._check_process()
        return self._cupy.cuda.Device(device.index)

    def free_memory(self, device: Device) -> int:
        with self.activate(device):
            unused = self._cupy.get_default_memory_pool().free_bytes()
            return int(self._cupy.cuda.runtime.memGetInfo()[0]) + int(unused)

    def identity(self, device: Device) -> str | None:
        # A part of a GPU has a number of its own, in the place of the whole.
        known = self._cupy.cuda.runtime.getDeviceProperties(device.index)
        place = "-".join(f"{known[name]:x}" for name in ("pciDomainID", "pciBusID", "pciDeviceID"))
        return f"{self.kind}-{place}-{known['uuid'][:16].hex()}"

    def free_unused(self, device: Device) -> None:
        with self.activate(device):
            self._cupy.get_default_memory_pool().free_all_blocks()

    def is_aligned(self, array: Any, nbytes: int = 16) -> bool:
        return array.data.ptr % nbytes == 0

    def shared_memory(self, device: Device) -> int:
        return int(self._cupy.cuda.Device(device.index).attributes["MaxSharedMemoryPerBlockOptin"])

    def blocks_of_cluster(self, device: Device) -> int:
        return 8 if int(self._cupy.cuda.Device(device.index).compute_capability) >= 90 else 1

    def kernels(self, source: str, names: Sequence[str], device: Device, shared: int = 0) -> list[Kernel]:
        # CuPy caches compiled code on disk, by source and options.
        with self.activate(device):
            module = self._cupy.RawModule(code=source, options=KERNEL_OPTIONS, backend="nvrtc")
            found = [module.get_function(name) for name in names]
            if not shared:
                return found
            for kernel in found:
                kernel.max_dynamic_shared_size_bytes = shared
            return [partial(kernel, shared_mem=shared) for kernel in found]

    def finishes(self, form: Form, parts: Sequence[str]) -> bool:
        on_device = self._lt_library()
        return on_device is not None and self._lt_products(on_device).takes(form, parts)

    def products(self, precision: str = "float32") -> Callable[..., Callable[[], Any]]:
        on_device = self._lt_library()
        if on_device is None:
            return super().products(precision)
        made = self._lt_products(on_device, precision)

        def product(x: Any, y: Any, out: Any, ending: Ending | None = None) -> Callable[[], Any]:
            if ending is None and precision == HALVES:  # CuPy would multiply the integers
                return made.finished(x, y, out, NO_ENDING)
            if ending is None:
                return made.prepared(x, y, out, NO_ENDING) or self._product(x, y, out)
            return made.finished(x, y, out, ending)

        return product

    def _lt_products(self, on_device: Library, precision: str = "float32") -> Products:
        return Products(on_device, self._bytes, self._stream_address, precision)

    def _matmul(self, x: Any, y: Any, out: Any = None) -> Any:
        """Multiply as CuPy does, but in the present precision, if cuBLASLt does that."""
        precision, on_device = product_precision(), None
        if precision != "float32" and x.dtype == y.dtype == np.float32 and x.ndim + y.ndim > 2:
            on_device = self._lt_library()
        if on_device is not None:
            result = multiplied(self._cupy, self._lt_products(on_device, precision), x, y, out)
            if result is not None:
                return result
        return self._cupy.matmul(x, y) if out is None else self._cupy.matmul(x, y, out=out)

    def _lt_library(self) -> Library | None:
        """Return cuBLASLt on the current device; None if it is not installed."""
        functions = library(self._cupy.cuda.runtime.runtimeGetVersion() // 1000)
        if functions is None:
            return None
        here = self._cupy.cuda.Device()
        if here.id not in self._lt_libraries:
            most = WORKSPACE if int(here.compute_capability) >= 90 else WORKSPACE_BEFORE
            measured = algorithms_of(f"{here.compute_capability}, {functions.cublasLtGetVersion()}")
            self._lt_libraries[here.id] = Library(functions, most, measured)
        return self._lt_libraries[here.id]

    def _bytes(self, nbytes: int) -> Any:
        return self.empty((nbytes,), np.uint8, Device(self.kind, self._cupy.cuda.Device().id))

    def _stream_address(self) -> int:
        return self._cupy.cuda.get_current_stream().ptr

    def captured(self, work: Callable[[], None], device: Device) -> Callable[[], None]:
        with self.activate(device):
            return captured(self._cupy, work, device)

    def branch(self) -> StreamBranch:
        return StreamBranch(self._cupy)

    def transfers(self, device: Device) -> StreamTransfers:
        with self.activate(device):
            return StreamTransfers(self._cupy)

    def is_sparse(self, array: Any) -> bool:
        return bool(self._sparse.issparse(array))


class _Loader:
    """Loads CuPy on demand; `package` lets arrays of an already imported CuPy be recognized."""

    package = "cupy"

    def __call__(self) -> CupyBackend:
        return CupyBackend()


register("cuda", _Loader())
