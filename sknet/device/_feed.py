"""Repeated work on a device: chunks of rows from the memory of the host, and launches as one graph."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

from sknet.device._backend import Device, backend
from sknet.exceptions import DeviceError

# -- rows -------------------------------------------------------------------------------------

ALIGNMENT = 64  # a cache line

Form = tuple[tuple[int, ...], "np.dtype[Any]"]
Write = Callable[[int, int, Sequence[np.ndarray]], None]


class Feed:
    """Rows in the host's memory, of which a device holds two chunks: one to compute with, one on its way."""

    # The host writes rows into one of two page-locked buffers, from which they are copied beside what the
    # device computes. What reads a chunk waits for its copy, and that for what reads the chunk before it.
    most_bytes = 32 << 20
    """The most bytes of a buffer in the host's memory, unless a row has more."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a feed of rows to a device cannot be pickled or copied")

    def __init__(self, device: Device, forms: Sequence[Form], n_rows: int, rows: int, write: Write) -> None:
        owner = backend(device.kind)
        self.rows, self._n_rows, self._write = rows, n_rows, write
        self._transfers = owner.transfers(device)
        self.arrays = [owner.empty((2 * rows, *shape), dtype, device) for shape, dtype in forms]
        self.nbytes: int = sum(array.nbytes for array in self.arrays)
        width = sum(math.prod(shape) * dtype.itemsize for shape, dtype in forms)
        self._staged = min(rows, max(1, self.most_bytes // max(width, 1)))
        self._staging = [self._divided(forms, self._staged) for _ in range(2)]
        begun = self._transfers.mark()  # the memory may come from work that is not done
        self._read, self._arrived = [begun, begun], [begun, begun]  # marks, for both chunks
        self._copied: list[Any] = [None, None]  # and for both buffers of the host
        self._held: list[int | None] = [None, None]  # the numbers of the chunks
        self._number: int | None = None  # of the chunk that is read
        self._next = 0  # of the two buffers of the host

    def _divided(self, forms: Sequence[Form], rows: int) -> list[np.ndarray]:
        """Return host arrays that share one block of memory."""
        sizes = [rows * math.prod(shape) * dtype.itemsize for shape, dtype in forms]
        ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes])
        memory, found, start = self._transfers.memory(max(int(ends[-1]), 1)), [], 0
        for (shape, dtype), size, end in zip(forms, sizes, ends.tolist(), strict=True):
            found.append(memory[start : start + size].view(dtype).reshape(rows, *shape))
            start = end
        return found

    def __del__(self) -> None:
        # Before the memory of both sides is free for others. Nobody can catch what a lost device raises here.
        with suppress(Exception):
            self._transfers.finish()

    def restart(self) -> None:
        """Forget the copied rows: all rows change."""
        self._leave()
        self._held = [None, None]

    def place_of(self, row: int) -> int:
        """Return the place of a row in `arrays`; what the current stream is given from now on may read it.

        This ends the reading of rows of other chunks.
        """
        number = row // self.rows
        if number != self._number:
            self._leave()
            if self._held[number % 2] != number:
                self._load(number)
            self._transfers.follow(self._arrived[number % 2])
            self._number = number
        return number % 2 * self.rows + row % self.rows

    def look_ahead(self) -> None:
        """Begin to copy the chunk that comes after the one that is read, if there is one."""
        if self._number is None:
            return
        number = self._number + 1
        if number * self.rows < self._n_rows and self._held[number % 2] != number:
            self._load(number)

    def _leave(self) -> None:
        if self._number is not None:
            self._read[self._number % 2] = self._transfers.mark()
            self._number = None

    def _load(self, number: int) -> None:
        half, begin = number % 2, number * self.rows
        end, shift = min(begin + self.rows, self._n_rows), half * self.rows - begin
        self._held[half] = None
        try:
            for start in range(begin, end, self._staged):
                stop = min(start + self._staged, end)
                which, self._next = self._next, 1 - self._next
                if self._copied[which] is not None:
                    self._transfers.wait(self._copied[which])
                sources = [x[: stop - start] for x in self._staging[which]]
                self._write(start, stop, sources)
                targets = [x[start + shift : stop + shift] for x in self.arrays]
                self._copied[which] = self._transfers.send(sources, targets, self._read[half])
        except BaseException:  # a copy may have begun whose mark is not known
            self._transfers.finish()
            raise
        self._arrived[half] = self._copied[which]
        self._held[half] = number


# -- repeated work ----------------------------------------------------------------------------


class Issued:
    """Work on a device: launches at first, and from the second time on one graph of them, if that can be.

    `launches` issues the work; `refusal` tells why there is no graph, and is None before one is tried.
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError("work on a device cannot be pickled or copied: make it again from what issues it")

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
