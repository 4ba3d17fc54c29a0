"""Offsets: buffers whose lifetimes do not overlap share memory."""

import math
from typing import Any, NamedTuple

import numpy as np

from sknet.device import Device, backend

__all__ = ["ALIGNMENT", "Buffer", "Place", "aligned_memory", "assign_offsets"]

ALIGNMENT = backend("cpu").alignment  # bytes per cache line


class Place(NamedTuple):
    """Position of an array in memory."""

    start: int
    stop: int
    shape: tuple[int, ...]
    dtype: Any

    def array(self, memory: Any) -> Any:
        """Return the array in an array of bytes."""
        return memory[self.start : self.stop].view(self.dtype).reshape(self.shape)


class Buffer:
    """A block of memory and its lifetime (both ends inclusive)."""

    __slots__ = ("_parent", "aligned", "is_assembled", "kind", "nbytes", "offset", "start", "stop")

    def __init__(
        self, nbytes: int, start: int, stop: int, kind: str = "arena", alignment: int = ALIGNMENT
    ) -> None:
        self.nbytes = nbytes
        self.start = start
        self.stop = stop
        self.kind = kind
        self.aligned = -(-nbytes // alignment) * alignment
        self.offset = 0
        self._parent: Buffer | None = None
        self.is_assembled = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    @property
    def parent(self) -> "Buffer | None":
        """The buffer that contains this one."""
        return self._parent

    @parent.setter
    def parent(self, parent: "Buffer") -> None:
        self._parent = parent
        parent.is_assembled = True

    @property
    def position(self) -> int:
        """Its offset from the start of the memory."""
        return self.offset + (self._parent.position if self._parent is not None else 0)

    def place(self, shape: tuple[int, ...], dtype: Any) -> "Place":
        """Return where the first elements of the buffer are, as an array of this shape and dtype."""
        dtype = np.dtype(dtype)
        start = self.position
        return Place(start, start + math.prod(shape) * dtype.itemsize, shape, dtype)


def assign_offsets(buffers: list[Buffer]) -> tuple[int, int]:
    """Assign an offset to every buffer: largest first, each in the smallest gap that fits."""
    placed: list[Buffer] = []
    size = 0
    for buffer in sorted(buffers, key=lambda b: (-b.aligned, b.start)):
        rivals = sorted(
            (b for b in placed if b.start <= buffer.stop and buffer.start <= b.stop), key=lambda b: b.offset
        )
        buffer.offset = _best_gap(rivals, buffer.aligned)
        size = max(size, buffer.offset + buffer.aligned)
        placed.append(buffer)
    return size, _peak(buffers)


def _best_gap(rivals: list[Buffer], needed: int) -> int:
    best, best_length, end = -1, 0, 0
    for rival in rivals:
        length = rival.offset - end
        if length >= needed and (best < 0 or length < best_length):
            best, best_length = end, length
        end = max(end, rival.offset + rival.aligned)
    return end if best < 0 else best


def _peak(buffers: list[Buffer]) -> int:
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.start] = changes.get(buffer.start, 0) + buffer.aligned
        changes[buffer.stop + 1] = changes.get(buffer.stop + 1, 0) - buffer.aligned
    live = peak = 0
    for time in sorted(changes):
        live += changes[time]
        peak = max(peak, live)
    return peak


def aligned_memory(nbytes: int) -> np.ndarray:
    """Return uninitialized host memory that starts on a cache line."""
    return backend("cpu").memory(nbytes, Device("cpu"))  # type: ignore[no-any-return]
