"""The CPU: NumPy arrays, SciPy's CSR for sparse input."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from sknet._arrays import are_indices
from sknet._late import SPECIAL_FUNCTIONS, above, issparse, sparsetools, special
from sknet._native import core
from sknet.device._backend import Backend, Device, Namespace, backend, register

__all__ = ["NumpyBackend"]


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
    """Return native code for what NumPy makes in many passes; None if there is none."""
    return above("native_passes")()


def _may_be_native() -> bool:
    """Tell whether this installation has native code, however it is set."""
    return core() is not None


def _in_threads(work: Callable[[int, Any], None], count: int, rooms: Any) -> None:
    """Call a function with each number below `count`, in threads, which few processes need."""
    from sknet._parallel import in_threads

    in_threads(work, count, rooms)


def _small_products() -> int:
    """Return up to how many multiplications BLAS uses kernels for small matrices; 0 if it has none."""
    from sknet._parallel import small_limit

    return small_limit()


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
        own |= {"check_indices": check_indices, "in_threads": _in_threads}
        own |= {"native_passes": _native_passes, "may_be_native": _may_be_native}
        own |= {"small_products": _small_products}
        self.xp = cast(Namespace, _Functions(**functions | reductions | own))

    def device_of(self, array: Any) -> Device:
        return HOST

    def from_host(self, array: Any, device: Device) -> Any:
        return array

    def to_host(self, array: Any) -> Any:
        return array

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
