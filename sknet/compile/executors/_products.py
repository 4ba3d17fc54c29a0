"""Products of matrices: in how many parts they are made, and how native code calls NumPy's.

Numba's own `np.dot` calls SciPy's BLAS, which has threads of its own; those of NumPy's, which wait awake
for more work, would stand in their way in a fit that predicts between its epochs. So native code calls
the loop of `numpy.matmul`, a C function that needs no interpreter.
"""

import ctypes
import inspect
from typing import Any

import numpy as np

__all__ = ["call_room", "parts_of", "product_source"]

# Multiplications: up to so many OpenBLAS has kernels for small matrices, in one thread; where it has
# none, that is so up to fewer.
SERIAL, SERIAL_EVERYWHERE = 10**6, 1 << 18


def parts_of(rows: int, per_row: int) -> int:
    """Return in how many parts a product is made.

    BLAS would wake a thread for the whole, which gains little for so small a product, and costs
    what follows: half of the result is then in the other core's cache.

    Parameters
    ----------
    rows : int
        Of the product.
    per_row : int
        Multiplications for each.

    Returns
    -------
    int
        A divisor of `rows`.
    """
    if SERIAL < rows * per_row <= 2 * SERIAL:
        for parts in range(2, 9):
            if rows % parts == 0 and rows * per_row <= parts * SERIAL_EVERYWHERE:
                return parts
    return 1


class _UFunc(ctypes.Structure):
    """What follows the object's head in a PyUFuncObject (numpy/ufuncobject.h), up to what is needed."""

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


def call_room(dtype: Any) -> np.ndarray:
    """Return the array that native code calls NumPy's product with.

    Parameters
    ----------
    dtype : dtype
        Of the matrices.

    Returns
    -------
    ndarray of shape (17,), dtype=int64
        The address of the loop (0 if there is none: Numba's product is taken then), and room for its
        arguments: three pointers, four lengths, nine strides.
    """
    room = np.zeros(17, np.int64)
    matmul: Any = np.matmul
    if not isinstance(matmul, np.ufunc):  # somebody has put another in its place
        return room
    ufunc = _UFunc.from_address(id(matmul) + object.__basicsize__)
    if (ufunc.nin, ufunc.nout, ufunc.name) == (2, 1, b"matmul"):
        wanted = [np.dtype(dtype).num] * 3
        for i in range(ufunc.ntypes):
            if ufunc.types[3 * i : 3 * i + 3] == wanted and not ufunc.data[i]:
                room[0] = ufunc.functions[i] or 0
    return room


def product_source() -> str:
    """Return the source of ``product(a, b, out, room)`` for native code."""
    constants = f"SERIAL, SERIAL_EVERYWHERE = {SERIAL}, {SERIAL_EVERYWHERE}\n"
    return f"{constants}{PRODUCT}\n@scalar\n{inspect.getsource(parts_of)}\n\n"


PRODUCT = '''

@intrinsic
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
    parts = parts_of(m, k * n)
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
