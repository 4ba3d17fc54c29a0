"""Matrix products: into how many parts they are split, and how native code calls `numpy.matmul`.

Numba's own `np.dot` calls SciPy's BLAS, which has its own threads; in a fit that predicts between epochs
they would compete with NumPy's threads, which spin while they wait for work. So native code calls the inner
loop of `numpy.matmul`, a C function that does not need the interpreter.
"""

import ctypes
import inspect
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info  # scikit-learn depends on it

__all__ = ["STACKS", "parts_here", "parts_of", "product_source", "product_workspace", "small_limit"]

# OpenBLAS's names of processors for which it has kernels for small matrices, which run in one thread.
WITH_SMALL_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
SMALL = 10**6  # the most multiplications that they are used for


@cache
def small_limit() -> int:
    """Return up to how many multiplications BLAS uses kernels for small matrices; 0 if it has none."""
    names = {library.get("architecture") for library in threadpool_info()}
    return SMALL if names & WITH_SMALL_KERNELS else 0


def parts_of(rows: int, per_row: int, limit: int) -> int:
    """Return into how many parts a product is split, so that each fits a kernel for small matrices.

    For the whole product BLAS would wake a thread. Below twice the limit that gains little, and slows
    down what follows: half of the result is then in the other core's cache.

    Parameters
    ----------
    rows : int
        Rows of the product.
    per_row : int
        Multiplications per row.
    limit : int
        The result of `small_limit`.

    Returns
    -------
    int
        A divisor of `rows`: 1, 2, 3 or 4.
    """
    if limit < rows * per_row <= 2 * limit:
        for parts in range(2, 5):
            if rows % parts == 0:
                return parts
    return 1


def parts_here(rows: int, per_row: int) -> int:
    """Return `parts_of` for this machine; BLAS is inspected only if needed, as that takes milliseconds."""
    return parts_of(rows, per_row, small_limit()) if SMALL < rows * per_row <= 2 * SMALL else 1


class _UFunc(ctypes.Structure):
    """The fields of a PyUFuncObject after its header (numpy/ufuncobject.h), as far as needed."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


def product_workspace(dtype: Any) -> np.ndarray:
    """Return the workspace with which native code calls NumPy's product.

    Parameters
    ----------
    dtype : dtype
        Of the matrices.

    Returns
    -------
    ndarray of shape (18,), dtype=int64
        The address of the loop (0 if there is none, so that Numba's product is used), space for its
        arguments (three pointers, four lengths, nine strides), and the limit for `parts_of`.
    """
    workspace = np.zeros(18, np.int64)
    workspace[17] = small_limit()
    matmul: Any = np.matmul
    if not isinstance(matmul, np.ufunc):  # something has replaced it
        return workspace
    ufunc = _UFunc.from_address(id(matmul) + object.__basicsize__)
    if (ufunc.nin, ufunc.nout, ufunc.name) == (2, 1, b"matmul"):
        wanted = [np.dtype(dtype).num] * 3
        for i in range(ufunc.ntypes):
            if ufunc.types[3 * i : 3 * i + 3] == wanted and not ufunc.data[i]:
                workspace[0] = ufunc.functions[i] or 0
    return workspace


def product_source() -> str:
    """Return the source of ``product(a, b, out, room)`` for native code."""
    return f"{PRODUCT}@scalar\n{inspect.getsource(parts_of)}\n\n"


PRODUCT = '''@intrinsic
def call(typing, loop, operands, lengths, strides):
    """Call a loop of a ufunc: a C function."""

    def generate(context, builder, signature, values):
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte] * 4).as_pointer()
        pointers = [builder.inttoptr(value, byte) for value in values[1:]]
        builder.call(builder.inttoptr(values[0], kind), [*pointers, byte(None)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@scalar
def product(a, b, out, room):
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    if room[0] == 0 or m * k * n == 0:
        np.dot(a, b, out)
        return
    parts = parts_of(m, k * n, room[17])
    rows = m // parts
    room[1], room[2], room[3] = a.ctypes.data, b.ctypes.data, out.ctypes.data
    room[4], room[5], room[6], room[7] = parts, rows, k, n
    room[8], room[9], room[10] = rows * a.strides[0], 0, rows * out.strides[0]
    room[11], room[12] = a.strides
    room[13], room[14] = b.strides
    room[15], room[16] = out.strides
    start = np.int64(room.ctypes.data)
    call(room[0], start + 8, start + 32, start + 64)

'''
STACKS = """@scalar
def products(a, b, out, room):
    n, m, k, columns = a.shape[0], a.shape[1], a.shape[2], b.shape[2]
    if room[0] == 0:
        for i in range(n):
            for row in range(m):
                for j in range(columns):
                    out[i, row, j] = a[i, row, 0] * b[i, 0, j]
                    for inner in range(1, k):
                        out[i, row, j] += a[i, row, inner] * b[i, inner, j]
        return
    room[1], room[2], room[3] = a.ctypes.data, b.ctypes.data, out.ctypes.data
    room[4], room[5], room[6], room[7] = n, m, k, columns
    room[8], room[9], room[10] = a.strides[0], b.strides[0], out.strides[0]
    room[11], room[12] = a.strides[1], a.strides[2]
    room[13], room[14] = b.strides[1], b.strides[2]
    room[15], room[16] = out.strides[1], out.strides[2]
    start = np.int64(room.ctypes.data)
    call(room[0], start + 8, start + 32, start + 64)


"""
