"""Devices: the backend of each, NumPy's for the host, dtypes of tensors, and reproducible random numbers."""

import math
import os
import re
import stat
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial, wraps
from types import SimpleNamespace
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from sknet._config import lease_setting
from sknet._constraints import shown
from sknet._frames import are_indices
from sknet._hints import suggestion
from sknet._late import SPECIAL_FUNCTIONS, above, cached_property, issparse, sparsetools, special
from sknet._native import core
from sknet._parallel import Lock, in_threads, small_limit
from sknet._random import RandomSnapshot, is_plain
from sknet._warnings import warn_caller
from sknet.device._products import Form
from sknet.exceptions import DeviceError, DeviceMemoryError, DtypeError

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt


FLOAT_DTYPES = ("float32", "float64")
SINGLE, DOUBLE = map(np.dtype, FLOAT_DTYPES)


def is_floating(dtype: Any) -> bool:
    """Tell whether gradients can flow through arrays of this dtype."""
    return bool(np.dtype(dtype).kind == "f")


def check_float_dtype(dtype: Any, *, where: str) -> np.dtype[Any]:
    """Return the dtype to compute in."""
    try:
        found: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
    except TypeError:
        found = None
    if found is SINGLE or found is DOUBLE:  # their names take longer
        return found
    if found is None or found.name not in FLOAT_DTYPES:
        raise DtypeError(f"the dtype of {where} must be one of {list(FLOAT_DTYPES)}, got {shown(dtype)}")
    return SINGLE if found.name == SINGLE.name else DOUBLE  # in this machine's order of bytes


def result_dtype(*operands: Any) -> np.dtype[Any]:
    """Return NumPy's result dtype for `operands`: arrays and weakly typed Python scalars."""
    return np.result_type(*(x if isinstance(x, (bool, int, float)) else x.dtype for x in operands))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return `np.broadcast_shapes`, which takes long, without calling it for shapes that are the same."""
    several = {*shapes} - {()}
    return np.broadcast_shapes(*several) if len(several) > 1 else several.pop() if several else ()


# -- precision of products --------------------------------------------------------------------

# Of float32 arrays: with 10 and 7 bits of the fraction, and by three products of 10 bits with nearly all.
ROUNDED = ("tf32", "bfloat16", "tf32x3")
PRECISIONS = (*FLOAT_DTYPES, *ROUNDED)

_present: ContextVar[str] = ContextVar("precision of products of float32 on devices", default="float32")


def arrays_in(dtype: str) -> str:
    """Return the name of the dtype that arrays have in a precision."""
    return "float32" if dtype in ROUNDED else dtype


def check_precision(dtype: Any, *, where: str) -> tuple[np.dtype[Any], str]:
    """Return the dtype of arrays, and the precision of their products on devices."""
    for name in ROUNDED:
        if isinstance(dtype, str) and dtype == name:
            return SINGLE, name
    try:
        found = check_float_dtype(dtype, where=where)
    except DtypeError:
        raise DtypeError(
            f"the dtype of {where} must be one of {list(PRECISIONS)}, got {shown(dtype)}"
        ) from None
    return found, "float64" if found is DOUBLE else "float32"


def product_precision() -> str:
    """Return the precision of products of float32 arrays that are computed on devices here and now."""
    return _present.get()


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Let products of float32 arrays on devices have a precision, in this thread."""
    if precision not in PRECISIONS:
        raise DtypeError(
            f"the precision of products must be one of {list(PRECISIONS)}, got {shown(precision)}"
        )
    token = _present.set("float32" if precision == "float64" else precision)
    try:
        yield
    finally:
        _present.reset(token)


# -- devices ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Device:
    """Device that holds arrays: a kind and, if there are several devices of a kind, an index.

    Parameters
    ----------
    kind : str
        ``"cpu"``, ``"cuda"`` or ``"meta"`` (shapes and dtypes without data).
    index : int, default=0
        Index among the devices of its kind.

    Examples
    --------
    >>> from sknet.core import Device
    >>> Device.parse("cuda:1")
    Device(kind='cuda', index=1)
    >>> str(Device("cpu"))
    'cpu'
    """

    kind: str
    index: int = 0

    @classmethod
    def parse(cls, spec: "str | Device") -> "Device":
        """Read a spec, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"meta"``; a Device passes through."""
        if isinstance(spec, cls):
            return spec
        if isinstance(spec, str) and spec == "cpu":
            return cls("cpu")
        match = re.fullmatch(r"([a-z]+)(?::(\d+))?", spec) if isinstance(spec, str) else None
        if match is None:
            raise DeviceError(f"a device must be 'cpu', 'cuda', 'cuda:<index>' or 'meta', got {shown(spec)}")
        return cls(match[1], int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.kind not in ("cpu", "meta") else self.kind


# -- functions of array libraries -------------------------------------------------------------

Function = Callable[..., Any]


class LinearAlgebra(Protocol):
    """Equations and decompositions: ``linalg`` of an array namespace."""

    cholesky: Function
    det: Function
    eigh: Function
    inv: Function
    pinv: Function
    qr: Function
    slogdet: Function
    solve: Function
    svd: Function


class Namespace(Protocol):
    """The functions of every backend's ``xp``; a rule that uses only these runs on every device.

    The functions are NumPy's, with ``out=`` where NumPy has it. ``add_rows_at`` adds rows to rows of a matrix
    whose numbers may repeat; ``expit`` and `xlogy` are SciPy's. ``native_passes`` returns native code for
    what NumPy makes in many passes, or None, and ``may_be_native`` tells whether there ever is any.
    ``in_threads(work, count, rooms)`` calls ``work(i, room)`` for each i below count, on the host several at
    a time, each with one of the rooms. ``small_products`` returns up to how many multiplications a product
    takes no copies of its factors.
    """

    linalg: LinearAlgebra
    absolute: Function
    add: Function
    add_rows_at: Function
    all: Function
    any: Function
    arange: Function
    argsort: Function
    asarray: Function
    broadcast_to: Function
    check_indices: Function
    clip: Function
    concatenate: Function
    copyto: Function
    cumsum: Function
    divide: Function
    empty: Function
    empty_like: Function
    equal: Function
    exp: Function
    expit: Function
    flip: Function
    full: Function
    in_threads: Function
    isfinite: Function
    isinf: Function
    isnan: Function
    log: Function
    log1p: Function
    matmul: Function
    max: Function
    may_be_native: Function
    maximum: Function
    min: Function
    minimum: Function
    moveaxis: Function
    multiply: Function
    native_passes: Function
    negative: Function
    nonzero: Function
    ones: Function
    ones_like: Function
    partition: Function
    searchsorted: Function
    small_products: Function
    sort: Function
    sqrt: Function
    squeeze: Function
    stack: Function
    subtract: Function
    sum: Function
    swapaxes: Function
    take: Function
    take_along_axis: Function
    tanh: Function
    unique: Function
    vdot: Function
    where: Function
    xlogy: Function
    zeros: Function
    zeros_like: Function


# -- copies to a device -----------------------------------------------------------------------


class Transfers:
    """Copies to a device that need not be done when the next line runs; here they are.

    Work on a device is ordered by marks: what `mark` and `send` return stands for all work until then.
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError("copies to a device cannot be pickled or copied")

    def __init__(self, from_host: Callable[[np.ndarray], Any]) -> None:
        self._from_host = from_host

    def memory(self, nbytes: int) -> np.ndarray:
        """Return memory of the host to copy from, page-locked if the device's driver permits."""
        return np.empty(nbytes, np.uint8)

    def mark(self) -> Any:
        """Return a mark after all that the current stream was given to compute."""
        return None

    def send(self, sources: Sequence[np.ndarray], targets: Sequence[Any], after: Any) -> Any:
        """Begin to copy host arrays to C-contiguous arrays of the device."""
        for source, target in zip(sources, targets, strict=True):
            target[...] = self._from_host(source)

    def follow(self, mark: Any) -> None:
        """Make later work of the current stream wait for a mark."""

    def wait(self, mark: Any) -> None:
        """Let the host wait for a mark."""

    def finish(self) -> None:
        """Let the host wait for all copies; errors of a device that is lost are ignored."""


class StreamTransfers(Transfers):
    """Copies on a stream of their own, by CuPy; events are the marks."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)  # else it waits for the default stream

    def memory(self, nbytes: int) -> np.ndarray:
        try:
            memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        except self._cupy.cuda.runtime.CUDARuntimeError:  # the system locks no more pages
            return np.empty(nbytes, np.uint8)
        return np.frombuffer(memory, np.uint8, nbytes)

    def mark(self) -> Any:
        return self._marked(self._cupy.cuda.get_current_stream())

    def send(self, sources: Sequence[np.ndarray], targets: Sequence[Any], after: Any) -> Any:
        self._stream.wait_event(after)
        for source, target in zip(sources, targets, strict=True):
            target.set(source, stream=self._stream)
        return self._marked(self._stream)

    def _marked(self, stream: Any) -> Any:
        return stream.record(self._cupy.cuda.Event(disable_timing=True))

    def follow(self, mark: Any) -> None:
        self._cupy.cuda.get_current_stream().wait_event(mark)

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def finish(self) -> None:
        with suppress(self._cupy.cuda.runtime.CUDARuntimeError):
            self._stream.synchronize()


class Branch:
    """Work that may run beside what is issued after it; by default it runs at once."""

    def run(self, number: int, work: Callable[[], None]) -> None:
        """Issue work after all that was issued before; it gets a number."""
        work()

    def join(self, number: int) -> None:
        """Make later work wait for the work of a number."""


class StreamBranch(Branch):
    """Work on a stream of its own, by CuPy; also while the current stream is captured."""

    def __init__(self, cupy: Any) -> None:
        self._cupy, self._done = cupy, dict[int, Any]()
        self._stream = cupy.cuda.Stream(non_blocking=True)

    def run(self, number: int, work: Callable[[], None]) -> None:
        self._stream.wait_event(self._marked(self._cupy.cuda.get_current_stream()))
        with self._stream:
            work()
        self._done[number] = self._marked(self._stream)

    def join(self, number: int) -> None:
        self._cupy.cuda.get_current_stream().wait_event(self._done[number])

    def _marked(self, stream: Any) -> Any:
        return stream.record(self._cupy.cuda.Event(disable_timing=True))


# -- backends ---------------------------------------------------------------------------------

Kernel = Callable[[tuple[int, ...], tuple[int, ...], tuple[Any, ...]], Any]


class Backend(ABC):
    """The interface of a kind of device to the rest of sknet.

    A backend is one object per kind. Its ``xp`` is an array namespace with NumPy's function names,
    and `out=` where NumPy has it; everything above this layer is written against ``xp``. In addition, it has
    some special functions by SciPy's names; ``add_rows_at(out, rows, values)``, which adds ``values[i]`` to
    row ``rows[i]`` of a contiguous matrix; and ``check_indices(indices, length)``, which raises an
    IndexError for integers that are negative or too large, on devices where that needs no synchronisation;
    and what computes on the host may use: native code, and threads, see `Namespace`.
    """

    kind: str
    xp: Namespace
    alignment: int = 256
    """Alignment, in bytes, of arrays that share a block of memory."""
    memory_errors: tuple[type[Exception], ...] = (DeviceMemoryError,)
    """What is raised if no memory is left: by sknet, and by the device's library."""

    @property
    @abstractmethod
    def array_type(self) -> type:
        """The class of this device's arrays."""

    @abstractmethod
    def from_host(self, array: Any, device: Device) -> Any:
        """Copy a NumPy array (or a SciPy CSR array) to `device`; on the CPU without a copy."""

    @abstractmethod
    def to_host(self, array: Any) -> Any:
        """Return the array as a NumPy array (or a SciPy CSR array)."""

    def device_of(self, array: Any) -> Device:
        return Device(self.kind)

    def check(self, device: Device) -> None:
        """Raise DeviceError if `device` does not exist here; by default, there is one of each kind."""
        if device.index:
            raise DeviceError(
                f"device '{self.kind}:{device.index}' requested, but there is only one '{self.kind}' device"
            )

    def activate(self, device: Device) -> AbstractContextManager[Any]:
        """Make `device` current: new arrays of ``xp`` are made there."""
        return nullcontext()

    @contextmanager
    def asking(self, device: Device, what: Callable[[], str] | None = None) -> Iterator[None]:
        """Make errors of memory on `device` say ``what()`` asked for how much, and what to lower."""
        try:
            yield
        except self.memory_errors as error:
            known = error if isinstance(error, DeviceMemoryError) else DeviceMemoryError()
            if what is None and known is error:
                raise
            found = DeviceMemoryError()
            found.asked = ([what()] if what is not None else []) + known.asked
            found.__cause__ = error.__cause__ if known is error else error
            found.args = (_out_of_memory(device, found, self.free_memory(device)),)
            raise found from found.__cause__

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device) -> Any:
        """Return an array with arbitrary content, of a `shape` and `dtype`, on `device`."""
        with self.activate(device), self._asking(device, shape, dtype):
            return self.xp.empty(shape, dtype=dtype)

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device) -> Any:
        """Return zeros of a `shape` and `dtype`, on `device`."""
        with self.activate(device), self._asking(device, shape, dtype):
            return self.xp.zeros(shape, dtype=dtype)

    def ones(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device) -> Any:
        """Return ones of a `shape` and `dtype`, on `device`."""
        with self.activate(device), self._asking(device, shape, dtype):
            return self.xp.ones(shape, dtype=dtype)

    def full(self, shape: tuple[int, ...], value: float, dtype: DTypeLike, device: Device) -> Any:
        """Return an array full of `value`, of a `shape` and `dtype`, on `device`."""
        with self.activate(device), self._asking(device, shape, dtype):
            return self.xp.full(shape, value, dtype=dtype)

    def _asking(
        self, device: Device, shape: tuple[int, ...], dtype: DTypeLike
    ) -> AbstractContextManager[None]:
        if len(self.memory_errors) == 1:  # the host's own error says all
            return nullcontext()
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return self.asking(device, lambda: f"an array of shape {tuple(shape)} takes {nbytes:,} bytes")

    def free_memory(self, device: Device) -> int:
        """Return how many bytes of memory are free on `device`."""
        raise DeviceError(f"device '{device}' does not report how much memory is free")

    def identity(self, device: Device) -> str | None:
        """Return what names `device` on this machine, in each process; None if no process leases it."""
        return None

    def free_unused(self, device: Device) -> None:
        """Give memory that is kept for later arrays back to `device`, for other processes."""

    def is_aligned(self, array: Any, nbytes: int = 16) -> bool:
        """Tell whether an array begins at a multiple of some bytes: 16 are the most that a thread loads."""
        raise NotImplementedError  # only where kernels are compiled

    def is_plain(self, array: Any, writeable: bool = True) -> bool:
        """Tell whether `array` is C-contiguous, and writeable if `writeable` is true."""
        return bool(array.flags.c_contiguous)

    def memory(self, nbytes: int, device: Device) -> Any:
        """Return `nbytes` uninitialized, aligned bytes on `device`, to be divided among arrays."""
        return self.empty((nbytes,), np.uint8, device)

    def shared_memory(self, device: Device) -> int:
        """Return how many bytes the threads of a block may share on `device`; 0 if a kernel cannot ask."""
        return 0

    def blocks_of_cluster(self, device: Device) -> int:
        """Return how many blocks may be a cluster on `device`, which share memory; 1 if it has none."""
        return 1

    def kernels(self, source: str, names: Sequence[str], device: Device, shared: int = 0) -> "list[Kernel]":
        """Compile a module of CUDA C, `source`, for `device`; return its kernels of these `names`.

        Each is called as ``kernel(grid, block, args)``, with two tuples of int and the arrays
        whose addresses it is given; it is launched on the current stream. Products and sums are
        rounded one by one (no fused multiply-add), so that kernels give the bits of single calls. Blocks
        have so many bytes of `shared` memory, the array that a kernel declares as ``extern __shared__``.
        """
        raise DeviceError(f"device '{device}' cannot compile kernels")

    def finishes(self, form: Form, parts: Sequence[str]) -> bool:
        """Tell whether products of a `form` on the current device can have an `Ending` of these `parts`.

        The form's precision counts (`Form.in_precision`). If so, they can also have a term. Arrays must then
        begin at multiples of 16 bytes.
        """
        return False

    def products(self, precision: str = "float32") -> "Callable[..., Callable[[], Any]]":
        """Return a function of `x`, `y` and `out` that returns what computes ``matmul(x, y, out=out)``.

        Factors of float32 may be rounded as a `precision` says (see `products_in`).

        A fourth argument is an `Ending` of parts for which `finishes` is true. Arrays of the current device
        are read and written where they are then. What one function has returned may share memory to work
        in, so such products must run one after the other.
        """
        return self._product

    def _product(self, x: Any, y: Any, out: Any) -> Callable[[], Any]:
        return partial(self.xp.matmul, x, y, out=out)

    def captured(self, work: Callable[[], None], device: Device) -> Callable[[], None]:
        """Return a function that repeats the work issued by `work` on `device`, as one graph on the stream.

        `work` is called once, and nothing is computed then. It must have run before, and ask for no memory.
        """
        raise DeviceError(f"device '{device}' has no graphs")

    def branch(self) -> Branch:
        """Return what issues work beside that of the current device's stream."""
        return Branch()

    def transfers(self, device: Device) -> Transfers:
        """Return what copies from the host to `device`, which is current, beside what it computes."""
        return Transfers(partial(self.from_host, device=device))

    def is_sparse(self, array: Any) -> bool:
        """Tell whether `array` is a sparse matrix of this device."""
        return False


_backends: dict[str, Backend] = {}
_by_type: dict[type, Backend] = {}
_loaders: dict[str, Any] = {}


def register(kind: str, loader: Any) -> None:
    """Register a kind of device; `loader()` returns its backend on first use."""
    _loaders[kind] = loader
    former = _backends.pop(kind, None)
    for array_type in [t for t, owner in _by_type.items() if owner is former]:
        del _by_type[array_type]


def _out_of_memory(device: Device, error: DeviceMemoryError, free: int) -> str:
    asked = f": {', '.join(error.asked)}" if error.asked else ""
    return (
        f"device '{device}' is out of memory{asked}; {free:,} bytes are free. Lower batch_size, or use a "
        f"smaller network or dtype='float32' ({error.__cause__})"
    )


def backend(kind: str) -> Backend:
    """Return the backend of a kind of device, loading it if necessary."""
    if kind not in _backends:
        if kind not in _loaders:
            hint = suggestion(kind, _loaders, dict.fromkeys(("gpu", "nvidia", "GPU", "CUDA"), "use 'cuda'"))
            raise DeviceError(f"unknown device {shown(kind)}: expected one of {sorted(_loaders)}{hint}")
        loaded = _loaders[kind]()
        _backends[kind] = _by_type[loaded.array_type] = loaded
    return _backends[kind]


def available(spec: "str | Device") -> Device:
    """Return the device that `spec` names, after checking that it exists here."""
    device = Device.parse(spec)
    backend(device.kind).check(device)
    return device


def _load_owner(array: Any) -> "Backend | None":
    """Find the backend of an array of a new type, without importing anything."""
    kind = type(array)
    for name in _loaders:
        known = _backends.get(name)
        if known is None and kind.__module__.split(".")[0] == getattr(_loaders[name], "package", None):
            known = backend(name)
        if known is not None and (isinstance(array, known.array_type) or known.is_sparse(array)):
            _by_type[kind] = known
            return known
    return None


def backend_of(array: Any) -> Backend:
    found = _by_type.get(type(array)) or _load_owner(array)
    if found is None:
        raise TypeError(f"expected an array of a known device {sorted(_loaders)}, got {type(array).__name__}")
    return found


def is_array(obj: Any) -> bool:
    """Tell whether `obj` is an array of a known device."""
    return type(obj) in _by_type or _load_owner(obj) is not None


def device_of(array: Any) -> Device:
    return backend_of(array).device_of(array)


def namespace(array: Any) -> Namespace:
    """Return the array namespace (``numpy``, ``cupy``, ...) that computes with `array`."""
    return backend_of(array).xp


def to_host(array: Any) -> Any:
    """Return `array` as a NumPy array, without a copy if it already is one."""
    return array if type(array) is np.ndarray else backend_of(array).to_host(array)


def to_device(array: Any, device: Device) -> Any:
    """Return `array` on `device`, without a copy if it is there already."""
    if (type(array) is np.ndarray and device.kind == "cpu") or device_of(array) == device:
        return array
    return backend(device.kind).from_host(to_host(array), device)


# -- the meta device --------------------------------------------------------------------------

META = Device("meta")


class MetaArray:
    """An array without data, with the shape and dtype of a real one."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape = tuple(map(int, shape))
        self.dtype = np.dtype(dtype)
        self.device = META

    def __reduce__(self) -> Any:
        return type(self), (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the data would need."""
        return self.size * self.dtype.itemsize

    def astype(self, dtype: DTypeLike) -> "MetaArray":
        """Return an array of this shape and another `dtype`."""
        return MetaArray(self.shape, dtype)

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise DeviceError(
            f"a meta array has no data: got shape {self.shape} on device 'meta'; compute on a real device"
        )


class _MetaNamespace:
    """Only functions that create arrays: operations on meta arrays run the primitives' shape rules."""

    empty = zeros = ones = staticmethod(lambda shape, dtype=float: MetaArray(shape, dtype))
    full = staticmethod(lambda shape, value, dtype: MetaArray(shape, dtype))

    def __getattr__(self, name: str) -> Any:
        raise DeviceError(f"{name!r} needs data, but a meta array has only a shape and a dtype")


class MetaBackend(Backend):
    """Arrays without data."""

    kind = "meta"
    package = "sknet"
    array_type = MetaArray

    def __init__(self) -> None:
        self.xp = cast(Namespace, _MetaNamespace())

    def from_host(self, array: Any, device: Device) -> MetaArray:
        return MetaArray(array.shape, array.dtype)

    def device_of(self, array: Any) -> Device:
        return array.device

    def to_host(self, array: Any) -> np.ndarray:
        return array.__array__()


register("meta", MetaBackend)


# -- the current device -----------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner", bound=Any)


ALWAYS = nullcontext()  # the host, which is always current


def active(device: Device, precision: str | None = None) -> AbstractContextManager[Any]:
    """Make a device current, so that it is the GPU that computes."""
    if device.kind == "cpu":
        return ALWAYS
    owner = backend(device.kind)
    return owner.activate(device) if len(owner.memory_errors) == 1 else _computing(owner, device, precision)


@contextmanager
def _computing(owner: Backend, device: Device, precision: str | None) -> Iterator[None]:
    """Make a device current, and errors of its memory say what to lower."""
    products = nullcontext() if precision is None else products_in(precision)
    with owner.activate(device), products, owner.asking(device):
        yield


def on_device(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Let a method run with its object's `device` current, and products in its `precision`, if it has one."""

    @wraps(method)
    def placed(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.device.kind == "cpu":  # the only one; a context manager would slow down small steps
            return method(self, *args, **kwargs)
        with active(self.device, getattr(self, "precision", None)):
            return method(self, *args, **kwargs)

    return placed


def _add_rows_at(out: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Add values[i] to out[rows[i]] for every i in turn; `rows` must be valid and not negative."""
    if out.dtype.char in "fd":
        # The product of a sparse matrix of ones with the values: many times as fast as np.add.at.
        count = rows.size
        ones, starts = np.ones(count, out.dtype), np.arange(count + 1)
        shape = (*out.shape[:1], count, *out.shape[1:])
        sparsetools().csc_matvecs(*shape, starts, rows, ones, values.reshape(-1), out.reshape(-1))
    else:
        np.add.at(out, rows, values)


def _native_passes() -> Any:
    """Return native code that replaces many passes of NumPy; None if there is none."""
    return above("native_passes")()


def _may_be_native() -> bool:
    """Tell whether this installation has native code, however it is set."""
    return core() is not None


def check_indices(indices: Any, length: int) -> None:
    """Raise an IndexError for an integer that is negative, or not below `length`."""
    if not are_indices(indices, length):
        wrong = indices[(indices < 0) | (indices >= length)].reshape(-1)[0]
        raise IndexError(
            f"index {wrong} is out of bounds for {length} elements: indices start at 0, and negative ones do "
            "not count from the end here"
        )


BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return `np.where`; with zeros as y, by a product of x's bits with 0 or 1, up to 20 times faster."""
    if type(y) is float and y == 0 and type(x) is np.ndarray and condition.dtype == bool:
        bits = BITS.get(x.dtype)
        if bits is not None and math.copysign(1.0, y) == 1.0:
            return np.multiply(x.view(bits), condition).view(x.dtype)
    return np.where(condition, x, y)


def expit(x: Any, out: Any = None) -> Any:
    """Return 1 / (1 + exp(-x)): NumPy's exponential is vectorized, SciPy's function is not."""
    if x.dtype.char not in "fd":
        return special("expit")(x) if out is None else special("expit")(x, out=out)
    out = np.empty_like(x) if out is None else out
    with np.errstate(over="ignore", under="ignore"):  # it is 0 where the exponential is infinite
        np.negative(x, out=out)
        np.exp(out, out=out)
        np.add(out, 1, out=out)
        return np.divide(1, out, out=out)


class _Functions(SimpleNamespace):
    """NumPy's functions, and those of SciPy that are loaded when they are first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in SPECIAL_FUNCTIONS:
            raise AttributeError(f"arrays of NumPy have no function {name!r}")
        function = special(name)
        setattr(self, name, function)
        return function


HOST = Device("cpu")


class NumpyBackend(Backend):
    """Arrays in the host's memory."""

    kind = "cpu"
    array_type = np.ndarray
    alignment = 64  # a cache line

    def __init__(self) -> None:
        functions = {name: getattr(np, name) for name in np.__all__}
        # The ufuncs' own reductions: np.sum and friends add a microsecond of dispatch on top.
        reductions = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce}
        own: dict[str, Any] = {"where": where, "expit": expit, "add_rows_at": _add_rows_at}
        own |= {"check_indices": check_indices, "in_threads": in_threads}
        own |= {"native_passes": _native_passes, "may_be_native": _may_be_native}
        own |= {"small_products": small_limit}
        self.xp = cast(Namespace, _Functions(**functions | reductions | own))

    def device_of(self, array: Any) -> Device:
        return HOST

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike, device: Device) -> Any:
        return np.zeros(shape, dtype)  # nothing is to be activated, and NumPy's error says all

    def from_host(self, array: Any, device: Device) -> Any:
        return array

    def to_host(self, array: Any) -> Any:
        return array

    def is_aligned(self, array: Any, nbytes: int = 16) -> bool:
        """Tell whether an array begins at a multiple of some bytes: 16 are the most that a thread loads."""
        raise NotImplementedError  # only where kernels are compiled

    def is_plain(self, array: Any, writeable: bool = True) -> bool:
        if type(array) is not np.ndarray:
            return False
        flags = array.flags
        return flags.c_contiguous and flags.aligned and (flags.writeable or not writeable)

    def memory(self, nbytes: int, device: Device) -> Any:
        memory = np.empty(nbytes + self.alignment, np.uint8)
        start = -memory.ctypes.data % self.alignment
        return memory[start : start + nbytes]

    def is_sparse(self, array: Any) -> bool:
        return issparse(array)


register("cpu", NumpyBackend)
backend("cpu")  # NumPy is there already: its arrays, and SciPy's, are known before anything computes


Key = tuple[int, int]


def stream_key(random_state: np.random.RandomState) -> Key:
    """Derive a Philox key from a RandomState without advancing it.

    The state decides initial weights and permutations in scikit-learn's order, so in-step draws
    must not consume from it; a copy is drawn from instead.
    """
    return Stream(random_state).key


class Stream:
    """A Philox key: the one given, or that of a RandomState as it is now, derived when it is first read."""

    def __init__(self, source: "np.random.RandomState | Key") -> None:
        if isinstance(source, tuple):
            self.key = source
        else:
            self._state: Any = RandomSnapshot(source) if is_plain(source) else deepcopy(source)

    def __getstate__(self) -> dict[str, Key]:
        return {"key": self.key}

    @cached_property
    def key(self) -> Key:
        """The key; few networks draw random numbers, and need it."""
        state = self._state
        twin = state.twin() if isinstance(state, RandomSnapshot) else deepcopy(state)
        low, high = twin.randint(0, 2**63, size=2, dtype=np.int64)
        return int(low), int(high)


AT_ONCE = 1 << 14  # numbers that are drawn at once: their bits stay in the cache


def philox_uniform(
    key: Key,
    step: int,
    site: int,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    out: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Draw multiples of 2**-16 in [0, 1) that depend only on the arguments, into `out` without gaps.

    Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with
    the counter (block, 0, site, step): a repeated step draws the same. Dropping needs no more bits.
    """
    bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, site, step], np.uint64))
    draws: np.ndarray[Any, Any] = np.empty(shape, dtype) if out is None else out
    flat = draws.reshape(-1)
    for start in range(0, flat.size, AT_ONCE):
        piece = flat[start : start + AT_ONCE]
        words: Any = bits.random_raw(-(-piece.size // 4)).astype("<u8", copy=False).view("<u2")
        np.multiply(words[: piece.size], 2.0**-16, out=piece, dtype=piece.dtype)
    return draws


# -- leases: of the worker processes of one parent, one at a time trains on a device -----------------------

PAUSE = 0.005  # seconds between two looks at whether a lease is free
NO_LEASE = (
    "no lease of device '{device}' can be had ({error}): workers train on it beside each other. Let the "
    "environment variable XDG_RUNTIME_DIR name a folder on this machine that only you can read and write, or "
    "set SKNET_LEASE=never"
)
NONE_NEEDED = nullcontext()


def leased(device: Device, poll: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a context in which this process has a device to itself, as far as its siblings are concerned.

    Only processes that another one has started by multiprocessing, as workers of joblib, Dask and
    concurrent.futures are, wait for each other, and only those of the same parent. Threads of a process
    share its lease. A process that has the lease of another device does not wait for this one: two that do
    might wait for each other.
    """
    if device.kind == "cpu":
        return NONE_NEEDED
    lease = _lease_of(device)
    return NONE_NEEDED if lease is None else _held(lease, poll)


@contextmanager
def _held(lease: "_Lease", poll: Callable[[], None]) -> Iterator[None]:
    holder = object()
    try:
        while not lease.take(holder) and not any(each.is_held for each in _leases.values()):
            poll()
            time.sleep(PAUSE)
        yield
    finally:
        lease.give_back(holder)


class _Lease:
    """The lease of one device, of which the threads of this process hold a share each."""

    def __init__(self, device: Device, name: str, place: int) -> None:
        self._device, self._name, self._place = device, name, place
        self._guard, self._holders = Lock(), set[object]()
        self._file: int | None = None
        self._is_lost = False  # there is no lock to be had

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def take(self, holder: object) -> bool:
        """Take a share of the lease, if another process does not have it; return whether it is there."""
        with self._guard:
            self._holders.add(holder)
            if self._file is None and not self._is_lost:
                try:
                    self._file = _locked(self._name, self._place)
                except OSError as error:
                    self._is_lost = True
                    message = NO_LEASE.format(device=self._device, error=error)
                    warn_caller(message, UserWarning)
            is_there = self._file is not None or self._is_lost
            if not is_there:
                self._holders.discard(holder)
            return is_there

    def give_back(self, holder: object) -> None:
        """Give a share back, if it has been taken; others can have the lease after the last one."""
        with self._guard:
            self._holders.discard(holder)
            if self._file is not None and not self._holders:
                try:
                    backend(self._device.kind).free_unused(self._device)  # for the next process
                finally:
                    os.close(self._file)
                    self._file = None


_leases: dict[tuple[str, int], _Lease] = {}  # by name and place
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leases.clear)  # a lock of bytes does not pass to a child


def _lease_of(device: Device) -> _Lease | None:
    """Return the lease of a device; None if this process needs none to train there."""
    place = _parent()
    if place is None or lease_setting() == "never":
        return None
    name = _name_of(device)
    if name is None:
        return None
    return _leases.setdefault((name, place), _Lease(device, name, place))


@cache
def _name_of(device: Device) -> str | None:
    return backend(device.kind).identity(device)


def _parent() -> int | None:
    """Return the id of the process for which this one works; None if this is no worker."""
    processes = sys.modules.get("multiprocessing.process")  # workers have loaded it
    parent = None if processes is None else processes.parent_process()
    return None if parent is None else parent.pid


# -- files ----------------------------------------------------------------------------------------


def _locked(name: str, place: int) -> int | None:
    """Return a file of which one byte is locked, until it is closed; None if another process has it."""
    file = os.open(os.path.join(_folder(), f"{name}.lease"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file, place)
    except (BlockingIOError, PermissionError):  # what a held lock is told as
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file


# A lock of bytes is the process's own: one that is forked meanwhile, and lives longer, does not have it.
if sys.platform == "win32":

    def _lock(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:

    def _lock(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)


def _folder() -> str:
    """Return a folder on this machine that is this user's own; it is created if missing."""
    of_system = os.environ.get("XDG_RUNTIME_DIR", "")
    user = str(os.getuid()) if sys.platform != "win32" else "user"  # whose temporary folder is his own
    if os.path.isabs(of_system) and os.path.isdir(of_system):
        return _own(os.path.join(of_system, "sknet"))
    return _own(os.path.join(tempfile.gettempdir(), f"sknet-{user}"))


def _own(path: str) -> str:
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if sys.platform != "win32":
        status = os.lstat(path)
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & 0o077:
            raise OSError(f"{path} is not a folder that only this user can read and write")
    return path
