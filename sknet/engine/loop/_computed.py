"""Rows that are computed when they are read, and a window of them for native code."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

__all__ = ["ComputedRows", "Window"]

WINDOW_BYTES = 1 << 20  # of rows that are computed together: they stay in the cache until they are read


class ComputedRows(ABC):
    """Abstract base of rows that behave like an array, but are computed when they are read."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)

    @abstractmethod
    def write(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Write some rows into an array."""

    @property
    def nbytes(self) -> int:
        """Bytes that all rows would take."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows as an array, which is computed anew each time."""
        if copy is False:
            raise ValueError("rows that are computed when they are read cannot be an array without copy")
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return some rows, given by a slice, or by an array of int or bool; or one, by an int."""
        are_places = not isinstance(rows, slice) and np.ndim(rows) and np.asarray(rows).dtype.kind != "b"
        chosen = np.asarray(rows if are_places else np.arange(len(self))[rows])
        if not chosen.ndim:
            found: np.ndarray = self[chosen[np.newaxis]][0]
            return found
        out = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        self.write(chosen, out)
        return out

    def take(self, rows: Any, axis: int = 0, out: Any = None, mode: str = "raise") -> np.ndarray:
        """Return some rows, or write them into an array, as the method of NumPy's arrays does."""
        if out is None:
            return self[rows]
        self.write(np.asarray(rows), out)
        found: np.ndarray = out
        return found


class Window:
    """Memory for the rows of a few batches, from which native code reads them."""

    def __init__(self, rows: ComputedRows, size: int, n_batches: int) -> None:
        self._rows, self._size, self._last = rows, size, n_batches - 1
        per_batch = max(1, size * rows.nbytes // max(1, len(rows)))
        self._batches = max(1, WINDOW_BYTES // per_batch)
        self.room = np.empty((self._batches * size + 1, *rows.shape[1:]), rows.dtype)

    def places(self, n_samples: int) -> np.ndarray:
        """Return where each row of an epoch is in `room` once its batch was computed, as int64."""
        rows = np.arange(n_samples, dtype=np.int64)
        batch = np.minimum(rows // self._size, self._last)
        found: np.ndarray = rows + (batch % self._batches - batch) * self._size
        return found

    def compute(self, order: np.ndarray, first: int, most: int) -> int:
        """Compute the rows of some batches, and return how many: at least one, and up to `most`."""
        at = first % self._batches
        done = max(1, min(most, self._batches - at))
        stop = len(order) if first + done > self._last else (first + done) * self._size
        rows = order[first * self._size : stop]
        start = at * self._size
        self._rows.write(rows, self.room[start : start + len(rows)])
        return done
