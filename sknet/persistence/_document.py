"""Documents: nested dicts and lists of numbers, texts and arrays, in one file."""

import json
import math
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.exceptions import LoadError
from sknet.persistence._container import (
    ZEROS,
    Contents,
    damaged,
    parse_json,
    read_file,
    write_file,
)

__all__ = ["read", "read_any", "read_within", "write"]

RESERVED = ("__metadata__", ZEROS)
Array = np.ndarray[Any, Any]
ARRAY, FLOAT = "$array", "$float"
NOT_FINITE = ("nan", "inf", "-inf")


def write(path: "str | PathLike[str]", tree: Any, kind: str, *, spent: int = 0) -> None:
    """Write a document to a file atomically.

    The file is written under another name, flushed to disk and renamed, so it is never incomplete, even
    if the process or the machine stops. It has the safetensors format: arrays, and JSON text. It contains
    no pickle, and reading it executes no code.

    Parameters
    ----------
    path : str or PathLike
        The file; replaced if it exists.
    tree : nested dicts (with str as keys), lists and tuples
        Leaves are None, bool, int, float, str and NumPy arrays; NumPy scalars become Python's, tuples lists.
    kind : str
        The kind of document, such as ``"checkpoint"``; `read` checks it.
    spent : int, default=0
        Bytes of memory that what is made of the document takes, besides it and a copy of each array. Zeros
        follow if the file would not be half as large as all memory that reading it takes, but for 16 MiB.

    Raises
    ------
    TypeError
        If a document cannot hold a value; names its path.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sknet.persistence import read, write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder, "a"), {"weight": np.eye(2), "steps": [1, 2]}, "example")
    ...     read(Path(folder, "a"), "example")
    {'weight': array([[1., 0.], [0., 1.]]), 'steps': [1, 2]}
    """
    arrays: dict[str, Array] = {}
    text = json.dumps(_encoded(tree, "", arrays), allow_nan=False, separators=(",", ":"))
    write_file(Path(path), Contents(kind, text, arrays), spent=spent)


def read(path: "str | PathLike[str]", kind: str) -> Any:
    """Read a document that `write` has written.

    Parameters
    ----------
    path : str or PathLike
        The file.
    kind : str
        The expected kind.

    Returns
    -------
    tree
        The document, with new arrays.

    Raises
    ------
    LoadError
        If the file is damaged (every byte is checked), was not written by `write`, or is of another kind.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import read, write
    >>> path = Path(tempfile.mkdtemp()) / "notes"
    >>> write(path, {"epochs": 3}, "notes")
    >>> read(path, "notes")
    {'epochs': 3}
    """
    found, tree = read_any(path)
    if found != kind:
        raise LoadError(f"{path} is an sknet file of kind {found!r}, not {kind!r}")
    return tree


def read_any(path: "str | PathLike[str]") -> tuple[str, Any]:
    """Read a document of any kind.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Returns
    -------
    kind : str
        Its kind.
    tree
        The document, with new arrays.

    Raises
    ------
    LoadError
        If the file is damaged (every byte is checked), or was not written by `write`.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import read_any, write
    >>> path = Path(tempfile.mkdtemp()) / "notes"
    >>> write(path, {"epochs": 3}, "notes")
    >>> read_any(path)
    ('notes', {'epochs': 3})
    """
    kind, tree, _ = read_within(path)
    return kind, tree


def read_within(path: "str | PathLike[str]") -> tuple[str, Any, int]:
    """Read a document of any kind, and return how much memory what is made of it may take.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Returns
    -------
    kind : str
        Its kind.
    tree
        The document, with new arrays.
    spare : int
        Bytes, besides the document and a copy of each array.

    Raises
    ------
    LoadError
        If the file is damaged (every byte is checked), or was not written by `write`.
    OSError
        If it cannot be opened.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import read_within, write
    >>> path = Path(tempfile.mkdtemp()) / "notes"
    >>> write(path, {"epochs": 3}, "notes")
    >>> kind, tree, spare = read_within(path)
    >>> kind, tree, spare > 2**23
    ('notes', {'epochs': 3}, True)
    """
    file = Path(path)
    contents = read_file(file)
    tree = parse_json(file, contents.text)
    arrays = dict(contents.arrays)
    try:
        found = _decoded(tree, arrays)
    except (ValueError, RecursionError) as error:
        raise damaged(file, f"its document cannot be read ({error})") from None
    if arrays:
        raise damaged(file, f"its document does not mention the arrays {[*arrays][:5]}")
    return contents.kind, found, contents.spare


def _encoded(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    """Return a value as JSON; arrays are moved to `arrays`."""
    if isinstance(value, np.ndarray):
        while place in arrays or place in RESERVED:  # keys may contain the separator
            place += "'"
        arrays[place] = value
        return {ARRAY: place}
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


def _decoded(value: Any, arrays: dict[str, Array]) -> Any:
    """Put arrays, each of which is removed from `arrays`, into a value, and return it."""
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


def _special(value: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Return the array or number that a dict with a reserved key represents."""
    ((key, said),) = value.items() if len(value) == 1 else [("", None)]
    if key == FLOAT and said in NOT_FINITE:
        return float(said)
    found = arrays.pop(said, None) if key == ARRAY and isinstance(said, str) else None
    if found is not None:
        return found
    raise ValueError(f"{str(value)[:80]} is neither an array (used once) nor a number")
