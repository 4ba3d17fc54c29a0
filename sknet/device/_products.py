"""Matrix products: which of them one strided product of BLAS computes, and those by cuBLASLt."""

import ctypes
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from itertools import accumulate, pairwise
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from weakref import finalize

import numpy as np

from sknet.exceptions import DeviceError

# -- forms of products ------------------------------------------------------------------------


class Matrices(NamedTuple):
    """Matrices of one form in memory."""

    rows: int
    columns: int
    in_rows: bool
    stride: int
    batch_stride: int


class Ending(NamedTuple):
    """Computation that a product of two matrices does in the same launch.

    Attributes
    ----------
    parts : tuple of str
        In order, of ``"bias"``: a vector is added to each row; ``"relu"``: what is not positive becomes 0,
        NaN too; ``"sums of y"``: the rows of the second factor are added.
    vector : array of shape (n_columns,), or one such for each of several products, or None
        The bias, or where sums are written. From product to product it goes on by multiples of 16 bytes.
    term : array or None
        Added to the product, `factor` times; contiguous. Only without parts, or with ``"sums of y"``.
    factor : float
        As above.
    """

    parts: tuple[str, ...] = ()
    vector: Any = None
    term: Any = None
    factor: float = 0.0


NO_ENDING = Ending()
HALVES = "arrays in bfloat16"  # the precision of products of such arrays, whose NumPy dtype is uint16
OF_HALVES = {"uint16": "bfloat16 to bfloat16", "uint16 to float32": "bfloat16 to float32"}


class Form(NamedTuple):
    """Products ``x @ y`` of matrices in rows.

    Attributes
    ----------
    dtype : str
        Name of the dtype; or of the precision of products of float32 arrays, such as "tf32".
    number : int
        How many products.
    x, y, out : Matrices
        Their forms; `out` is in rows.
    """

    dtype: str
    number: int
    x: Matrices
    y: Matrices
    out: Matrices

    def in_precision(self, precision: str) -> Self:
        """Return the form of these products in a precision, if they are of float32 arrays.

        Inner products of two vectors stay as they are: sums of losses and of squares are computed so.
        """
        if precision == HALVES:
            return self._replace(dtype=OF_HALVES.get(self.dtype, self.dtype))
        is_inner = self.x.rows == self.y.columns == 1
        return self if self.dtype != "float32" or is_inner else self._replace(dtype=precision)

    def in_halves(self) -> list[Self]:
        """Return the forms of these products of arrays in bfloat16, into such an array or into float32."""
        return [self._replace(dtype=dtype) for dtype in OF_HALVES.values()]

    def __str__(self) -> str:
        shapes = f"({self.x.rows}, {self.x.columns}) @ ({self.y.rows}, {self.y.columns})"
        return f"{self.number} x {shapes} of {self.dtype}" if self.number > 1 else f"{shapes} of {self.dtype}"


def form_of(x: Any, y: Any, out: Any) -> Form | None:
    dtype = out.dtype.name if x.dtype == out.dtype else f"{x.dtype.name} to {out.dtype.name}"
    if not (x.dtype == y.dtype and (x.dtype == out.dtype or dtype in OF_HALVES) and x.size and y.size):
        return None
    lifted = [
        _lifted(x, x.ndim > 1, True),
        _lifted(y, True, y.ndim > 1),
        _lifted(out, x.ndim > 1, y.ndim > 1),
    ]
    batch = lifted[2][0][:-2]
    batch_strides = _batch_strides(batch, lifted)
    if batch_strides is None:
        return None
    found = [
        _matrices(shape, strides, stride)
        for (shape, strides), stride in zip(lifted, batch_strides, strict=True)
    ]
    a, b, c = found
    if a is None or b is None or c is None or not c.in_rows:
        return None
    return _as_one(Form(dtype, math.prod(batch), a, b, c))


Lifted = tuple[tuple[int, ...], tuple[int, ...]]


def _lifted(array: Any, has_rows: bool, has_columns: bool) -> Lifted:
    """Return shape and strides, in elements, of an array as matrices; a vector is a row or a column."""
    shape, strides = list(array.shape), [stride // array.dtype.itemsize for stride in array.strides]
    if not has_columns:
        shape, strides = [*shape, 1], [*strides, 1]
    if not has_rows:
        shape.insert(-1, 1)
        strides.insert(-1, shape[-1])
    return tuple(shape), tuple(strides)


def _matrices(shape: Sequence[int], strides: Sequence[int], batch_stride: int) -> Matrices | None:
    (rows, columns), (down, along) = shape[-2:], strides[-2:]
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return Matrices(rows, columns, True, down if rows > 1 else columns, batch_stride)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return Matrices(rows, columns, False, along if columns > 1 else rows, batch_stride)
    return None


def _batch_strides(batch: tuple[int, ...], lifted: Sequence[Lifted]) -> list[int] | None:
    """Return the stride of each array from matrix to matrix; None if it is not the same for all of them."""
    axes = [i for i, n in enumerate(batch) if n > 1]
    found = []
    for shape, strides in lifted:
        lead = len(batch) - (len(shape) - 2)
        steps = [strides[i - lead] if i >= lead and shape[i - lead] > 1 else 0 for i in axes]
        for i, step in zip(axes[1:], pairwise(steps), strict=True):
            if step[0] != step[1] * batch[i]:
                return None
        found.append(steps[-1] if steps else 0)
    return found


def _as_one(form: Form) -> Form:
    """Return one product of more rows in place of several with the same second factor, where they follow."""
    n, x, y, out = form.number, form.x, form.y, form.out
    follow = x.batch_stride == x.rows * x.stride and out.batch_stride == out.rows * out.stride
    if n == 1 or y.batch_stride or not x.in_rows or not follow:
        return form
    x, out = (each._replace(rows=n * each.rows, batch_stride=0) for each in (x, out))
    return form._replace(number=1, x=x, out=out)


# -- cuBLASLt ---------------------------------------------------------------------------------
#
# CuPy's calls of cuBLAS cannot be captured in a CUDA graph; these can. The numbers of attributes and values
# are those of cublasLt.h, which CUDA 12 and 13 share. To cuBLASLt a matrix in rows is the transpose of one in
# columns, so the factors change places.

ALIGNMENT = 256  # of addresses, in bytes; more is of no use
OF_BATCH, OF_BATCH_STRIDE = 5, 6  # attributes of a matrix
TRANSPOSES, OF_EPILOGUE = (3, 4), 7  # attributes of a product
OF_VECTOR, OF_VECTORS = 8, 10  # the latter is the stride from one product to the next
OF_WORKSPACE, OF_ALIGNMENTS = 1, (5, 6, 7, 8)  # attributes of a search
TRANSPOSED = 1
PARTS = {"bias": 4, "relu": 2, "sums of y": 256}  # bits of cublasLtEpilogue_t; its RELU makes 0 of NaN
WITH_VECTOR = {"bias", "sums of y"}  # parts that read or write the vector
LEAST_ALIGNMENT = 16  # of addresses in products that have an ending
WITH_TERM = (), ("sums of y",)  # parts of products to which a term can be added
NOT_SUPPORTED = 15
STATUS = {
    1: "not initialized", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch",
    11: "mapping error", 13: "execution failed", 14: "internal error", NOT_SUPPORTED: "not supported",
}  # fmt: skip


class Kind(NamedTuple):
    """The numbers of dtypes of factors, computation, result and scalars, and the type of scalars in C."""

    dtype: int
    compute: int
    scalar: Any
    out: int
    factor: int


KINDS = {
    "float64": Kind(1, 70, ctypes.c_double, 1, 1),
    "float32": Kind(0, 68, ctypes.c_float, 0, 0),
    # Of arrays of float32, whose elements are rounded on the way to the tensor cores; sums are float32.
    "tf32": Kind(0, 77, ctypes.c_float, 0, 0),
    "bfloat16": Kind(0, 75, ctypes.c_float, 0, 0),
    # Of arrays of bfloat16. A vector, and what is added, has the dtype of the result.
    "bfloat16 to bfloat16": Kind(14, 68, ctypes.c_float, 14, 0),
    "bfloat16 to float32": Kind(14, 68, ctypes.c_float, 0, 0),
}


def _kind(dtype: str) -> Kind | None:
    """Return the kind of computation of products of a dtype or in a precision; None if there is none."""
    if dtype == "float32" and int(os.environ.get("CUPY_TF32", "0")):
        dtype = "tf32"
    return KINDS.get(dtype)


class Found(ctypes.Structure):
    """Result of the heuristic: an algorithm, and the bytes that it works in."""

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
    """Algorithm and layouts for products of one form."""

    layouts: list[ctypes.c_void_p]
    found: Found


class Places(NamedTuple):
    """Addresses: of the factors as cuBLASLt takes them, what is added, the result, and the vector."""

    y: int
    x: int
    term: int
    out: int
    vector: int = 0
    vectors: int = 0


NO_ALGORITHMS: Mapping[str, int] = MappingProxyType({})


def algorithms_of(device: str) -> Mapping[str, int]:
    """Return which of the algorithms offered is the fastest, by products, as measured on such a device."""
    found: dict[str, dict[str, int]] = json.loads(Path(__file__).with_name("_algorithms.json").read_text())
    return found.get(device, NO_ALGORITHMS)


def said(form: Form, parts: Sequence[str], aligned: Sequence[int]) -> str:
    """Return the key of products in the table of algorithms."""
    matrices = [
        f"{each.rows}x{each.columns}{'' if each.in_rows else 't'}/{each.stride}/{each.batch_stride}"
        for each in (form.x, form.y, form.out)
    ]
    return " ".join([form.dtype, str(form.number), *matrices, *parts, ",".join(map(str, aligned))])


class Library:
    """cuBLASLt on one device."""

    def __init__(
        self, functions: ctypes.CDLL, most_workspace: int, algorithms: Mapping[str, int] = NO_ALGORITHMS
    ) -> None:
        self._functions, self._most, self._algorithms = functions, most_workspace, algorithms
        self._handle = self._made("", "a handle")  # never destroyed: that can break a running capture
        self._chosen: dict[Any, Chosen | None] = {}
        self.tried: dict[Any, bool] = {}  # which endings products of a form can have

    def call(self, name: str, said: object, *args: Any) -> None:
        """Call a function; if it fails, raise an error that names its purpose."""
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

    def chosen(self, form: Form, parts: Sequence[str], at: Places) -> Chosen | None:
        """Return the algorithm, chosen once for each form; None if there is none."""
        kind = _kind(form.dtype)
        if kind is None:
            return None
        aligned = tuple(min(address & -address, ALIGNMENT) for address in at[:5])
        key = form, tuple(parts), kind, aligned, at.vectors
        if key not in self._chosen:
            which = self._algorithms.get(said(form, parts, aligned), 0)
            self._chosen[key] = self.offered(form, parts, at, which) or self.offered(form, parts, at, 0)
        return self._chosen[key]

    def offered(self, form: Form, parts: Sequence[str], at: Places, which: int) -> Chosen | None:
        """Return one of the ways to multiply that the library offers, the most promising first."""
        kind = _kind(form.dtype)
        if kind is None:
            return None
        layouts = [self._layout(each, form, kind.dtype) for each in (form.y, form.x)]
        layouts.append(self._layout(form.out, form, kind.out))
        product = self.described(form, parts, at)  # the search depends on how its addresses are aligned
        aligned = tuple(min(address & -address, ALIGNMENT) for address in at[: len(OF_ALIGNMENTS)])
        found = self._search(form, [product, *layouts], aligned, which)
        self.forget(product)
        return None if found is None else Chosen(layouts, found)

    def forms(self) -> "list[tuple[Form, tuple[str, ...], tuple[int, ...]]]":
        """Return form, parts and alignments of all products that were asked for."""
        return [(form, parts, aligned) for form, parts, _, aligned, _ in self._chosen]

    def described(self, form: Form, parts: Sequence[str], at: Places) -> ctypes.c_void_p:
        """Return the descriptor of a product, which holds the address of its vector."""
        kind = _kind(form.dtype)
        if kind is None:
            raise DeviceError(f"cuBLASLt has no products like {form}")
        product = self._made("MatmulDesc", form, kind.compute, kind.factor)
        for attribute, factor in zip(TRANSPOSES, (form.y, form.x), strict=True):
            if not factor.in_rows:
                self._set("MatmulDesc", form, product, attribute, ctypes.c_int(TRANSPOSED))
        if parts:
            epilogue = reduce(or_, [PARTS[part] for part in parts])
            self._set("MatmulDesc", form, product, OF_EPILOGUE, ctypes.c_int(epilogue))
        if not WITH_VECTOR.isdisjoint(parts):  # the library refuses one that nothing uses
            self._set("MatmulDesc", form, product, OF_VECTOR, ctypes.c_void_p(at.vector))
            if form.number > 1:
                self._set("MatmulDesc", form, product, OF_VECTORS, ctypes.c_int64(at.vectors))
        return product

    def forget(self, product: ctypes.c_void_p) -> None:
        self.call("MatmulDescDestroy", "a product", product)

    def _layout(self, each: Matrices, form: Form, dtype: int) -> ctypes.c_void_p:
        neighbours, lines = (each.columns, each.rows) if each.in_rows else (each.rows, each.columns)
        sizes = ctypes.c_uint64(neighbours), ctypes.c_uint64(lines), ctypes.c_int64(each.stride)
        made = self._made("MatrixLayout", form, dtype, *sizes)
        if form.number > 1:
            self._set("MatrixLayout", form, made, OF_BATCH, ctypes.c_int(form.number))
            self._set("MatrixLayout", form, made, OF_BATCH_STRIDE, ctypes.c_int64(each.batch_stride))
        return made

    def _search(
        self, form: Form, of: list[ctypes.c_void_p], aligned: tuple[int, ...], which: int
    ) -> Found | None:
        search = self._made("MatmulPreference", form)
        self._set("MatmulPreference", form, search, OF_WORKSPACE, ctypes.c_uint64(self._most))
        for attribute, n in zip(OF_ALIGNMENTS, aligned, strict=True):
            self._set("MatmulPreference", form, search, attribute, ctypes.c_uint32(n))
        found, count = (Found * (which + 1))(), ctypes.c_int()
        function = self._functions.cublasLtMatmulAlgoGetHeuristic
        status = function(self._handle, *of, of[-1], search, which + 1, found, ctypes.byref(count))
        self.call("MatmulPreferenceDestroy", form, search)
        if status not in (0, NOT_SUPPORTED):
            raise DeviceError(
                f"no algorithm of cuBLASLt was found for {form}: status {status} "
                f"({STATUS.get(status, 'unknown')}); it must not be asked while a stream is captured"
            )
        return found[which] if count.value > which and not status else None

    def multiply(self, form: Form, *args: Any) -> None:
        """Issue a product, with the arguments of cublasLtMatmul after the handle."""
        self.call("Matmul", form, self._handle, *args)


# -- products ---------------------------------------------------------------------------------


class Products:
    """Prepares products, which share memory to work in, so they must run one after the other."""

    def __init__(
        self,
        on_device: Library,
        empty: Callable[[int], Any],
        stream: Callable[[], int],
        precision: str = "float32",
    ) -> None:
        self._library, self._empty, self._stream = on_device, empty, stream
        self._precision = precision
        self._workspace: Any = None

    def finished(self, x: Any, y: Any, out: Any, ending: Ending) -> Callable[[], None]:
        """Return a function that writes ``x @ y`` and an ending to arrays."""
        found = self.prepared(x, y, out, ending)
        if found is None:
            raise DeviceError(
                f"cuBLASLt has no product of {x.shape} and {y.shape} with {ending.parts} for arrays at these "
                f"addresses: pass arrays that begin at multiples of {LEAST_ALIGNMENT} bytes"
            )
        return found

    def prepared(self, x: Any, y: Any, out: Any, ending: Ending) -> Callable[[], None] | None:
        """Return a function that writes ``x @ y`` and an ending to arrays; None if cuBLASLt has none."""
        form, (parts, vector, term, factor) = form_of(x, y, out), ending
        arrays = y, x, out if term is None else term, out, vector
        vectors = vector.strides[0] // vector.dtype.itemsize if vector is not None and vector.ndim > 1 else 0
        at = Places(*[0 if each is None else each.data.ptr for each in arrays])._replace(vectors=vectors)
        if form is None:
            return None
        for each in dict.fromkeys((form.in_precision(self._precision), form)):
            found = self._prepared(each, parts, at, factor, arrays)
            if found is not None:
                return found
        return None

    def _prepared(
        self, form: Form, parts: Sequence[str], at: Places, factor: float, kept: Any
    ) -> Callable[[], None] | None:
        chosen = self._library.chosen(form, parts, at)
        return None if chosen is None else self._by(chosen, form, parts, at, factor, kept)

    def _by(
        self, chosen: Chosen, form: Form, parts: Sequence[str], at: Places, factor: float, kept: Any
    ) -> Callable[[], None]:
        (of_y, of_x, of_out), found = chosen
        scalar = KINDS[form.dtype].scalar
        if self._workspace is None or self._workspace.size < found.workspace:
            self._workspace = self._empty(found.workspace)
        layouts = of_y, of_x, of_out, of_out
        a, b, c, d = ((ctypes.c_void_p(each), layout) for each, layout in zip(at[:4], layouts, strict=True))
        scalars = ctypes.byref(scalar(1)), ctypes.byref(scalar(factor))
        product = self._library.described(form, parts, at)
        given = product, scalars[0], *a, *b, scalars[1], *c, *d, ctypes.byref(found)
        prepared = partial(self._run, form, given, found.workspace, kept)
        finalize(prepared, self._library.forget, product).atexit = False
        return prepared

    def takes(self, form: Form, parts: Sequence[str]) -> bool:
        """Tell whether products of a form can have an ending."""
        kind, known = _kind(form.dtype), self._library.tried
        if kind is None:
            return False
        key = form, tuple(parts), kind
        if key not in known:
            try:
                known[key] = self._tried(form, parts, ctypes.sizeof(kind.scalar))
            except DeviceError:
                known[key] = False
        return known[key]

    def _tried(self, form: Form, parts: Sequence[str], itemsize: int) -> bool:
        """Issue a product, unless there is no algorithm; return whether there is one."""
        at, memory = self._places(form, itemsize)
        factor = float(tuple(parts) in WITH_TERM)
        product = self._prepared(form, parts, at, factor, memory)
        if product is not None:
            product()
        return product is not None

    def _places(
        self, form: Form, itemsize: int, aligned: Sequence[int] = (ALIGNMENT,) * 5
    ) -> tuple[Places, Any]:
        """Return memory for a product of a form, and places in it that are no more aligned than these."""
        matrices = [
            each.stride * (each.rows if each.in_rows else each.columns)
            + (form.number - 1) * each.batch_stride
            for each in form[2:]
        ]
        read, vectors = max(matrices) * itemsize, -(-form.out.columns * itemsize // LEAST_ALIGNMENT)
        vectors *= LEAST_ALIGNMENT
        sizes = [size + 2 * ALIGNMENT for size in (read, read, read, read, form.number * vectors)]
        starts = [0, *accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]
        memory = self._empty(starts.pop())
        places = [
            memory.data.ptr + start + (0 if n in (0, ALIGNMENT) else n)
            for start, n in zip(starts, aligned, strict=True)
        ]
        return Places(*places)._replace(vectors=vectors // itemsize), memory

    def trial(
        self, form: Form, parts: Sequence[str], aligned: Sequence[int], which: int
    ) -> Callable[[], None] | None:
        """Return a product of a form, on memory of its own, by one of the algorithms that are offered."""
        kind = _kind(form.dtype)
        if kind is None:
            return None
        at, memory = self._places(form, ctypes.sizeof(kind.scalar), aligned)
        chosen, factor = self._library.offered(form, parts, at, which), float(tuple(parts) in WITH_TERM)
        return None if chosen is None else self._by(chosen, form, parts, at, factor, memory)

    def _run(self, form: Form, given: tuple[Any, ...], nbytes: int, arrays: tuple[Any, ...]) -> None:
        """Issue a product on the current stream; `arrays` are kept, as their addresses are."""
        place = ctypes.c_void_p(self._workspace.data.ptr), ctypes.c_size_t(nbytes)
        self._library.multiply(form, *given, *place, ctypes.c_void_p(self._stream()))


def multiplied(cupy: Any, products: Products, x: Any, y: Any, out: Any) -> Any:
    """Return ``matmul(x, y, out=out)`` at once, of arrays of one dtype; None if cuBLASLt does not do that."""
    if not (x.size and y.size) or x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        return None
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    if out is not None and (out.shape != shape or out.dtype != x.dtype):
        return None
    result = cupy.empty(shape, x.dtype) if out is None else out
    product = products.prepared(x, y, result, NO_ENDING)
    if product is None:
        x, y = (
            cupy.ascontiguousarray(a if a.ndim == 1 else cupy.broadcast_to(a, (*batch, *a.shape[-2:])))
            for a in (x, y)
        )
        result = cupy.empty(shape, x.dtype)
        product = products.prepared(x, y, result, NO_ENDING)
    if product is None:
        return None
    product()
    if out is None or result is out:
        return result
    out[...] = result
    return out
