"""What the steps of a block read and report for several fits at once, in a device's memory."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.device import Device, backend, to_device
from sknet.engine.loop._device_ring import COPIED, MOST_BLOCKS, THREADS

__all__ = ["StackRing"]

# In `at` are the numbers of the next step and of this one; in `starts` the first row of each fit's order.
BEGIN = """\
extern "C" __global__ void begin(const long long *order_of_X, const long long *order_of_targets,
                                 const {number} *table, const long long *starts, long long *at,
                                 long long *rows, long long *targets, {number} *numbers)
{{
    const long long step = at[0];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        at[1] = step;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {most}; i += gridDim.x * blockDim.x) {{
        if (i < {size}) {{
            const int fit = i / {n_rows};
            const long long place = fit * {n_samples}LL + starts[fit] + step * {n_rows} + i % {n_rows};
            rows[i] = order_of_X[place];
            targets[i] = order_of_targets[place];
        }}
        if (i < {n_numbers})
            numbers[i] = table[step * {n_numbers} + i];
    }}
}}
"""
END = """\
extern "C" __global__ void end(const {number} *report, long long *at, {number} *reports)
{{
    const long long step = at[1];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {n_reports}; i += gridDim.x * blockDim.x)
        reports[step * {n_reports} + i] = report[i];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        at[0] = step + 1;
}}
"""
END_WITH_OUTPUT = """\
extern "C" __global__ void end(const {number} *report, long long *at, {number} *reports,
                               const {element} *output, {element} *outputs)
{{
    const long long step = at[1];
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < {most}; i += gridDim.x * blockDim.x) {{
        if (i < {size})
            outputs[(i / {of_fit}) * {room}LL + step * {of_fit} + i % {of_fit}] = output[i];
        if (i < {n_reports})
            reports[step * {n_reports} + i] = report[i];
    }}
    if (blockIdx.x == 0 && threadIdx.x == 0)
        at[0] = step + 1;
}}
"""


class StackRing:
    """The inputs and reports of the steps of one block, of several fits.

    Parameters
    ----------
    device : Device
        Where they are.
    numbers : array of shape (n_numbers, n_fits)
        The scalars of the updates, as a step reads them.
    most : int
        The most steps of a block.
    n_samples, size : int
        Rows of each fit, and the most rows of a step.

    Attributes
    ----------
    reports : array of shape (most, n_fits, 3)
        What each step reports.
    """

    def __init__(self, device: Device, numbers: Any, most: int, n_samples: int, size: int) -> None:
        self._device, self._owner, self._numbers = device, backend(device.kind), numbers
        self._n_fits, self._n_samples = numbers.shape[1], n_samples
        self._table = self._zeros((most, *numbers.shape), numbers.dtype)
        self._at, self._starts = self._zeros((2,), np.int64), self._zeros((self._n_fits,), np.int64)
        self._rows, self._targets = (self._zeros((self._n_fits * size,), np.int64) for _ in range(2))
        self.reports = self._zeros((most, self._n_fits, 3), numbers.dtype)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self._device)

    def start(self, table: np.ndarray, starts: np.ndarray) -> None:
        """Begin a block.

        Parameters
        ----------
        table : ndarray of shape (n_steps, n_numbers, n_fits)
            The scalars of each update.
        starts : ndarray of shape (n_fits,), dtype=int64
            The place of the first row of each fit in its order.
        """
        self._table[: len(table)] = to_device(table.astype(self._numbers.dtype), self._device)
        self._at[...] = 0
        self._starts[...] = to_device(starts, self._device)

    def taken(self, n_rows: int) -> tuple[Any, Any]:
        """Return which rows of inputs, and of targets, a step takes: arrays of shape (n_fits, n_rows)."""
        size, shape = self._n_fits * n_rows, (self._n_fits, n_rows)
        return self._rows[:size].reshape(shape), self._targets[:size].reshape(shape)

    def begin(self, n_rows: int, order_of_X: Any, order_of_targets: Any) -> Callable[[], None]:
        """Return what issues the beginning of a step on `n_rows` rows of each fit's order."""
        size, n_numbers = self._n_fits * n_rows, self._numbers.size
        counts = {"n_rows": n_rows, "n_samples": self._n_samples, "size": size, "n_numbers": n_numbers}
        most = max(size, n_numbers)
        source = BEGIN.format(number=COPIED[self._numbers.dtype.itemsize], most=most, **counts)
        given = order_of_X, order_of_targets, self._table, self._starts, self._at
        return self._kernel("begin", source, most, (*given, self._rows, self._targets, self._numbers))

    def end(self, report: Any, output: Any, outputs: Any) -> Callable[[], None]:
        """Return what issues the end of a step, which counts it.

        Parameters
        ----------
        report : array of shape (n_fits, 3)
            What the step reports; C-contiguous, as the others.
        output : array of shape (n_fits, n_rows, ...)
            Its output.
        outputs : array of shape (n_fits, n, ...) or None
            Where outputs go; None if no score reads them.
        """
        number, element = (COPIED[x.dtype.itemsize] for x in (self._numbers, output))
        left, n_reports = (report, self._at, self.reports), 3 * self._n_fits
        if outputs is None:
            return self._kernel("end", END.format(number=number, n_reports=n_reports), n_reports, left)
        size, most = output.size, max(output.size, n_reports)
        counts = {"most": most, "size": size, "of_fit": size // self._n_fits, "n_reports": n_reports}
        room = outputs.size // self._n_fits
        source = END_WITH_OUTPUT.format(number=number, element=element, room=room, **counts)
        return self._kernel("end", source, most, (*left, output, outputs))

    def _kernel(self, name: str, source: str, n: int, arrays: tuple[Any, ...]) -> Callable[[], None]:
        """Return what launches a kernel, with a thread for each of `n` elements, or for some of them."""
        [kernel] = self._owner.kernels(source, [name], self._device)
        threads = min(THREADS, n)
        blocks = min(-(-n // threads), MOST_BLOCKS)
        return lambda: kernel((blocks,), (threads,), arrays)
