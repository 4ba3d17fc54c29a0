"""Installing the emulated driver in this process, before CuPy has looked for a real one."""

import ctypes
import importlib
import importlib.util
import os
from functools import cache
from pathlib import Path

from tests.devices.emulated import building, compiling, counts
from tests.devices.emulated.redirecting import redirect

__all__ = ["install"]

# Modules of CuPy with functions to redirect, and at least how many of them the emulator has.
REDIRECTED = {"cupy_backends.cuda.api.runtime": 50, "cupy.cuda.cub": 50, "cupy.cuda.thrust": 50}


@cache
def install() -> ctypes.CDLL:
    """Let CuPy find an emulated device, and return the library that stands in for the driver.

    Every array has memory of its own: CuPy's pool would hand out pieces of a block, without guards between.

    Raises
    ------
    RuntimeError
        If the libraries cannot be built, or this CuPy has other functions than they know.
    """
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # its files would hold paths of compiled modules
    loaded = [
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL) for path in building.libraries(_packages()).values()
    ]
    library = loaded[0]
    _hand_in_lapack(library)
    for name, expected in REDIRECTED.items():
        module = importlib.import_module(name)
        found = redirect(module.__file__ or "", library)
        if found < expected:
            raise RuntimeError(
                f"the emulated driver knows only {found} of the functions in {name}: is CuPy a wheel?"
            )
    vars(importlib.import_module("cupy.cuda.compiler")).update(_NVRTCProgram=compiling.Program)
    importlib.import_module("cupy").cuda.set_allocator(None)
    counts.use(library)
    return library


def _hand_in_lapack(library: ctypes.CDLL) -> None:
    """Give the library the functions of LAPACK that SciPy has for Cython."""
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    functions = importlib.import_module("scipy.linalg.cython_lapack").__pyx_capi__
    for name in ("getrf", "getri", "getrs", "potrf", "geqrf", "orgqr", "gesvd", "syev"):
        for letter in "sd":
            capsule = functions[letter + name]
            pointer = ctypes.c_void_p(address(capsule, name_of(capsule)))
            library.emulator_set_lapack((letter + name).encode(), pointer)


def _packages() -> Path:
    """Return the folder that CuPy is installed in."""
    found = importlib.util.find_spec("cupy")
    if found is None or found.origin is None:
        raise RuntimeError(
            "the emulated driver runs CuPy, which is not installed: pip install -e '.[gpu-check]'"
        )
    return Path(found.origin).parent.parent
