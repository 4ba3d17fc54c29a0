"""One file with a text and named arrays: the safetensors format, with a checksum over all of it.

Eight bytes with the length of the header; the header in JSON, with dtype, shape and offsets of each array,
and texts under ``__metadata__``; then the arrays. Any safetensors reader can read it. The checksum is the
first of the texts, so it has the same offset in every file and covers every byte but its own. Zeros follow
the arrays where reading would take more than twice the size of the file: a text takes many times its own.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from sknet.exceptions import LoadError
from sknet.persistence._atomic import write_atomically

__all__ = ["ZEROS", "Contents", "damaged", "needed", "parse_json", "read_file", "write_file"]

FORMAT = 1
ZEROS = "__zeros__"  # the name of an array that is never read
CHUNK = 1 << 16
LITTLE = 15 << 20  # memory in bytes that reading may take beyond twice the size of the file
ROUNDED = 1 << 10  # bytes, more than what describes an array takes
PER_VALUE = 100  # the most bytes of memory for a value in a text, and for an escaped character
PER_CHARACTER = 4  # for a text twice, as bytes, and as what is parsed
PER_WIDE = 8  # if one escaped character may widen all others
MARKS = (b",", b":", b"[", b"{", b"\\u")
MOST_AXES = 64  # NumPy's limit
MOST_BYTES = 1 << 62
DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BOOL": "bool"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
CODES = {np.dtype(name): code for code, name in DTYPES.items()}
BEGINS = b'{"__metadata__":{"sha256":"'
CHECKSUM = slice(8 + len(BEGINS), 8 + len(BEGINS) + 64)


class Contents(NamedTuple):
    """The contents of a file."""

    kind: str
    text: str
    arrays: dict[str, np.ndarray[Any, Any]]
    spare: int = 0


class Place(NamedTuple):
    """Dtype, shape and offsets of an array, in the bytes after the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def write_file(path: Path, contents: Contents, *, spent: int = 0) -> None:
    """Write a file atomically."""
    arrays = {name: plain(name, array) for name, array in contents.arrays.items()}
    # The format allows no gaps; with the widest elements first, all arrays are aligned.
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    before, after = _header(contents, arrays)
    lacking = needed(after) + spent - LITTLE - 2 * (len(before) + len(after))
    if lacking > 0:
        arrays[ZEROS] = np.zeros(lacking // 2 + ROUNDED, np.uint8)
        before, after = _header(contents, arrays)
    digest = hashlib.sha256(before)
    digest.update(after)
    parts = [array.reshape(-1).view(np.uint8) for array in arrays.values()]
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]
    write_atomically(path, [before, digest.hexdigest().encode(), after, *parts])


def plain(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as stored in the file: contiguous, little-endian, or raise a TypeError."""
    if array.dtype.newbyteorder("=") not in CODES:
        raise TypeError(f"array {name!r} has dtype {array.dtype}: a file holds {', '.join(DTYPES.values())}")
    return np.require(array, array.dtype.newbyteorder("<"), "C")


def _header(contents: Contents, arrays: Mapping[str, np.ndarray[Any, Any]]) -> tuple[bytes, bytes]:
    """Return the bytes before and after the checksum, up to the arrays."""
    places, start = {}, 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        code = CODES[array.dtype.newbyteorder("=")]
        places[name] = {"dtype": code, "shape": array.shape, "data_offsets": [start, stop]}
        start = stop
    texts = {"format": f"sknet {FORMAT}", "kind": contents.kind, "content": contents.text}
    said = json.dumps(texts, separators=(",", ":"))[1:]
    rest = json.dumps(places, separators=(",", ":"))[1:]
    after = f'",{said},{rest}' if places else f'",{said}}}'
    length = len(BEGINS) + 64 + len(after)
    padding = -length % 8
    return (length + padding).to_bytes(8, "little") + BEGINS, after.encode() + b" " * padding


def read_file(path: Path) -> Contents:
    """Read a file, checking every byte."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_sum(path, file, size)
        header, start = _read_header(path, file, size)
        kind, text = _check_texts(path, header.pop("__metadata__", None))
        places = _check_places(path, header, size - start)
        places.pop(ZEROS, None)
        arrays = {name: _read_array(path, file, name, place, start) for name, place in places.items()}
    # Whoever owns arrays may copy each once.
    most = LITTLE + 2 * (size - sum(array.nbytes for array in arrays.values()))
    return Contents(kind, text, arrays, most - _checked_needs(path, text, most, "text"))


def parse_json(path: Path, text: "str | bytes") -> Any:
    """Parse JSON text strictly: no duplicate keys, NaN or infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not allowed")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its text cannot be read ({error})") from None


def damaged(path: Path, what: str) -> LoadError:
    """Return the error for a file with invalid contents."""
    return LoadError(f"{path} is damaged: {what}")


def _check_sum(path: Path, file: BinaryIO, size: int) -> None:
    """Raise a LoadError unless the file has its checksum."""
    if not size:
        raise LoadError(f"{path} is damaged: it is empty")
    head = file.read(CHECKSUM.stop)
    if head[8 : CHECKSUM.start] != BEGINS:
        raise LoadError(f"{path} was not written by sknet, or its first bytes are damaged")
    digest = hashlib.sha256(head[: CHECKSUM.start])
    while part := file.read(CHUNK):
        digest.update(part)
    if digest.hexdigest().encode() != head[CHECKSUM]:
        raise LoadError(
            f"{path} is damaged: its {size} bytes do not match the checksum that was written with them; "
            "it has been truncated or changed"
        )


def _read_header(path: Path, file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the arrays."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise damaged(path, f"its header claims {length} bytes, but the file has {size}")
    text = file.read(length)
    _checked_needs(path, text, 2 * size + LITTLE, "header")
    header = parse_json(path, text)
    if not isinstance(header, dict):
        raise damaged(path, "its header is not a JSON object")
    return header, 8 + length


def needed(text: "str | bytes") -> int:
    """Return how many bytes JSON text takes at most when it is parsed, which can be many times its own.

    Parameters
    ----------
    text : str or bytes
        The text; other characters than those of ASCII are to be escaped.

    Returns
    -------
    int
        The number of bytes.

    Raises
    ------
    ValueError
        If it has others: one of them can make all that are in memory four times as wide.

    Examples
    --------
    >>> from sknet.persistence import needed
    >>> needed('[1, 2]')
    224
    """
    if not text.isascii():
        raise ValueError("its text is not ASCII")
    text = text if isinstance(text, bytes) else text.encode()
    n_marks = sum(text.count(mark) for mark in MARKS)
    return (PER_WIDE if MARKS[-1] in text else PER_CHARACTER) * len(text) + PER_VALUE * n_marks


def _checked_needs(path: Path, text: "str | bytes", most: int, what: str) -> int:
    """Return how many bytes a parsed text takes; raise a LoadError if they are too many."""
    try:
        found = needed(text)
    except ValueError as error:
        raise damaged(path, f"{error}") from None
    if found > most:
        units = "bytes" if isinstance(text, bytes) else "characters"
        raise damaged(path, f"its {what} of {len(text)} {units} holds too many values")
    return found


def _check_texts(path: Path, found: Any) -> tuple[str, str]:
    """Return the kind of file, and its document as text."""
    texts: dict[str, Any] = found if isinstance(found, dict) else {}
    written = texts.get("format")
    known = re.fullmatch(r"sknet (\d{1,9})", written) if isinstance(written, str) else None
    number = int(known[1]) if known else 0
    if number > FORMAT:
        raise LoadError(
            f"{path} has the format {written!r}, but this version of sknet reads up to "
            f"'sknet {FORMAT}': it was written by a newer one"
        )
    kind, text = texts.get("kind"), texts.get("content")
    if number != FORMAT or not isinstance(kind, str) or not isinstance(text, str):
        raise damaged(path, f"its metadata lack format, kind or document, or have the format {written!r}")
    return kind, text


def _check_places(path: Path, header: dict[str, Any], n_bytes: int) -> dict[str, Place]:
    """Return the place of each array, in order, after checking that the arrays fill the file."""
    places = {name: _checked_place(path, name, value) for name, value in header.items()}
    places = dict(sorted(places.items(), key=lambda item: (item[1].start, item[1].stop)))
    end = 0
    for name, place in places.items():
        if place.start != end:
            raise damaged(path, f"array {name!r} begins at byte {place.start}, but should begin at {end}")
        end = place.stop
    if end != n_bytes:
        raise damaged(path, f"its arrays take {end} bytes, but {n_bytes} are there")
    return places


def _checked_place(path: Path, name: str, value: Any) -> Place:
    def refuse() -> LoadError:
        return damaged(path, f"array {name!r} is described as {str(value)[:200]}")

    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise refuse()
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES or not are_counts(shape):
        raise refuse()
    if not are_counts(offsets) or len(offsets) != 2:
        raise refuse()
    place = Place(np.dtype(DTYPES[dtype]), tuple(shape), *offsets)
    if place.stop - place.start != math.prod(shape) * place.dtype.itemsize:
        raise refuse()
    return place


def are_counts(values: Any) -> bool:
    """Tell whether a value is a list of numbers that a shape can consist of."""
    is_short = isinstance(values, list) and len(values) <= MOST_AXES
    return is_short and all(type(n) is int and 0 <= n < MOST_BYTES for n in values)


def _read_array(path: Path, file: BinaryIO, name: str, place: Place, start: int) -> np.ndarray[Any, Any]:
    file.seek(start + place.start)
    dtype = np.uint8 if place.dtype == bool else place.dtype
    found = np.fromfile(file, dtype, math.prod(place.shape))
    try:
        found = found.reshape(place.shape)
    except ValueError as error:
        raise damaged(path, f"array {name!r}: {error}") from None
    try:
        return without_other_booleans(found) if place.dtype == bool else found
    except ValueError as error:
        raise damaged(path, f"array {name!r} {error}") from None


def without_other_booleans(found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array of bytes as booleans; raise a ValueError for others than 0 and 1."""
    if found.size and found.max() > 1:
        raise ValueError(f"holds {found.max()} as a boolean")
    return found.view(bool)
