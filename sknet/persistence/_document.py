"""Documents: nested dicts and lists of numbers, texts and arrays, in one file."""

import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.exceptions import LoadError
from sknet.persistence._container import (
    CODES,
    DTYPES,
    ZEROS,
    Contents,
    are_counts,
    compressible,
    damaged,
    parse_json,
    plain,
    read_file,
    without_other_booleans,
    write_file,
)

SMALL = 1 << 14  # bytes from which on an array has a name of its own: 60 bytes in the header
JOINED = "small"  # the name of all others
RESERVED = ("__metadata__", ZEROS)
Array = np.ndarray[Any, Any]
ARRAY, FLOAT = "$array", "$float"
NOT_FINITE = ("nan", "inf", "-inf")


def write(
    path: "str | PathLike[str]", tree: Any, kind: str, *, compress: bool = False, spent: int = 0
) -> None:
    """Write a document to a file atomically.

    The file is written under another name, flushed to disk and renamed, so it is never incomplete, even
    if the process or the machine stops. It has the safetensors format: arrays, and JSON text. It contains
    no pickle, and reading it executes no code. `compress` is for files that are hardly larger than their
    arrays: the JSON text is compressed, and arrays of less than 16 KiB are joined. `spent` are the bytes of
    memory that the value made of the document takes; zeros follow if the file would not be half as large as
    all memory that reading it takes, but for 16 MiB.
    """
    contents = _contents(tree, kind, JoinedArrays() if compress else NamedArrays())
    if compress and not compressible(contents, spent):
        contents, compress = _contents(tree, kind, NamedArrays()), False
    write_file(Path(path), contents, compress=compress, spent=spent)


def _contents(tree: Any, kind: str, arrays: "JoinedArrays | NamedArrays") -> Contents:
    described = _encoded(tree, "", arrays)
    text = json.dumps(described, allow_nan=False, separators=(",", ":"))
    return Contents(kind, text, arrays.gathered())


def read(path: "str | PathLike[str]", kind: str) -> Any:
    found, tree = read_any(path)
    if found != kind:
        raise LoadError(f"{path} is an sknet file of kind {found!r}, not {kind!r}")
    return tree


def read_any(path: "str | PathLike[str]") -> tuple[str, Any]:
    """Read a document of any kind."""
    kind, tree, _ = read_within(path)
    return kind, tree


def read_within(path: "str | PathLike[str]") -> tuple[str, Any, int]:
    """Read a document of any kind, and return how much memory what is made of it may take."""
    file = Path(path)
    contents = read_file(file)
    tree = parse_json(file, contents.text)
    arrays = StoredArrays(contents.arrays)
    try:
        found = _decoded(tree, arrays)
    except (ValueError, RecursionError) as error:
        raise damaged(file, f"its document cannot be read ({error})") from None
    if unused := arrays.unused():
        raise damaged(file, f"its document does not mention the arrays {unused[:5]}")
    return contents.kind, found, contents.spare


def _encoded(value: Any, place: str, arrays: "NamedArrays | JoinedArrays") -> Any:
    if isinstance(value, np.ndarray):
        return {ARRAY: arrays.added(place, value)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {FLOAT: repr(float(value))}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_encoded(item, _below(place, n), arrays) for n, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key in (ARRAY, FLOAT):
                raise TypeError(
                    f"a document's keys must be str, except {ARRAY!r} and {FLOAT!r}: "
                    f"got {shown(key)} in {place!r}"
                )
        return {key: _encoded(item, _below(place, key), arrays) for key, item in value.items()}
    raise TypeError(
        f"a document holds numbers, texts, arrays, lists and dicts: got {type(value).__name__} in {place!r}"
    )


def _below(place: str, key: object) -> str:
    return f"{place}/{key}" if place else str(key)


def _decoded(value: Any, arrays: "StoredArrays") -> Any:
    """Return a value with the arrays that it names, each taken from `arrays`."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, (list, dict)):
                value[number] = _decoded(item, arrays)
    elif isinstance(value, dict):
        if ARRAY in value or FLOAT in value:
            return _special(value, arrays)
        for key, item in value.items():
            if isinstance(item, (list, dict)):
                value[key] = _decoded(item, arrays)
    return value


def _special(value: dict[str, Any], arrays: "StoredArrays") -> Any:
    """Return the array or number that a dict with a reserved key represents."""
    ((key, said),) = value.items() if len(value) == 1 else [("", None)]
    if key == FLOAT and said in NOT_FINITE:
        return float(said)
    found = arrays.taken(said) if key == ARRAY else None
    if found is not None:
        return found
    raise ValueError(f"{str(value)[:80]} is neither an array (used once) nor a number")


class NamedArrays:
    """Arrays by their places in a document."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def added(self, place: str, array: Array) -> str:
        """Add the array at a place; return its entry in the document: its name."""
        while place in self._arrays or place in RESERVED:  # keys may contain the separator
            place += "'"
        self._arrays[place] = array
        return place

    def gathered(self) -> dict[str, Array]:
        return self._arrays


class JoinedArrays:
    """Large arrays by number; the bytes of small ones, in the order in which the document mentions them."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._small: list[Array] = []

    def added(self, place: str, array: Array) -> Any:
        """Add the array at a place; return its entry in the document: its name, or dtype and shape."""
        if array.nbytes >= SMALL:
            name = str(len(self._arrays))
            self._arrays[name] = array
            return name
        array = plain(place, array)
        self._small.append(array.reshape(-1).view(np.uint8))
        return [CODES[array.dtype.newbyteorder("=")], list(array.shape)]

    def gathered(self) -> dict[str, Array]:
        return {**self._arrays, **({JOINED: np.concatenate(self._small)} if self._small else {})}


class StoredArrays:
    """The arrays of a file, each of which a document has to take once."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)
        self._start: int | None = None  # of the next small array; None before the first

    def taken(self, said: Any) -> Array | None:
        """Return the array that an entry of a document names; None if it is missing or was taken before."""
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
