"""One file with a text and named arrays: the layout of safetensors, with a checksum over all of it.

Eight bytes with the length of the header; the header, in JSON: what each array is and where it stands, and
under ``__metadata__`` texts; then the arrays. Any reader of safetensors can read it. The checksum is the
first of the texts, so it stands at the same place in every file and covers every byte but its own.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sknet.exceptions import LoadError
from sknet.persistence._atomic import write_atomically

__all__ = ["FORMAT", "Contents", "read_file", "write_file"]

FORMAT = 1
DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BOOL": "bool"},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
CODES = {np.dtype(name): code for code, name in DTYPES.items()}
BEGINS = b'{"__metadata__":{"sha256":"'
CHECKSUM = slice(8 + len(BEGINS), 8 + len(BEGINS) + 64)


class Contents(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    kind : str
        What it is, such as ``"checkpoint"``.
    text : str
        Its document.
    arrays : dict of str to ndarray
        Its arrays.
    """

    kind: str
    text: str
    arrays: dict[str, np.ndarray[Any, Any]]


def write_file(path: Path, contents: Contents) -> None:
    """Write a file atomically.

    Parameters
    ----------
    path : Path
        Where; replaced if it is there.
    contents : Contents
        What.

    Raises
    ------
    TypeError
        If an array has a dtype that such a file cannot hold; names it.
    """
    arrays = {name: _plain(name, array) for name, array in contents.arrays.items()}
    # The layout allows no gaps, so the longest elements come first: all are aligned then.
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    before, after = _header(contents, arrays)
    digest = hashlib.sha256(before)
    digest.update(after)
    parts = [array.reshape(-1).view(np.uint8) for array in arrays.values()]
    for part in parts:
        digest.update(part)  # type: ignore[arg-type]
    write_atomically(path, [before, digest.hexdigest().encode(), after, *parts])


def _plain(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as it stands in the file: contiguous, the least significant byte first."""
    if array.dtype.newbyteorder("=") not in CODES:
        raise TypeError(f"array {name!r} has dtype {array.dtype}: a file holds {', '.join(DTYPES.values())}")
    return np.require(array, array.dtype.newbyteorder("<"), "C")


def _header(contents: Contents, arrays: Mapping[str, np.ndarray[Any, Any]]) -> tuple[bytes, bytes]:
    """Return what stands before and after the checksum, up to the arrays."""
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
    """Read a file, of which every byte is checked.

    Parameters
    ----------
    path : Path
        Which.

    Returns
    -------
    Contents
        With arrays that may be written to.

    Raises
    ------
    LoadError
        If the file is damaged, or was not written by `write_file`; names it, and what is wrong.
    OSError
        If it cannot be opened.
    """
    raw = np.fromfile(path, np.uint8)
    header = _checked(path, raw)
    texts = header.pop("__metadata__")
    if texts.get("format") != f"sknet {FORMAT}":
        raise LoadError(
            f"{path} has the format {texts.get('format')!r}, and this version of sknet reads "
            f"'sknet {FORMAT}': it was written by a newer one"
        )
    start = 8 + _length(raw)
    arrays = {}
    for name, place in header.items():
        first, last = place["data_offsets"]
        part = raw[start + first : start + last]
        arrays[name] = part.view(DTYPES[place["dtype"]]).reshape(place["shape"])
    return Contents(texts["kind"], texts["content"], arrays)


def _length(raw: np.ndarray[Any, Any]) -> int:
    return int.from_bytes(raw[:8].tobytes(), "little")


def _checked(path: Path, raw: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the header of a file that is as it was written."""
    if not len(raw):
        raise LoadError(f"{path} is damaged: it is empty")
    if raw[8 : CHECKSUM.start].tobytes() != BEGINS:
        raise LoadError(f"{path} was not written by sknet, or its first bytes are damaged")
    digest = hashlib.sha256(raw[: CHECKSUM.start])  # type: ignore[arg-type]
    digest.update(raw[CHECKSUM.stop :])  # type: ignore[arg-type]
    if digest.hexdigest().encode() != raw[CHECKSUM].tobytes():
        raise LoadError(
            f"{path} is damaged: its {len(raw)} bytes do not have the checksum that was written with them; "
            "it was cut off or changed since"
        )
    header: dict[str, Any] = json.loads(raw[8 : 8 + _length(raw)].tobytes())
    return header
