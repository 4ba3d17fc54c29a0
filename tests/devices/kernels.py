"""Running CUDA C without a GPU: GCC compiles the source, which is run thread by thread.

The source is used unchanged, except for ``extern "C"``. Threads run one after the other, in reverse in every
other launch: a kernel whose result depends on the order of its threads gives two different results. Threads
of a block that wait for each other take turns (`blocks.c`), and a block that waits for ever is an error;
shared memory is NaN when a block starts, and so are the fake device's new arrays.

All kernels run under GCC's sanitizers, of addresses and of undefined behaviour, whose runtime is
`sanitizers.c`: what is read or written outside of a launch's arrays is an error, before it happens.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.devices.building import built
from tests.devices.launching import loaded, runtime

__all__ = ["compiled", "guarded", "recorded"]

GUARD = 4096  # bytes between an array and the next one, at least
ALIGNMENT = 256
SANITIZERS = (
    "address", "alignment", "bool", "bounds-strict", "float-cast-overflow", "integer-divide-by-zero",
    "shift", "signed-integer-overflow",
)  # fmt: skip
# Without libraries, which the linker would search: the process that loads a module has libm loaded.
# Accesses are checked by calls, and local arrays by their types alone, so there is no shadow memory. No
# frame is so large that a stack could overflow between two of these calls.
FLAGS = (
    "-O0", "-shared", "-fPIC", "-nostdlib", "-ffp-contract=off",
    "-Wall", "-Werror", "-Wno-unused-variable", "-Wno-unknown-pragmas", "-Wframe-larger-than=8192",
    f"-fsanitize={','.join(SANITIZERS)}", "-fno-sanitize-recover=all", "-fsanitize-recover=address",
    "-fsanitize-sections=shared",
    "--param=asan-instrumentation-with-call-threshold=0", "--param=asan-stack=0",
)  # fmt: skip

# Declared here, because to read math.h takes the compiler as long as to compile a kernel.
MATH = {
    "x": "acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 fabs floor log log10 log1p "
    "log2 rint sin sinh sqrt tan tanh trunc",
    "x, y": "atan2 copysign fmax fmin fmod hypot nextafter pow",
    "x, y, z": "fma",
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
static struct { sizes block, thread, threads, blocks; } of_launch;
#define blockIdx of_launch.block
#define threadIdx of_launch.thread
#define blockDim of_launch.threads
#define gridDim of_launch.blocks
#define __global__
#define __device__ static
typedef struct { float x, y, z, w; } __attribute__((aligned(16))) float4;
typedef struct { unsigned short x, y, z, w; } __attribute__((aligned(8))) ushort4;
typedef struct { double x, y; } __attribute__((aligned(16))) double2;
#define __umul64hi(a, b) ((unsigned long long)((unsigned __int128)(a) * (b) >> 64))
typedef __SIZE_TYPE__ size_t;
void exchange(void *value, size_t size, unsigned int from);
void wait_for_block(void);
void wait_for_cluster(void);
unsigned int rank_in_cluster(void);
void *shared_by(const void *at, unsigned int block);
struct kernel {
    void (*thread)(void **);
    unsigned int waits, cluster;
    void *of_launch;
    char *shared, *shared_end;
    void *globals;
    size_t count_of_globals;
};
extern char __start_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared[] __attribute__((weak, visibility("hidden")));
#define __shared__ static __attribute__((section("shared")))
#define __syncthreads() wait_for_block()
#define __threadfence() ((void)0)
#define __cluster_barrier_arrive() ((void)0)
#define __cluster_barrier_wait() wait_for_cluster()
#define __clusterRelativeBlockRank() rank_in_cluster()
#define __cluster_map_shared_rank(at, block) shared_by(at, block)
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
LAUNCHED = """
__attribute__((no_sanitize_address))
static void thread_of_{name}(void **arguments) {{ {name}({arguments}); }}
struct kernel kernel_{name} = {{
    thread_of_{name}, {waits}, {cluster}, &of_launch, __start_shared, __stop_shared
}};
"""
DYNAMIC = re.compile(r"extern __shared__ __align__\(16\) (unsigned char \w+)\[\];")
BOUNDS = re.compile(r"__launch_bounds__\([\d, ]+\) ")
CLUSTER = re.compile(r"__cluster_dims__\((\d+), 1, 1\) ")
HEAD = re.compile(r"__global__ void (?=\w+\()")
HEADER = re.compile(r"(\w+)\(([^)]*)\)")
_recorded: dict[str, None] | None = None  # the text of modules, while it is all that is wanted


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


def compiled(source: str, names: Sequence[str], shared: int = 0) -> list[Callable[..., None]]:
    """Compile a module; return the kernels of these names, called with grid, block and NumPy arrays.

    The array of `shared` memory whose size a launch tells is declared with that size.
    """
    given = source
    source = BOUNDS.sub("", DYNAMIC.sub(rf"__shared__ \1[{shared}] __attribute__((aligned(16)));", source))
    if _recorded is not None:
        _recorded[given if CLUSTER.search(given) else source] = None
        return [_refuse for _ in names]
    return loaded(_library(source), names)


@cache
def _library(source: str) -> Path:
    cluster = CLUSTER.search(source)  # of all kernels of a module
    source = CLUSTER.sub("", source)
    parts = [SHIM, DECLARATIONS, source.replace('extern "C" ', "")]
    made = [_launched(kernel, cluster[1] if cluster else "1") for kernel in HEAD.split(source)[1:]]
    return built("".join(parts + made), FLAGS, runtime())


def _launched(kernel: str, cluster: str) -> str:
    """Return what `blocks.c` needs of a kernel, of which the text after ``__global__ void`` is given."""
    name, parameters = HEADER.match(kernel).groups()
    waits = re.search("__sync|__shfl|__cluster_barrier", kernel) is not None
    return LAUNCHED.format(name=name, arguments=_arguments(parameters), waits=int(waits), cluster=cluster)


def _arguments(parameters: str) -> str:
    """Return the arguments of a call: each is taken from the list, and has its parameter's type."""
    types = [text[: text.rindex("*") + 1].strip() for text in parameters.split(",")]
    return ", ".join(f"({kind})arguments[{i}]" for i, kind in enumerate(types))


def guarded(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of NaN that is far from all others."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + 2 * GUARD + ALIGNMENT, np.uint8)
    start = GUARD + -(memory.ctypes.data + GUARD) % ALIGNMENT
    values = memory[start : start + nbytes]
    values[:] = 0xFF
    found: np.ndarray = values.view(dtype).reshape(shape)
    return found
