"""What the steps of a block read and report, in a device's memory, where each step finds its place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.device import Device, backend, to_device
from sknet.exceptions import DeviceError

__all__ = ["Issued", "Ring"]

THREADS, MOST_BLOCKS = 256, 512
COPIED = {1: "char", 2: "short", 4: "int", 8: "long long"}  # in C, by bytes: elements are only moved

# In `at` are the numbers of the next step and of this one, the first row of the order, and that of outputs.
BEGIN = """\
extern "C" __global__ void begin(const long long *order_of_X, const long long *order_of_targets,
                                 const {number} *table, long long *at, long long *rows,
                                 long long *targets, {number} *numbers)
{{
    const long long step = at[0], first = at[2] + step * {n_rows};
    if (blockIdx.x == 0 && threadIdx.x == 0)
        at[1] = step;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {most}; i += gridDim.x * blockDim.x) {{
        if (i < {n_rows}) {{
            rows[i] = order_of_X[first + i];
            targets[i] = order_of_targets[first + i];
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
    reports[3 * step + threadIdx.x] = report[threadIdx.x];
    if (threadIdx.x == 0)
        at[0] = step + 1;
}}
"""
END_WITH_OUTPUT = """\
extern "C" __global__ void end(const {number} *report, long long *at, {number} *reports,
                               const {element} *output, {element} *outputs)
{{
    const long long step = at[1], first = (at[3] + step * {n_rows}) * {width};
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < {size}; i += gridDim.x * blockDim.x)
        outputs[first + i] = output[i];
    if (blockIdx.x == 0 && threadIdx.x < 3)
        reports[3 * step + threadIdx.x] = report[threadIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        at[0] = step + 1;
}}
"""


class Ring:
    """The inputs and reports of the steps of one block.

    Parameters
    ----------
    device : Device
        Where they are.
    numbers : array of shape (n_numbers,)
        The scalars of an update, as a step reads them.
    most : int
        The most steps of a block.
    size : int
        The most rows of a step.

    Attributes
    ----------
    rows, targets : array of shape (size,), dtype=int64
        Which rows of inputs, and of targets and weights, the present step takes.
    reports : array of shape (most, 3)
        What each step reports.
    """

    def __init__(self, device: Device, numbers: Any, most: int, size: int) -> None:
        self._device, self._owner, self._numbers = device, backend(device.kind), numbers
        self._table = self._zeros((most, numbers.shape[0]), numbers.dtype)
        self._at = self._zeros((4,), np.int64)
        self.rows, self.targets = self._zeros((size,), np.int64), self._zeros((size,), np.int64)
        self.reports = self._zeros((most, 3), numbers.dtype)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self._device)

    def start(self, table: np.ndarray, first_row: int, first_output: int) -> None:
        """Begin a block.

        Parameters
        ----------
        table : ndarray of shape (n_steps, n_numbers)
            The scalars of each update.
        first_row, first_output : int
            The place of the first row in the epoch's order, and that of its output.
        """
        self._table[: len(table)] = to_device(table.astype(self._numbers.dtype), self._device)
        self._at[...] = to_device(np.array([0, 0, first_row, first_output], np.int64), self._device)

    def begin(self, n_rows: int, order_of_X: Any, order_of_targets: Any) -> Callable[[], None]:
        """Return what issues the beginning of a step on `n_rows` rows of the epoch's order."""
        n_numbers = self._numbers.shape[0]
        most, number = max(n_rows, n_numbers), COPIED[self._numbers.dtype.itemsize]
        source = BEGIN.format(number=number, n_rows=n_rows, n_numbers=n_numbers, most=most)
        orders, taken = (order_of_X, order_of_targets), (self.rows, self.targets, self._numbers)
        return self._kernel("begin", source, most, (*orders, self._table, self._at, *taken))

    def end(self, report: Any, output: Any, outputs: Any) -> Callable[[], None]:
        """Return what issues the end of a step, which counts it.

        Parameters
        ----------
        report : array of shape (3,)
            What the step reports.
        output : array of shape (n_rows, ...)
            Its output; C-contiguous.
        outputs : array of shape (n, ...) or None
            Where outputs go; None if no score reads them.
        """
        number, element = (COPIED[x.dtype.itemsize] for x in (self._numbers, output))
        left = report, self._at, self.reports
        if outputs is None:
            return self._kernel("end", END.format(number=number), 3, left)
        n_rows, size = len(output), output.size
        counts = {"n_rows": n_rows, "width": size // n_rows, "size": size}
        source = END_WITH_OUTPUT.format(number=number, element=element, **counts)
        return self._kernel("end", source, size, (*left, output, outputs))

    def _kernel(self, name: str, source: str, n: int, arrays: tuple[Any, ...]) -> Callable[[], None]:
        """Return what launches a kernel, with a thread for each of `n` elements, or for some of them."""
        [kernel] = self._owner.kernels(source, [name], self._device)
        threads = min(THREADS, max(n, 3))
        blocks = min(-(-n // threads), MOST_BLOCKS)
        return lambda: kernel((blocks,), (threads,), arrays)


class Issued:
    """The work of a step: launches at first, and from the second time on one graph of them, if that can be.

    Parameters
    ----------
    launches : callable
        Issues the work.
    device : Device
        Where it runs.

    Attributes
    ----------
    refusal : str or None
        Why there is no graph; None before it is tried.
    """

    def __init__(self, launches: Callable[[], None], device: Device) -> None:
        self._run, self._launches, self._device = launches, launches, device
        self._is_warm = False  # until kernels are compiled and loaded
        self.refusal: str | None = None

    def __call__(self) -> None:
        if self._is_warm and self._run is self._launches and self.refusal is None:
            try:
                self._run = backend(self._device.kind).captured(self._launches, self._device)
            except DeviceError as error:
                self.refusal = str(error)
        self._run()
        self._is_warm = True
