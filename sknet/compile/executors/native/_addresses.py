"""Addresses of the C functions that do the work of NumPy's plan: inner loops of ufuncs, and level-1 BLAS."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Loop", "level_1", "loop_of", "loop_of_products", "place_of"]


class Loop(NamedTuple):
    """An inner loop of a ufunc: ``loop(arguments, lengths, strides, data)``, which needs no interpreter."""

    address: int
    data: int


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
    )


@cache
def loop_of(function: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    """Return the loop of one of NumPy's ufuncs for operands and result of these dtypes, if it has one."""
    if not isinstance(function, np.ufunc) or getattr(np, function.__name__, None) is not function:
        return None
    return _loop(function, dtypes)


@cache
def loop_of_products(dtype: np.dtype[Any]) -> Loop | None:
    """Return the loop of NumPy's matrix product for operands and result of a dtype."""
    return loop_of(np.matmul, (dtype, dtype, dtype)) if dtype.isnative else None


def place_of(x: Any) -> int:
    """Return the address of an array's first element, or 0 for None."""
    return 0 if x is None else ctypes.c_size_t.from_address(id(x) + object.__basicsize__).value


def _loop(ufunc: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    kinds = [signature.replace("->", "") for signature in ufunc.types]
    wanted = [i for i, kind in enumerate(kinds) if [np.dtype(c) for c in kind] == list(dtypes)]
    found = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    known = (found.nin, found.nout, found.nargs, found.ntypes, found.name)
    if known != (ufunc.nin, 1, ufunc.nargs, len(kinds), ufunc.__name__.encode()) or not wanted:
        return None
    [first, *_] = wanted
    address = found.functions[first]
    return None if not address else Loop(address, found.data[first] or 0)


def level_1(function: Callable[..., Any]) -> tuple[str, np.dtype[Any], int] | None:
    """Return name, dtype and address if a function is one of SciPy's level-1 BLAS routines, else None."""
    found = _vectors().get(id(function))
    return None if found is None else found[1:]


@cache
def _vectors() -> dict[int, tuple[Any, str, np.dtype[Any], int]]:
    """Return the functions by their identity, each with what `level_1` returns."""
    from scipy.linalg import blas  # long to load, and forward passes do without

    found = {}
    for name in ("scal", "axpy"):
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            function = blas.get_blas_funcs(name, dtype=dtype)
            if (address := _address_in(function)) is not None:
                found[id(function)] = function, name, dtype, address
    return found


def _address_in(function: Any) -> int | None:
    capsule = getattr(function, "_cpointer", None)  # public: SciPy's manual describes it
    if capsule is None:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found: int | None = get(capsule, None)
    return found
