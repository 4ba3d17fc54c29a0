"""Inputs and reports of a block's steps in a device's memory, where each step finds its place."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.device import Device, Issued, backend, to_device

__all__ = [
    "BEGIN",
    "END",
    "MOST_BLOCKS",
    "THREADS",
    "WARP",
    "Issued",
    "Left",
    "Ring",
    "Taken",
    "index_type",
    "type_of",
]

THREADS, MOST_BLOCKS, WARP = 256, 512, 32
NARROW = 1 << 31  # up to this many elements, 32-bit indices suffice
COPIED = {1: "char", 2: "short", 4: "int", 8: "long long"}  # in C, by bytes: elements are only moved

# In `at` are the number of the next step, the first row of the order, and that of outputs. The block that is
# ready last counts the step, when all have read which one it is.
BEGIN = """\
extern "C" __global__ void begin({parameters})
{{
    const long long step = at[0];
    const {index} thread = ({index})blockIdx.x * blockDim.x + threadIdx.x;
    const {index} threads = ({index})gridDim.x * blockDim.x;
    for ({index} i = thread; i < {n_numbers}; i += threads)
        numbers[i] = table[step * {n_numbers} + i];
{taken}    if (step > 0) {{
        const long long done = step - 1;
{left}    }}
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(ready, 1u) == gridDim.x - 1) {{
        at[0] = step + 1;
        ready[0] = 0;
    }}
}}
"""
END = """\
extern "C" __global__ void end({parameters})
{{
    const long long done = at[0] - 1;
    const {index} thread = ({index})blockIdx.x * blockDim.x + threadIdx.x;
{left}}}
"""
TAKEN = """\
    for ({index} i = thread; i < {size}; i += threads)
        to{n}[i] = from{n}[of{n}[at[1] + step * {n_rows} + i / {width}] * {stride}{element}];
"""
REPORT = """\
{indent}if (thread < 3)
{indent}    reports[3 * done + thread] = report[thread];
"""
OUTPUT = """\
{indent}for ({index} i = thread; i < {size}; i += ({index})gridDim.x * blockDim.x)
{indent}    outputs[(at[2] + done * {n_rows}) * {width} + i] = output[i];
"""


class Taken(NamedTuple):
    """Rows that a step copies to where it reads them."""

    order: Any
    source: Any
    slot: Any


class Left(NamedTuple):
    """Results that a step leaves."""

    report: Any
    output: Any
    outputs: Any


class Ring:
    """The inputs and reports of the steps of one block."""

    def __init__(self, device: Device, numbers: Any, most: int, reported: Any) -> None:
        self._device, self._owner, self._numbers = device, backend(device.kind), numbers
        self._table = self._zeros((most, numbers.shape[0]), numbers.dtype)
        self._at, self._ready = self._zeros((3,), np.int64), self._zeros((1,), np.uint32)
        self.reports = self._zeros((most, 3), reported)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self._device)

    def start(self, table: np.ndarray, first_row: int, first_output: int) -> None:
        """Begin a block."""
        self._table[: len(table)] = to_device(table.astype(self._numbers.dtype), self._device)
        self._at[...] = to_device(np.array([0, first_row, first_output], np.int64), self._device)

    def begin(self, n_rows: int, taken: Sequence[Taken], left: Left) -> Callable[[], None]:
        """Return what issues the beginning of a step on `n_rows` rows, and the end of the one before it."""
        arrays = {"at": self._at, "ready": self._ready, "numbers": self._numbers, "table": self._table}
        sizes = [self._numbers.shape[0], 3]
        for n, each in enumerate(taken):
            arrays |= {f"of{n}": each.order, f"from{n}": each.source, f"to{n}": each.slot}
            sizes.append(each.slot.size)
        index = index_type(max(*sizes, left.output.size))
        texts = [_taken(n, each, index) for n, each in enumerate(taken)]
        parts = {"taken": "".join(texts), "n_numbers": self._numbers.shape[0], "index": index}
        return self._kernel("begin", BEGIN, parts, n_rows, arrays, left, max(sizes))

    def end(self, n_rows: int, left: Left) -> Callable[[], None]:
        """Return what issues the end of the last step of a block."""
        parts = {"index": index_type(left.output.size)}
        return self._kernel("end", END, parts, n_rows, {"at": self._at}, left, 3)

    def _kernel(
        self,
        name: str,
        text: str,
        parts: dict[str, Any],
        n_rows: int,
        arrays: dict[str, Any],
        left: Left,
        n: int,
    ) -> Callable[[], None]:
        """Return what launches a kernel for `n` elements or more, each with a thread, up to so many."""
        indent = " " * (8 if name == "begin" else 4)
        moved = REPORT.format(indent=indent)
        arrays = arrays | {"report": left.report, "reports": self.reports}
        if left.outputs is not None:
            n, size = max(n, left.output.size), left.output.size
            counts = {"n_rows": n_rows, "width": size // n_rows, "size": size, "index": parts["index"]}
            moved += OUTPUT.format(indent=indent, **counts)
            arrays |= {"output": left.output, "outputs": left.outputs}
        parameters = ", ".join(f"{type_of(name, array)} *{name}" for name, array in arrays.items())
        source = text.format(parameters=parameters, left=moved, **parts)
        [kernel] = self._owner.kernels(source, [name], self._device)
        threads = min(THREADS, -(-n // WARP) * WARP)
        blocks = min(-(-n // threads), MOST_BLOCKS)
        given = tuple(arrays.values())
        return lambda: kernel((blocks,), (threads,), given)


def index_type(size: int) -> str:
    return "unsigned int" if size < NARROW else "unsigned long long"


def type_of(name: str, array: Any) -> str:
    """Return the type in C of an array's elements, constant if a kernel only reads them."""
    kind = "unsigned int" if name == "ready" else COPIED[array.dtype.itemsize]
    is_read = name.startswith(("of", "from")) or name in ("table", "report", "output", "starts")
    return f"const {kind}" if is_read else kind


def _taken(n: int, each: Taken, index: str) -> str:
    """Return the loop that copies rows."""
    source, n_rows = each.source, each.slot.shape[0]
    strides = [stride // source.dtype.itemsize for stride in source.strides]
    width = each.slot.size // n_rows
    along = 1 if source.ndim != 2 else strides[1]
    element = f" + i % {width}" if width > 1 else ""
    element += f" * (long long){along}" if element and along != 1 else ""
    counts = {"size": each.slot.size, "n_rows": n_rows, "width": width, "stride": strides[0]}
    return TAKEN.format(n=n, index=index, element=element, **counts)
