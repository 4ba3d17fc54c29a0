"""Right labels, counted on the device that has the outputs, so that only counts are copied to the host."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sknet.device import Device, backend, device_of, to_device, to_host

__all__ = ["OF_CLASSES", "OF_LABELS", "Counts", "counted", "kernel_of"]

THREADS, MOST_BLOCKS = 256, 256
MOST = 1 << 31  # elements
TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "long long"}

# Each thread counts some of the rows, whose number is the first count; each warp adds what its threads found.
COUNT = """\
extern "C" __global__ void count(const {output} *outputs, const {target} *targets, unsigned int *counts)
{{
    const unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    unsigned int right = 0, infinite = 0, outside = 0;
    for (unsigned int row = thread; row < counts[0]; row += threads) {{
        const {output} *output = outputs + row * {columns}LL;
        bool is_finite = true;
{of_row}        infinite += !is_finite;
    }}
    for (int distance = 16; distance; distance /= 2) {{
        right += __shfl_xor_sync(0xffffffff, right, distance);
        infinite += __shfl_xor_sync(0xffffffff, infinite, distance);
        outside += __shfl_xor_sync(0xffffffff, outside, distance);
    }}
    if (threadIdx.x % 32 == 0) {{
        atomicAdd(counts + 1, right);
        atomicAdd(counts + 2, infinite);
        atomicAdd(counts + 3, outside);
    }}
}}
"""
OF_CLASSES = """\
        const {target} expected = targets[row];
        int largest = 0;
        for (int i = 0; i < {columns}; i++) {{
            is_finite &= output[i] - output[i] == 0;
            largest = output[i] > output[largest] ? i : largest;
        }}
        right += largest == expected;
        outside += !(expected >= 0 && expected < {columns});
"""
OF_LABELS = """\
        const {target} *expected = targets + row * {columns}LL;
        bool is_right = true;
        for (int i = 0; i < {columns}; i++) {{
            is_finite &= output[i] - output[i] == 0;
            is_right &= (output[i] > ({output}){threshold}) == (expected[i] > ({target})0.5);
        }}
        right += is_right;
"""


class Counts(NamedTuple):
    """Counts over some rows."""

    right: int
    infinite: int
    outside: int


def counted(outputs: Any, targets: Any, threshold: float) -> Counts | None:
    """Count the rows that are right, on the device."""
    arrays = outputs, targets
    if any(isinstance(array, np.ndarray) for array in arrays) or not _are_read(outputs, targets, threshold):
        return None
    device, (n_rows, columns) = device_of(outputs), outputs.shape
    of_row = OF_CLASSES if targets.ndim == 1 else OF_LABELS
    kernel = kernel_of(of_row, outputs.dtype.name, targets.dtype.name, columns, threshold, device)
    counts = to_device(np.array([n_rows, 0, 0, 0], np.uint32), device)
    kernel((min(-(-n_rows // THREADS), MOST_BLOCKS),), (THREADS,), (outputs, targets, counts))
    return Counts(*to_host(counts)[1:].tolist())


@lru_cache(maxsize=16)  # to load a kernel takes longer than to run it
def kernel_of(
    of_row: str, output: str, target: str, columns: int, threshold: float, device: Device
) -> Callable[..., None]:
    """Return the kernel for outputs and targets of some dtypes, by `OF_CLASSES` or `OF_LABELS`."""
    names = {"output": TYPES[output], "target": TYPES[target], "columns": columns}
    text = COUNT.format(**names, of_row=of_row.format(**names, threshold=threshold))
    [kernel] = backend(device.kind).kernels(text, ["count"], device)
    return kernel


def _are_read(outputs: Any, targets: Any, threshold: float) -> bool:
    if outputs.ndim != 2 or not 0 < outputs.size < MOST or not math.isfinite(threshold):
        return False
    is_labels = targets.shape == outputs.shape and targets.dtype.kind == "f"
    is_classes = targets.shape == outputs.shape[:1] and targets.dtype.kind == "i" and outputs.shape[1] > 1
    owner = backend(device_of(outputs).kind)
    return (is_labels or is_classes) and all(
        x.dtype.name in TYPES and owner.is_plain(x) for x in (outputs, targets)
    )
