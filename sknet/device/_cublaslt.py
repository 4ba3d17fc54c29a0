"""Matrix products by cuBLASLt, called through ctypes: into given arrays, without asking for memory.

CuPy's calls of cuBLAS cannot be captured in a CUDA graph; these can. The numbers of attributes and values are
those of cublasLt.h, which CUDA 12 and 13 share. To cuBLASLt a matrix in rows is the transpose of one in
columns, so the factors change places.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

from sknet.device._products import Form, Matrices, form_of
from sknet.exceptions import DeviceError

__all__ = ["Library", "Products", "library"]

ALIGNMENT = 256  # of addresses, in bytes; more is of no use
OF_BATCH, OF_BATCH_STRIDE = 5, 6  # attributes of a matrix
TRANSPOSES = 3, 4  # attributes of a product
OF_WORKSPACE, OF_ALIGNMENTS = 1, (5, 6, 7, 8)  # attributes of a search
TRANSPOSED = 1
NOT_SUPPORTED = 15
STATUS = {
    1: "not initialized", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch",
    11: "mapping error", 13: "execution failed", 14: "internal error", NOT_SUPPORTED: "not supported",
}  # fmt: skip


class Kind(NamedTuple):
    """The number of a dtype, that of the type to compute in, and the type of scalars in C."""

    dtype: int
    compute: int
    scalar: Any


def _kind(dtype: str) -> Kind | None:
    """Return how products of a dtype are computed: strictly in it, unless CuPy's CUPY_TF32 asks for TF32."""
    if dtype == "float64":
        return Kind(1, 70, ctypes.c_double)
    if dtype == "float32":
        return Kind(0, 77 if int(os.environ.get("CUPY_TF32", "0")) else 68, ctypes.c_float)
    return None


class Found(ctypes.Structure):
    """What the heuristic finds: an algorithm, and the bytes that it works in."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


# -- the library ------------------------------------------------------------------------------


@cache
def library(major: int) -> ctypes.CDLL | None:
    """Return the library for a version of CUDA, which CuPy's cuBLAS has loaded; None if there is none."""
    name = f"cublasLt64_{major}.dll" if sys.platform == "win32" else f"libcublasLt.so.{major}"
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


class Chosen(NamedTuple):
    """How products of one form are computed.

    Attributes
    ----------
    descriptors : list
        Of the product, of its factors as cuBLASLt takes them, and of the result.
    found : Found
        The algorithm.
    scalars : tuple
        One and zero, by which product and former content are multiplied.
    """

    descriptors: list[ctypes.c_void_p]
    found: Found
    scalars: tuple[Any, Any]


class Library:
    """cuBLASLt on one device.

    Parameters
    ----------
    functions : ctypes.CDLL
        The library.
    most_workspace : int
        The most bytes that a product may work in.

    Raises
    ------
    DeviceError
        If the library cannot be used here; the current device is the one that it is used for.
    """

    def __init__(self, functions: ctypes.CDLL, most_workspace: int) -> None:
        self._functions, self._most = functions, most_workspace
        self._handle = self._made("", "a handle")  # never destroyed: that can break a running capture
        self._chosen: dict[Any, Chosen | None] = {}

    def call(self, name: str, said: object, *args: Any) -> None:
        """Call a function, and raise an error that says what for if it fails."""
        status = getattr(self._functions, f"cublasLt{name}")(*args)
        if status:
            raise DeviceError(
                f"cublasLt{name} failed for {said}: status {status} ({STATUS.get(status, 'unknown')})"
            )

    def _made(self, kind: str, said: object, *args: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(f"{kind}Create", said, ctypes.byref(made), *args)
        return made

    def _set(self, kind: str, said: object, made: ctypes.c_void_p, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.call(f"{kind}SetAttribute", said, made, attribute, ctypes.byref(value), size)

    def chosen(self, form: Form, at: list[int]) -> Chosen | None:
        """Return how to multiply, which is decided once for each form; None if there is no algorithm.

        `at` are the addresses of factors and result, as cuBLASLt takes them.
        """
        kind = _kind(form.dtype)
        if kind is None:
            return None
        aligned = tuple(min(address & -address, ALIGNMENT) for address in at)
        key = form, kind, aligned
        if key not in self._chosen:
            of = self._descriptors(form, kind)
            found = self._search(form, of, aligned)
            scalars = kind.scalar(1), kind.scalar(0)
            self._chosen[key] = None if found is None else Chosen(of, found, scalars)
        return self._chosen[key]

    def _descriptors(self, form: Form, kind: Kind) -> list[ctypes.c_void_p]:
        product = self._made("MatmulDesc", form, kind.compute, kind.dtype)
        for attribute, factor in zip(TRANSPOSES, (form.y, form.x), strict=True):
            if not factor.in_rows:
                self._set("MatmulDesc", form, product, attribute, ctypes.c_int(TRANSPOSED))
        return [product, *[self._layout(each, form, kind) for each in (form.y, form.x, form.out)]]

    def _layout(self, each: Matrices, form: Form, kind: Kind) -> ctypes.c_void_p:
        neighbours, lines = (each.columns, each.rows) if each.in_rows else (each.rows, each.columns)
        sizes = ctypes.c_uint64(neighbours), ctypes.c_uint64(lines), ctypes.c_int64(each.stride)
        made = self._made("MatrixLayout", form, kind.dtype, *sizes)
        if form.number > 1:
            self._set("MatrixLayout", form, made, OF_BATCH, ctypes.c_int(form.number))
            self._set("MatrixLayout", form, made, OF_BATCH_STRIDE, ctypes.c_int64(each.batch_stride))
        return made

    def _search(self, form: Form, of: list[ctypes.c_void_p], aligned: tuple[int, ...]) -> Found | None:
        search = self._made("MatmulPreference", form)
        self._set("MatmulPreference", form, search, OF_WORKSPACE, ctypes.c_uint64(self._most))
        for attribute, n in zip(OF_ALIGNMENTS, (*aligned, aligned[-1]), strict=True):
            self._set("MatmulPreference", form, search, attribute, ctypes.c_uint32(n))
        found, count = Found(), ctypes.c_int()
        function = self._functions.cublasLtMatmulAlgoGetHeuristic
        status = function(self._handle, *of, of[-1], search, 1, ctypes.byref(found), ctypes.byref(count))
        self.call("MatmulPreferenceDestroy", form, search)
        if status not in (0, NOT_SUPPORTED):
            raise DeviceError(
                f"no algorithm of cuBLASLt was found for {form}: status {status} "
                f"({STATUS.get(status, 'unknown')}); it must not be asked while a stream is captured"
            )
        return found if count.value and not status else None

    def multiply(self, form: Form, *args: Any) -> None:
        """Issue a product, with the arguments of cublasLtMatmul after the handle."""
        self.call("Matmul", form, self._handle, *args)


# -- products ---------------------------------------------------------------------------------


class Products:
    """Prepares products, which share memory to work in, so they must run one after the other.

    Parameters
    ----------
    on_device : Library
        cuBLASLt on the current device.
    empty : callable
        Returns so many bytes on the device, aligned to 256.
    stream : callable
        Returns the address of the current stream.
    """

    def __init__(self, on_device: Library, empty: Callable[[int], Any], stream: Callable[[], int]) -> None:
        self._library, self._empty, self._stream = on_device, empty, stream
        self._workspace: Any = None

    def prepared(self, x: Any, y: Any, out: Any) -> Callable[[], None] | None:
        """Return what computes ``x @ y`` into an array; None if cuBLASLt does not do that."""
        form, arrays = form_of(x, y, out), (y, x, out)
        at = [each.data.ptr for each in arrays]
        chosen = None if form is None else self._library.chosen(form, at)
        if form is None or chosen is None:
            return None
        (product, *layouts), found, (one, zero) = chosen
        if self._workspace is None or self._workspace.size < found.workspace:
            self._workspace = self._empty(found.workspace)
        a, b, c = ((ctypes.c_void_p(address), layout) for address, layout in zip(at, layouts, strict=True))
        given = product, ctypes.byref(one), *a, *b, ctypes.byref(zero), *c, *c, ctypes.byref(found)
        return partial(self._run, form, given, found.workspace, arrays)

    def _run(self, form: Form, given: tuple[Any, ...], nbytes: int, arrays: tuple[Any, ...]) -> None:
        """Issue a product on the current stream; `arrays` are kept, as their addresses are."""
        place = ctypes.c_void_p(self._workspace.data.ptr), ctypes.c_size_t(nbytes)
        self._library.multiply(form, *given, *place, ctypes.c_void_p(self._stream()))
