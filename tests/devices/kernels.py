"""Running CUDA C without a GPU: the source is compiled by the system's C compiler, and run thread by thread.

The source is used unchanged, except for ``extern "C"``. Threads run one after the other, in reverse in every
other launch: a kernel whose result depends on the order of its threads gives two different results. Threads
of a block that wait for each other take turns (`blocks.c`), and a block that waits for ever is an error;
shared memory is NaN when a block starts.
Arrays of the fake device have a guard of NaN on both sides: reads out of bounds give NaN, and writes out of
bounds are detected after the launch.
"""

import ctypes
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["compiled", "guarded", "recorded"]

GUARD = 4096  # bytes on either side of an array
ALIGNMENT = 256
# Without libraries, which the linker would search: the process that loads a module has libm loaded.
FLAGS = (
    "-O0",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-ffp-contract=off",
    "-Wall",
    "-Werror",
    "-Wno-unused-variable",
)

# Declared here, because to read math.h takes the compiler as long as to compile a kernel.
MATH = {
    "x": "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 fabs floor log log10 log1p "
    "log2 rint sin sinh sqrt tan tanh trunc",
    "x, y": "atan2 copysign fmax fmin fmod hypot nextafter pow",
}
DECLARATIONS = "".join(
    f"{kind} {name}{end}({', '.join([kind] * len(arguments.split()))});\n"
    for arguments, names in MATH.items()
    for name in names.split()
    for kind, end in (("double", ""), ("float", "f"))
)
SHIM = """
#define bool _Bool
#define true 1
#define false 0
typedef struct { unsigned int x, y, z; } sizes;
static sizes blockIdx, threadIdx, blockDim, gridDim;
#define __global__
#define __device__ static
#define __umul64hi(a, b) ((unsigned long long)((unsigned __int128)(a) * (b) >> 64))
"""
COOPERATING = """
typedef __SIZE_TYPE__ size_t;
void *memset(void *, int, size_t);
void exchange(void *value, size_t size, unsigned int from);
void wait_for_block(void);
int run_block(void (*thread)(void **), void **, unsigned int, int, unsigned int *);
extern char __start_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared[] __attribute__((weak, visibility("hidden")));
#define __shared__ static __attribute__((section("shared")))
#define __syncthreads() wait_for_block()
#define __threadfence() ((void)0)
#define atomicAdd(at, more) __extension__({                            \\
    __typeof__(*(at)) *place = (at), before = *place;                  \\
    *place = before + (more);                                          \\
    before;                                                            \\
})
#define __shfl_xor_sync(mask, value, distance) TAKEN(mask, value, threadIdx.x ^ (distance))
#define __shfl_sync(mask, value, lane, width) \\
    TAKEN(mask, value, threadIdx.x / (width) * (width) + ((lane) & ((width)-1)))
#define __syncwarp() ((void)TAKEN(0xffffffff, 0, threadIdx.x))
#define TAKEN(mask, value, from) __extension__({                       \\
    __typeof__(+(value)) taken = (value);                              \\
    _Static_assert((mask) == 0xffffffff, "all lanes take part");       \\
    exchange(&taken, sizeof taken, from);                              \\
    taken;                                                             \\
})
"""
LAUNCH = """
int launch_{name}(unsigned int grid, unsigned int block, bool backwards, void **arguments)
{{
    gridDim.x = grid;
    blockDim.x = block;
    for (unsigned int n = 0; n < grid * block; n++) {{
        const unsigned int thread = backwards ? grid * block - 1 - n : n;
        blockIdx.x = thread / block;
        threadIdx.x = thread % block;
        {name}({arguments});
    }}
    return 0;
}}
"""
BLOCKWISE = """
static void thread_of_{name}(void **arguments) {{ {name}({arguments}); }}
int launch_{name}(unsigned int grid, unsigned int block, bool backwards, void **arguments)
{{
    gridDim.x = grid;
    blockDim.x = block;
    for (unsigned int n = 0; n < grid; n++) {{
        blockIdx.x = backwards ? grid - 1 - n : n;
        if (__start_shared)
            memset(__start_shared, 0xff, __stop_shared - __start_shared);
        if (run_block(thread_of_{name}, arguments, block, backwards, &threadIdx.x))
            return 1;
    }}
    return 0;
}}
"""
HEAD = re.compile(r"__global__ void (?=\w+\()")
HEADER = re.compile(r"(\w+)\(([^)]*)\)")
_arrays: dict[int, tuple[int, int]] = {}  # where, in the memory at an address, the array starts and stops
_launches = itertools.count()
_one_at_a_time = threading.Lock()
_recorded: dict[str, None] | None = None  # the text of modules, while it is all that is wanted


@cache
def compiler() -> str:
    """Return the path of a C compiler; without one generated code cannot be tested."""
    found = next(filter(None, map(shutil.which, (os.environ.get("CC", "cc"), "cc", "gcc", "clang"))), None)
    if found is None:
        raise RuntimeError("the tests of generated kernels need a C compiler: install gcc, or set CC")
    return found


@contextmanager
def recorded() -> Iterator[dict[str, None]]:
    """Collect the text of modules instead of compiling them; their kernels cannot be launched."""
    global _recorded
    before, _recorded = _recorded, {}
    try:
        yield _recorded
    finally:
        _recorded = before


def _refuse(*args: Any) -> None:
    raise RuntimeError("this kernel's text was only recorded")


def compiled(source: str, names: Sequence[str]) -> list[Callable[..., None]]:
    """Compile a module; return the kernels of these names, called with grid, block and NumPy arrays."""
    if _recorded is not None:
        _recorded[source] = None
        return [_refuse for _ in names]
    library = ctypes.CDLL(_library(source))
    return [_kernel(getattr(library, f"launch_{name}")) for name in names]


@cache
def _library(source: str) -> str:
    launchers = [_launcher(kernel) for kernel in HEAD.split(source)[1:]]
    text = "".join([SHIM, COOPERATING, DECLARATIONS, source.replace('extern "C" ', ""), *launchers])
    if any("run_block" in launcher for launcher in launchers):
        _load_blocks()
    return _built(text, FLAGS)


def _launcher(kernel: str) -> str:
    """Return the function that launches a kernel, of which the text after ``__global__ void`` is given."""
    name, parameters = HEADER.match(kernel).groups()
    waits = "__sync" in kernel or "__shfl" in kernel
    return (BLOCKWISE if waits else LAUNCH).format(name=name, arguments=_arguments(parameters))


@cache
def _load_blocks() -> None:
    """Make the functions of `blocks.c` known to the modules that are loaded from now on."""
    text = Path(__file__).with_name("blocks.c").read_text()
    ctypes.CDLL(_built(text, ("-O1", "-shared", "-fPIC", "-Wall", "-Werror")), mode=ctypes.RTLD_GLOBAL)


def _built(text: str, flags: Sequence[str]) -> str:
    """Return the path of the library that is compiled from a text."""
    digest = hashlib.sha256("\0".join([text, compiler(), *flags]).encode()).hexdigest()
    path = _folder() / f"{digest}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as folder:
            code, made = Path(folder, "module.c"), Path(folder, "module.so")
            code.write_text(text)
            command = [compiler(), *flags, "-o", str(made), str(code)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"a generated module does not compile:\n{done.stderr}\n{text}")
            made.replace(path)
    return str(path)


@cache
def _folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="sknet-kernels-")
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _arguments(parameters: str) -> str:
    """Return the arguments of a call: each is taken from the list, and has its parameter's type."""
    types = [text[: text.rindex("*") + 1].strip() for text in parameters.split(",")]
    return ", ".join(f"({kind})arguments[{i}]" for i, kind in enumerate(types))


def _kernel(launch: Any) -> Callable[..., None]:
    launch.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_bool, ctypes.POINTER(ctypes.c_void_p)]
    launch.restype = ctypes.c_int

    def run(grid: tuple[int, ...], block: tuple[int, ...], arrays: Sequence[np.ndarray]) -> None:
        addresses = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
        with _one_at_a_time:
            if launch(grid[0], block[0], next(_launches) % 2 == 1, addresses):
                raise RuntimeError("threads of a block wait for others that never come")
        for memory in {id(base): base for base in map(_memory, arrays) if base is not None}.values():
            _check(memory)

    return run


def guarded(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of NaN between two guards."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(nbytes + 2 * GUARD + ALIGNMENT, 0xFF, np.uint8)
    address = memory.ctypes.data
    start = GUARD + -(address + GUARD) % ALIGNMENT
    _arrays[address] = start, start + nbytes
    weakref.finalize(memory, _arrays.pop, address)
    found: np.ndarray = memory[start : start + nbytes].view(dtype).reshape(shape)
    return found


def _memory(array: np.ndarray) -> np.ndarray | None:
    """Return the guarded memory that an array is a view of."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base if base.ctypes.data in _arrays else None


def _check(memory: np.ndarray) -> None:
    start, stop = _arrays[memory.ctypes.data]
    if memory[:start].min() < 0xFF or memory[stop:].min() < 0xFF:
        raise RuntimeError("a kernel has written outside of its arrays")
