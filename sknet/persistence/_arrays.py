"""The arrays of a document: each under a name of its own, or small ones joined in one array of bytes."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sknet.persistence._container import CODES, DTYPES, ZEROS, are_counts, plain, without_other_booleans

__all__ = ["Joined", "Named", "Stored"]

SMALL = 1 << 14  # bytes from which on an array has a name of its own: 60 bytes in the header
JOINED = "small"  # the name of all others
RESERVED = ("__metadata__", ZEROS)

Array = np.ndarray[Any, Any]


class Named:
    """Arrays by their places in a document."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def added(self, place: str, array: Array) -> str:
        """Add the array at a place; return what the document says of it: its name."""
        while place in self._arrays or place in RESERVED:  # keys may contain the separator
            place += "'"
        self._arrays[place] = array
        return place

    def gathered(self) -> dict[str, Array]:
        """Return the arrays of the file."""
        return self._arrays


class Joined:
    """Large arrays by number; the bytes of small ones, in the order in which the document mentions them."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._small: list[Array] = []

    def added(self, place: str, array: Array) -> Any:
        """Add the array at a place; return what the document says of it: its name, or dtype and shape."""
        if array.nbytes >= SMALL:
            name = str(len(self._arrays))
            self._arrays[name] = array
            return name
        array = plain(place, array)
        self._small.append(array.reshape(-1).view(np.uint8))
        return [CODES[array.dtype.newbyteorder("=")], list(array.shape)]

    def gathered(self) -> dict[str, Array]:
        """Return the arrays of the file."""
        return {**self._arrays, **({JOINED: np.concatenate(self._small)} if self._small else {})}


class Stored:
    """The arrays of a file, each of which a document has to take once."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)
        self._start: int | None = None  # of the next small array; None before the first

    def taken(self, said: Any) -> Array | None:
        """Return the array of which a document says so, or None if there is none (any more)."""
        if isinstance(said, str):
            return self._arrays.pop(said, None)
        is_small = (
            isinstance(said, list) and len(said) == 2 and isinstance(said[0], str) and said[0] in DTYPES
        )
        return self._small(*said) if is_small else None

    def _small(self, code: str, shape: Any) -> Array | None:
        dtype, joined = np.dtype(DTYPES[code]), self._arrays.get(JOINED)
        if joined is None or joined.dtype != np.uint8 or joined.ndim != 1 or not are_counts(shape):
            return None
        start = self._start or 0
        stop = start + math.prod(shape) * dtype.itemsize
        if stop > joined.size:
            raise ValueError(f"a small array ends at byte {stop} of {joined.size}")
        is_bool = dtype.kind == "b"
        found = np.empty(shape, np.uint8 if is_bool else dtype)  # a copy, so that it is aligned
        found.reshape(-1).view(np.uint8)[:] = joined[start:stop]
        self._start = stop
        return without_other_booleans(found) if is_bool else found

    def unused(self) -> list[str]:
        """Return the names of arrays that were not taken, or not in full."""
        joined = self._arrays.get(JOINED)
        is_used = joined is not None and self._start == joined.size
        return [name for name in self._arrays if name != JOINED or not is_used]
