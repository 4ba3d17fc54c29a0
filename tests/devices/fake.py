"""A fake device for tests: arrays with their own memory, which NumPy cannot read, as on a GPU.

Code that runs on it uses only a backend's namespace. It is as strict as CuPy: host arrays and device arrays
do not mix, arrays of two devices do not mix, a kernel runs only on the current device, and a call that CuPy
would refuse is refused (`signatures`). Kernels in CUDA C are run thread by thread (`kernels`), and slow
operations on a GPU are counted (`counted`): allocations, and copies to the host.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from sknet.compile._compile import forget_programs
from sknet.device import (
    HALVES,
    Backend,
    Branch,
    Device,
    Ending,
    Form,
    Transfers,
    backend,
    product_precision,
    register,
)
from sknet.device._cupy import array_functions
from sknet.exceptions import DeviceError, DeviceMemoryError
from tests.devices import kernels, signatures
from tests.devices.counting import COUNTS
from tests.devices.counting import counted as counted
from tests.devices.finished import finish, finish_halves
from tests.devices.rounding import BITS, rounded

N_DEVICES = 2
FREE_MEMORY = 1 << 20  # bytes
_current: ContextVar[int] = ContextVar("current fake device", default=0)


class FakeOutOfMemoryError(MemoryError):
    """What the allocator raises, as CuPy's does."""


_left: ContextVar[int | None] = ContextVar("allocations that succeed", default=None)


@contextmanager
def allocating(most: int) -> Iterator[None]:
    """Let only so many allocations succeed; the next one raises, and so do those after it."""
    token = _left.set(most)
    try:
        yield
    finally:
        _left.reset(token)


class CaptureRefusedError(RuntimeError):
    """What a CUDA graph cannot hold: memory that is allocated, or a copy to or from the host."""


_is_capturing: ContextVar[bool] = ContextVar("work is captured", default=False)


@contextmanager
def capturing() -> Iterator[None]:
    """Refuse what a CUDA graph cannot hold; but products are taken, although CuPy cannot capture its own."""
    token = _is_capturing.set(True)
    try:
        yield
    finally:
        _is_capturing.reset(token)


_is_idle: ContextVar[bool] = ContextVar("nothing is computed", default=False)


@contextmanager
def idle() -> Iterator[None]:
    """Count calls of kernels, and of functions with `out=`, that compute nothing."""
    token = _is_idle.set(True)
    try:
        yield
    finally:
        _is_idle.reset(token)


_is_finishing: ContextVar[bool] = ContextVar("products can be finished", default=True)


@contextmanager
def plain_products() -> Iterator[None]:
    """Let programs that are compiled meanwhile have a launch of its own for each product."""
    token = _is_finishing.set(False)
    forget_programs()
    try:
        yield
    finally:
        _is_finishing.reset(token)
        forget_programs()


_shared_memory: ContextVar[tuple[int, int]] = ContextVar(
    "bytes that threads of a block may share, and blocks of a cluster", default=(0, 1)
)


@contextmanager
def sharing(most: int, blocks: int = 1) -> Iterator[None]:
    """Let kernels that are compiled meanwhile have as much shared memory; so steps can be persistent."""
    token = _shared_memory.set((most, blocks))
    try:
        yield
    finally:
        _shared_memory.reset(token)


def _count(what: str) -> None:
    if what in ("allocations", "reads") and _is_capturing.get():
        raise CaptureRefusedError(f"{what} are refused while work is captured")
    left = _left.get()
    if what == "allocations" and left is not None:
        if not left:
            raise FakeOutOfMemoryError("Out of memory allocating some bytes (allocated so far: others)")
        _left.set(left - 1)
    for counts in COUNTS:
        setattr(counts, what, getattr(counts, what) + 1)


def _count_bytes(*given: Any) -> None:
    if COUNTS:
        sizes = {(x._values.ctypes.data, x.shape): x.nbytes for x in _arrays(given)}
        for counts in COUNTS:
            counts.nbytes += sum(sizes.values())


class FakeArray:
    """An array of the fake device, which only the backend's `to_host` can read."""

    __slots__ = ("__weakref__", "_values", "index")
    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, values: np.ndarray, index: int) -> None:
        self._values = np.asarray(values)  # NumPy's results without axes may be scalars
        self.index = index

    shape = property(lambda self: self._values.shape)
    ndim = property(lambda self: self._values.ndim)
    dtype = property(lambda self: self._values.dtype)
    size = property(lambda self: self._values.size)
    nbytes = property(lambda self: self._values.nbytes)
    flags = property(lambda self: self._values.flags)
    strides = property(lambda self: self._values.strides)
    T = property(lambda self: self.transpose())
    base = property(lambda self: self._values)  # through which views of one memory are recognized

    # The methods have the parameters of CuPy's; tests/devices/test_signatures.py compares them.
    # -- views, which run no kernel -----------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C") -> "FakeArray":
        return FakeArray(self._values.reshape(*shape, order=order), self.index)

    def transpose(self, *axes: Any) -> "FakeArray":
        return FakeArray(self._values.transpose(*axes), self.index)

    def view(self, dtype: Any = None, type: Any = None) -> "FakeArray":
        return FakeArray(self._values.view(self.dtype if dtype is None else dtype), self.index)

    def ravel(self, order: str = "C") -> "FakeArray":
        return FakeArray(self._values.ravel(order), self.index)

    # -- kernels ------------------------------------------------------------------------------

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
    ) -> "FakeArray":
        return _launch(np.ndarray.astype, self, dtype, order, casting or "unsafe", copy=copy)

    def copy(self, order: str = "C") -> "FakeArray":
        return _launch(np.ndarray.copy, self, order)

    def fill(self, value: Any) -> None:
        _launch(np.ndarray.fill, self, value)

    def item(self) -> Any:
        return _launch(np.ndarray.item, self)

    def take(self, indices: Any, axis: Any = None, out: Any = None) -> "FakeArray":
        """Take elements; indices wrap around, as in CuPy."""
        return _METHODS["take"](self, indices, axis, out)

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        if not self._values.flags.c_contiguous:
            raise NotImplementedError("Sorting non-contiguous array is not supported.")
        _launch(np.ndarray.sort, self, axis)

    def dot(self, b: Any, out: Any = None) -> "FakeArray":
        return _METHODS["dot"](self, b, out)

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> "FakeArray":
        return _METHODS["sum"](self, axis, dtype, out, keepdims)

    def all(self, axis: Any = None, out: Any = None, keepdims: Any = False) -> "FakeArray":
        return _METHODS["all"](self, axis, out, keepdims)

    def any(self, axis: Any = None, out: Any = None, keepdims: Any = False) -> "FakeArray":
        return _METHODS["any"](self, axis, out, keepdims)

    def __getitem__(self, index: Any) -> "FakeArray":
        return _launch(np.ndarray.__getitem__, self, _plain(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, FakeArray) and _is_same_memory(self._values[_plain(index)], value._values):
            return  # as in CuPy, even if the dtypes differ
        _launch(np.ndarray.__setitem__, self, _plain(index), value)

    def __len__(self) -> int:
        return len(self._values)

    def __deepcopy__(self, memo: Any) -> "FakeArray":
        return FakeArray(self._values.copy(), self.index)

    def __reduce__(self) -> Any:
        raise TypeError("a fake array does not pickle: move it to the host first")

    def __repr__(self) -> str:
        return f"FakeArray({self.shape}, {self.dtype}, index={self.index})"


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise TypeError("Implicit conversion to a NumPy array is not allowed: use to_host")


for _name in ("__array__", "__array_function__", "__float__", "__int__", "__bool__", "__index__", "__iter__"):
    setattr(FakeArray, _name, _refuse)


def _plain(index: Any) -> Any:
    """Replace the arrays in an index by their values; host arrays are allowed there, as in CuPy."""
    parts = index if isinstance(index, tuple) else (index,)
    values = tuple(x._values if isinstance(x, FakeArray) else x for x in parts)
    return values if isinstance(index, tuple) else values[0]


def _is_same_memory(part: np.ndarray, values: np.ndarray) -> bool:
    """Tell whether elements at the same places have the same addresses."""
    mine, theirs = part.__array_interface__, values.__array_interface__
    return (mine["data"], part.shape, part.strides) == (theirs["data"], values.shape, values.strides)


def _check_place(values: Iterable[Any], here: int) -> None:
    """Raise unless all arrays in some arguments are on a device, and on the current one."""
    for value in values:
        kind = type(value)
        if kind is FakeArray:
            if value.index != here:
                raise ValueError(f"an array on device {value.index}, current device is {here}")
        elif kind is tuple or kind is list:
            _check_place(value, here)
        elif isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {kind}: a host array does not mix with arrays of a device")


def _arrays(values: Iterable[Any]) -> Iterator[FakeArray]:
    for value in values:
        if type(value) is FakeArray:
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _arrays(value)


def _opened(value: Any) -> Any:
    kind = type(value)
    if kind is FakeArray:
        return value._values
    return kind(map(_opened, value)) if kind is tuple or kind is list else value


def _launch(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a kernel: all arrays must be on the current device, and so are the results."""
    is_index = function is np.ndarray.__getitem__ or function is np.ndarray.__setitem__
    given = (args[0], *args[2:]) if is_index else args  # not the index, which holds plain arrays
    here = _current.get()
    _check_place(given, here)
    _check_place(kwargs.values(), here)
    opened = [_opened(value) for value in given]
    if is_index:
        opened.insert(1, args[1])
    result = function(*opened, **{key: _opened(value) for key, value in kwargs.items()})
    is_view = function is np.ndarray.__getitem__ and np.may_share_memory(result, args[0]._values)
    if not is_view:
        _count("reads" if function is np.ndarray.item else "launches")
        _count_bytes(*given, *kwargs.values())
    if kwargs.get("out") is not None:
        return kwargs["out"]
    if isinstance(result, tuple):
        _count("allocations")
        return tuple(FakeArray(part, here) for part in result)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    values = itertools.chain(given, kwargs.values())
    if not any(np.may_share_memory(result, array._values) for array in _arrays(values)):
        _count("allocations")
    return FakeArray(np.asarray(result), here)


# With `out=`, too, CuPy takes memory for these from its pool (for some layouts of the operand only).
WORKING = {"all", "any", "argmax", "argmin", "max", "min", "prod", "sum", "vdot"}


def _do_nothing(*args: Any, **kwargs: Any) -> None:
    pass


class _Function:
    """A function as CuPy has it, computed by NumPy's; ufuncs have `at` as well."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__ = name.rpartition(".")[2]
        self._function = function
        self._check = signatures.check(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        dtypes = self._check(args, kwargs)
        out = kwargs.get("out")
        if dtypes is not None and out is not None:
            for x in args:  # CuPy copies an operand that shares memory with `out`, but for `out` itself
                if type(x) is FakeArray and x is not out and np.may_share_memory(x._values, out._values):
                    _count("allocations")
        is_vector = self.__name__ == "matmul" and args[0].ndim == args[1].ndim == 1
        if out is not None and (self.__name__ in WORKING or is_vector):
            _count("allocations")
        idle = out is not None and _is_idle.get()
        result = _launch(_do_nothing if idle else self._function, *args, **kwargs)
        if dtypes is None or out is not None or result.dtype == dtypes[0]:
            return result
        return FakeArray(result._values.astype(dtypes[0]), result.index)

    def at(self, array: FakeArray, index: Any, values: Any) -> None:
        letters = signatures.SCATTERED[f"cupy.{self.__name__}.at"]
        if array.dtype.char not in letters:
            raise TypeError(f"cupy.{self.__name__}.at only supports {letters}, not {array.dtype}")
        _launch(lambda a, v: self._function.at(a, _plain(index), v), array, values)


def _asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False
) -> FakeArray:
    """Copy from the host, as CuPy does, or return an array of this device."""
    if isinstance(a, FakeArray):
        return a if dtype is None else a.astype(dtype, copy=False)
    _count("allocations")
    return FakeArray(np.array(a, dtype=dtype), _current.get())


def _functions_of(package: str, numpys: Any) -> SimpleNamespace:
    """Return the functions of a package whose signatures are recorded and which a module on NumPy has."""
    names = [name for name in signatures.names() if name.rpartition(".")[0] == package]
    pairs = [(name, getattr(numpys, name.rpartition(".")[2], None)) for name in names]
    found = {name.rpartition(".")[2]: _Function(name, function) for name, function in pairs if function}
    return SimpleNamespace(**found)


def _solve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Solve systems of equations; CuPy broadcasts nothing."""
    if x.shape[:-1] != y.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K) for multidimensional b")
    return np.linalg.solve(x, y)


class _Namespace(SimpleNamespace):
    """What the fake device has in place of CuPy."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(signatures.missing(f"cupy.{name}"))


_linalg = vars(_functions_of("cupy.linalg", np.linalg)) | {"solve": _Function("cupy.linalg.solve", _solve)}
_own = {"asarray": _asarray, "linalg": SimpleNamespace(**_linalg)}
cupy = _Namespace(**vars(_functions_of("cupy", np)) | _own)
# The sigmoid is that of the host, so that whole calls have its bits.
special = _functions_of(
    "cupyx.scipy.special", SimpleNamespace(**vars(scipy.special) | {"expit": backend("cpu").xp.expit})
)
_METHODS = {
    name: _Function(f"cupy.ndarray.{name}", function)
    for name, function in {
        **{name: getattr(np, name) for name in ("all", "any", "dot", "sum")},
        "take": partial(np.take, mode="wrap"),
    }.items()
}


def _operator(ufunc: np.ufunc, how: str) -> Callable[..., Any]:
    function = _Function(f"cupy.{ufunc.__name__}", ufunc)

    def reads(self: Any, *others: Any) -> Any:
        operands = (*others, self) if how == "reflected" else (self, *others)
        if not all(isinstance(x, (FakeArray, np.ndarray, np.generic, int, float)) for x in operands):
            return NotImplemented
        return function(*operands, **({"out": self} if how == "in place" else {}))

    return reads


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
    "matmul": np.matmul,
}.items():  # fmt: skip
    setattr(FakeArray, f"__{_name}__", _operator(_ufunc, "plain"))
    setattr(FakeArray, f"__r{_name}__", _operator(_ufunc, "reflected"))
    setattr(FakeArray, f"__i{_name}__", _operator(_ufunc, "in place"))
for _name, _ufunc in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal, "neg": np.negative, "abs": np.absolute, "invert": np.invert, "and": np.bitwise_and,
    "or": np.bitwise_or,
}.items():  # fmt: skip
    setattr(FakeArray, f"__{_name}__", _operator(_ufunc, "plain"))


def _bits_of(x: FakeArray, y: FakeArray, precision: str) -> int | None:
    """Return how many bits of the fraction the factors of a product keep; None for all. It is counted."""
    if precision == HALVES:
        for counts in COUNTS:
            counts.precisions[precision] += 1
        return None
    if not x.dtype == y.dtype == np.float32:
        return None
    shape = (x.shape[-2:-1] or (1,), y.shape[-1:] if y.ndim > 1 else (1,))
    if shape == ((1,), (1,)):
        precision = "float32"
    for counts in COUNTS:
        counts.precisions[precision] += 1
    return BITS.get(precision)


def _multiplied(x: Any, y: Any, out: Any, precision: str) -> Any:
    if precision == HALVES:
        _bits_of(x, y, precision)
        return _launch(_do_nothing if _is_idle.get() else finish_halves, x, y, out, None, None, (), 0.0)
    bits = _bits_of(x, y, precision)
    if bits is not None and not _is_idle.get():
        _check_place((x, y, out), _current.get())
        x, y = (FakeArray(rounded(each._values, bits), each.index) for each in (x, y))
    return cupy.matmul(x, y) if out is None else cupy.matmul(x, y, out=out)


class FakeCSR:
    """A sparse matrix of the fake device."""

    def __init__(self, matrix: Any, index: int) -> None:
        self._matrix = matrix
        self.index = index

    shape = property(lambda self: self._matrix.shape)
    ndim = property(lambda self: self._matrix.ndim)
    dtype = property(lambda self: self._matrix.dtype)
    data = property(lambda self: FakeArray(self._matrix.data, self.index))
    T = property(lambda self: FakeCSR(self._matrix.T, self.index))

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, FakeArray):
            return NotImplemented
        return _launch(lambda values: self._matrix @ values, other)

    def astype(self, dtype: Any) -> "FakeCSR":
        return FakeCSR(self._matrix.astype(dtype), self.index)

    def __getitem__(self, index: Any) -> "FakeCSR":
        return FakeCSR(self._matrix[_plain(index)], self.index)


class FakeTransfers(Transfers):
    """Copies that come as late as a GPU could make them: when somebody waits for them. Marks number them."""

    def __init__(self) -> None:
        self._waiting: list[tuple[FakeArray, np.ndarray]] = []
        self._done = 0

    def mark(self) -> int:
        return 0  # what is computed is done

    def send(self, sources: Sequence[np.ndarray], targets: Sequence[FakeArray], after: int) -> int:
        if _is_capturing.get():
            raise CaptureRefusedError("copies from the host are refused while work is captured")
        for source, target in zip(sources, targets, strict=True):
            if source.dtype != target.dtype or source.shape != target.shape:
                raise TypeError(f"{source.dtype} {source.shape} cannot be sent as it is to {target}")
            if not target.flags.c_contiguous or not source.flags.c_contiguous:
                raise RuntimeError("only contiguous arrays can be sent")
            self._waiting.append((target, source))
            for counts in COUNTS:
                counts.sent, counts.sent_bytes = counts.sent + 1, counts.sent_bytes + source.nbytes
        return self._done + len(self._waiting)

    def follow(self, mark: int) -> None:
        while self._done < mark:
            target, source = self._waiting.pop(0)
            target._values[...] = source
            self._done += 1

    def wait(self, mark: int) -> None:
        self.follow(mark)

    def finish(self) -> None:
        self.follow(self._done + len(self._waiting))


class LateBranch(Branch):
    """Work that runs as late as it may: when something waits for it."""

    def __init__(self) -> None:
        self._works: dict[int, Callable[[], None]] = {}

    def run(self, number: int, work: Callable[[], None]) -> None:
        self._works[number] = work

    def join(self, number: int) -> None:
        while number in self._works:  # with what came before
            self._works.pop(next(iter(self._works)))()


class FakeBackend(Backend):
    """Two devices of kind ``"fake"``."""

    kind = "fake"
    package = __name__.split(".")[0]
    array_type = FakeArray
    memory_errors = (DeviceMemoryError, FakeOutOfMemoryError)

    def __init__(self) -> None:
        self.xp = _Namespace(**vars(array_functions(cupy, special, self._matmul)))

    def _matmul(self, x: Any, y: Any, out: Any = None) -> Any:
        return _multiplied(x, y, out, product_precision())

    def check(self, device: Device) -> None:
        if device.index >= N_DEVICES:
            raise DeviceError(f"device '{device}' requested, but there are only {N_DEVICES} fake devices")

    def from_host(self, array: Any, device: Device) -> Any:
        self.check(device)
        if scipy.sparse.issparse(array):
            return FakeCSR(array.tocsr().copy(), device.index)
        with self._asking(device, np.shape(array), np.asarray(array).dtype):
            _count("allocations")
        return FakeArray(np.array(array), device.index)

    def to_host(self, array: Any) -> Any:
        _count("reads")
        return (array._matrix if isinstance(array, FakeCSR) else array._values).copy()

    def device_of(self, array: Any) -> Device:
        return Device(self.kind, array.index)

    def is_aligned(self, array: Any, nbytes: int = 16) -> bool:
        return array._values.ctypes.data % nbytes == 0

    @contextmanager
    def activate(self, device: Device) -> Iterator[None]:
        token = _current.set(device.index)
        try:
            yield
        finally:
            _current.reset(token)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device) -> FakeArray:
        with self._asking(device, shape, dtype):
            _count("allocations")
        return FakeArray(kernels.guarded(shape, dtype), device.index)

    def zeros(self, shape: tuple[int, ...], dtype: Any, device: Device) -> FakeArray:
        array = self.empty(shape, dtype, device)
        array._values[...] = 0
        return array

    def free_memory(self, device: Device) -> int:
        return FREE_MEMORY

    def identity(self, device: Device) -> str:
        return f"fake-{device.index}"

    def free_unused(self, device: Device) -> None:
        _count("returns")

    def shared_memory(self, device: Device) -> int:
        return _shared_memory.get()[0]

    def blocks_of_cluster(self, device: Device) -> int:
        return _shared_memory.get()[1]

    def kernels(
        self, source: str, names: Sequence[str], device: Device, shared: int = 0
    ) -> list[Callable[..., None]]:
        def on_device(run: Callable[..., None]) -> Callable[..., None]:
            def launch(grid: tuple[int, ...], block: tuple[int, ...], args: tuple[FakeArray, ...]) -> None:
                _count("kernels")
                _launch(_do_nothing if _is_idle.get() else lambda *arrays: run(grid, block, arrays), *args)

            return launch

        return [on_device(run) for run in kernels.compiled(source, names, shared)]

    def finishes(self, form: Form, parts: Sequence[str]) -> bool:
        return _is_finishing.get()

    def products(self, precision: str = "float32") -> Callable[..., Callable[[], Any]]:
        def product(x: Any, y: Any, out: Any, ending: Ending | None = None) -> Callable[[], Any]:
            if ending is None:
                return lambda: _multiplied(x, y, out, precision)
            parts, vector, term, factor = ending
            arrays = x, y, out, vector, term

            def finished() -> None:
                bits = _bits_of(x, y, precision)
                work = partial(finish, bits=bits) if precision != HALVES else finish_halves
                _launch(_do_nothing if _is_idle.get() else work, *arrays, parts, factor)

            return finished

        return product

    def branch(self) -> "LateBranch":
        return LateBranch()

    def transfers(self, device: Device) -> FakeTransfers:
        return FakeTransfers()

    def is_sparse(self, array: Any) -> bool:
        return isinstance(array, FakeCSR)


register("fake", FakeBackend)
