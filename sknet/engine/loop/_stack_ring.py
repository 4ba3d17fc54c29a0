"""Inputs and results of a block's steps for several fits at once, in a device's memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sknet.device import Device, backend, to_device
from sknet.engine.loop._device_ring import (
    BEGIN,
    END,
    MOST_BLOCKS,
    THREADS,
    WARP,
    Left,
    Taken,
    index_type,
    type_of,
)

__all__ = ["StackRing"]

# The texts around these count steps in `at`; `starts` has the first row of each fit in its order.
TAKEN = """\
    for ({index} i = thread; i < {size}; i += threads) {{
        const {index} fit = i / {of_fit};
        const long long row = fit * {n_samples}LL + starts[fit] + step * {n_rows} + i % {of_fit} / {width};
        to{n}[i] = from{n}[of{n}[row] * {width} + i % {width}];
    }}
"""
REPORT = """\
{indent}for ({index} i = thread; i < {n_reports}; i += ({index})gridDim.x * blockDim.x)
{indent}    reports[done * {n_reports} + i] = report[i];
"""
OUTPUT = """\
{indent}for ({index} i = thread; i < {size}; i += ({index})gridDim.x * blockDim.x)
{indent}    outputs[i / {of_fit} * {room}LL + done * {of_fit} + i % {of_fit}] = output[i];
"""


class StackRing:
    """The inputs and reports of the steps of one block, of several fits; as `Ring` for one."""

    def __init__(self, device: Device, numbers: Any, most: int, n_samples: int, reported: Any) -> None:
        self._device, self._owner, self._numbers = device, backend(device.kind), numbers
        self._n_fits, self._n_samples = numbers.shape[1], n_samples
        self._table = self._zeros((most, *numbers.shape), numbers.dtype)
        self._at, self._ready = self._zeros((1,), np.int64), self._zeros((1,), np.uint32)
        self._starts = self._zeros((self._n_fits,), np.int64)
        self.reports = self._zeros((most, self._n_fits, 3), reported)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self._device)

    def start(self, table: np.ndarray, starts: np.ndarray) -> None:
        """Begin a block."""
        self._table[: len(table)] = to_device(table.astype(self._numbers.dtype), self._device)
        self._at[...] = 0
        self._starts[...] = to_device(starts, self._device)

    def begin(self, taken: Sequence[Taken], left: Left) -> Callable[[], None]:
        """Return what issues the beginning of a step, and the end of the one before it."""
        arrays = {"at": self._at, "ready": self._ready, "starts": self._starts}
        arrays |= {"numbers": self._numbers, "table": self._table}
        sizes = [self._numbers.size, self._n_fits * 3]
        for n, each in enumerate(taken):
            arrays |= {f"of{n}": each.order, f"from{n}": each.source, f"to{n}": each.slot}
            sizes.append(each.slot.size)
        index = index_type(max(*sizes, left.output.size))
        texts = [self._taken(n, each, index) for n, each in enumerate(taken)]
        parts = {"taken": "".join(texts), "n_numbers": self._numbers.size, "index": index}
        return self._kernel("begin", BEGIN, parts, arrays, left, max(sizes))

    def _taken(self, n: int, each: Taken, index: str) -> str:
        """Return the loop that copies rows."""
        size, n_rows = each.slot.size, each.slot.shape[1]
        counts = {"size": size, "of_fit": size // self._n_fits, "width": size // (self._n_fits * n_rows)}
        return TAKEN.format(n=n, index=index, n_rows=n_rows, n_samples=self._n_samples, **counts)

    def end(self, left: Left) -> Callable[[], None]:
        """Return what issues the end of the last step of a block."""
        parts = {"index": index_type(left.output.size)}
        return self._kernel("end", END, parts, {"at": self._at}, left, 3 * self._n_fits)

    def _kernel(
        self, name: str, text: str, parts: dict[str, Any], arrays: dict[str, Any], left: Left, n: int
    ) -> Callable[[], None]:
        """Return what launches a kernel for `n` elements or more, each with a thread, up to so many."""
        indent, index = " " * (8 if name == "begin" else 4), parts["index"]
        moved = REPORT.format(indent=indent, index=index, n_reports=3 * self._n_fits)
        arrays = arrays | {"report": left.report, "reports": self.reports}
        if left.outputs is not None:
            size, room = left.output.size, left.outputs.size // self._n_fits
            counts = {"size": size, "of_fit": size // self._n_fits, "room": room}
            moved += OUTPUT.format(indent=indent, index=index, **counts)
            arrays |= {"output": left.output, "outputs": left.outputs}
            n = max(n, size)
        parameters = ", ".join(f"{type_of(name, array)} *{name}" for name, array in arrays.items())
        source = text.format(parameters=parameters, left=moved, **parts)
        [kernel] = self._owner.kernels(source, [name], self._device)
        threads = min(THREADS, -(-n // WARP) * WARP)
        blocks = min(-(-n // threads), MOST_BLOCKS)
        given = tuple(arrays.values())
        return lambda: kernel((blocks,), (threads,), given)
