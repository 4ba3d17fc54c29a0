"""Raw outputs of an epoch: steps write them into a buffer, where they stay until they are scored."""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Outputs"]

MOST_KEPT = 1 << 18  # the most numbers that are buffered


class Outputs:
    """A buffer for raw outputs that are to be scored."""

    def __init__(self, n_samples: int | None) -> None:
        self._n_samples = n_samples
        self._array: Any = None
        self._part = sys.maxsize  # rows
        self.n_rows = 0

    def free(
        self, n_rows: int, shape: tuple[int, ...], dtype: Any, xp: Any = np, wanted_bytes: int = 0
    ) -> Any:
        """Return memory for the next rows."""
        array = self._array
        if (
            array is None
            or len(array) - self.n_rows < n_rows
            or array.shape[1:] != shape
            or array.dtype != dtype
        ):
            wanted = wanted_bytes // max(math.prod(shape) * np.dtype(dtype).itemsize, 1)
            array = self._enlarged(n_rows, shape, dtype, xp, wanted)
        return array[self.n_rows :]

    def _enlarged(self, n_rows: int, shape: tuple[int, ...], dtype: Any, xp: Any, wanted: int) -> Any:
        rows = n_rows
        if self._n_samples is not None:
            self._part = max(1, min(self._n_samples, MOST_KEPT // max(math.prod(shape), 1)))
            rows = max(self._part - 1 + n_rows, wanted)  # a batch may extend beyond a full part
            rows = min(rows, self._n_samples)
        array = xp.empty((max(rows, self.n_rows + n_rows), *shape), dtype=dtype)
        if self.n_rows:
            array[: self.n_rows] = self.waiting
        self._array = array
        return array

    @property
    def memory(self) -> Any:
        """The whole buffer, of which `free` returns a part; None before."""
        return self._array

    @property
    def waiting(self) -> Any:
        """The buffered outputs, of shape (n_rows, ...); None if there never were any."""
        return None if self._array is None else self._array[: self.n_rows]

    def add(self, n_rows: int) -> None:
        """Count rows that were written to what `free` returned."""
        self.n_rows += n_rows

    def parts(self, also_last: bool = False) -> Iterator[Any]:
        """Yield the outputs part by part, each valid until the next step, and remove them."""
        start, least = 0, 1 if also_last else self._part
        while self.n_rows - start >= least:
            stop = min(start + self._part, self.n_rows)
            yield self._array[start:stop]
            start = stop
        left = self.n_rows - start
        if start and left:
            self._array[:left] = self._array[start : self.n_rows]
        self.n_rows = left
