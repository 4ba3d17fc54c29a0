"""Estimators of other libraries that contain sknet's: skops writes them, with placeholders for sknet's."""

import copy
import io
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from sknet.exceptions import LoadError
from sknet.files._registry import full_name, is_ours, splitters

__all__ = ["Seat", "packed", "unpacked"]

Bytes = np.ndarray[Any, Any]
PER_VALUE = 100  # bytes of memory of a value in JSON text, at most
LEAVES = (np.ndarray, str, bytes, int, float, type(None), type)


class Seat(BaseEstimator):
    """The placeholder for an sknet estimator in an estimator of another library.

    Parameters
    ----------
    number : int, default=0
        Index of the estimator.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number


def packed(estimator: Any) -> tuple[Bytes, list[Any], int]:
    """Replace sknet's estimators inside another by placeholders, and write it with skops.

    Parameters
    ----------
    estimator : estimator
        An estimator such as a Pipeline, which is not changed.

    Returns
    -------
    frame : ndarray of uint8
        The bytes that skops has written.
    inside : list
        sknet's estimators, by the index of their placeholders.
    spent : int
        Bytes of memory that reading takes, beyond twice those of `frame`.

    Raises
    ------
    ImportError
        If skops is not installed.
    """
    skops = _skops()
    inside = list({id(x): x for x in _found_in(estimator, is_ours)}.values())
    seats = {id(x): Seat(number) for number, x in enumerate(inside)}
    frame = copy.deepcopy(estimator, dict(seats))
    written = skops.dumps(frame)
    spent = max(archive_needs(written, math.inf) - len(written), 0)
    return np.frombuffer(written, np.uint8), inside, math.ceil(spent)


def unpacked(frame: Bytes, inside: list[Any], trusted: Iterable[Any], spare: int) -> Any:
    """Return the estimator that `packed` has written.

    Parameters
    ----------
    frame : ndarray of uint8
        The bytes that skops has written.
    inside : list
        sknet's estimators, by the index of their placeholders.
    trusted : iterable of type or callable
        The user's own classes and functions that it may name.
    spare : int
        Bytes of memory that may be used, beyond twice those of `frame`.

    Returns
    -------
    estimator
        With its placeholders replaced.

    Raises
    ------
    LoadError
        If a type in it is neither trusted by skops nor in `trusted`, or it needs too much memory.
    ImportError
        If skops is not installed.
    """
    skops, written = _skops(), frame.tobytes()
    del frame
    archive_needs(written, len(written) + spare)
    known = [*map(full_name, (Seat, Bunch, np.dtype, *splitters(), *trusted))]
    unknown = [name for name in skops.get_untrusted_types(data=written) if name not in known]
    if unknown:
        short = ", ".join(name.rpartition(".")[2] for name in unknown)
        raise LoadError(f"it needs {', '.join(unknown)}: load(path, trusted=[{short}]) if you trust that")
    found = skops.loads(written, trusted=known)
    seats = {id(x): _taken(inside, x.number) for x in _found_in(found, lambda x: isinstance(x, Seat))}
    arrays = {id(x): x for x in _found_in(found, lambda x: isinstance(x, np.ndarray))}  # are not copied
    return copy.deepcopy(found, {**arrays, **seats})


def _taken(inside: list[Any], number: Any) -> Any:
    if type(number) is not int or not 0 <= number < len(inside):
        raise LoadError(f"its estimator number {str(number)[:80]} is not there, of {len(inside)}")
    return inside[number]


def archive_needs(written: bytes, most: float) -> float:
    """Return how many bytes of memory what an archive holds takes.

    Parameters
    ----------
    written : bytes
        A zip file.
    most : float
        How many it may take.

    Returns
    -------
    float
        The number of bytes.

    Raises
    ------
    LoadError
        If it is more; names the member with which it is.
    """
    needed = 0.0
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        for member in archive.infolist():
            needed += member.file_size
            if needed <= most:
                needed += _member_needs(archive, member, most - needed)
            if needed > most:
                raise LoadError(f"its member {member.filename!r} needs more memory than the file justifies")
    return needed


def _member_needs(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: float) -> float:
    """Return how many bytes of memory what is made of a member takes, besides its own."""
    if member.filename.endswith((".npz", ".zip")):
        return archive_needs(archive.read(member), most)
    if member.filename.endswith(".npy"):
        with archive.open(member) as file:
            _check_array(file, member)
        return 0
    text = archive.read(member)
    return PER_VALUE * sum(text.count(mark) for mark in (b",", b":", b"[", b"{"))


def _check_array(file: Any, member: zipfile.ZipInfo) -> None:
    """Raise a LoadError unless an array has as many bytes as its header says."""
    version = np.lib.format.read_magic(file)
    read: Any = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize != member.file_size - file.tell() or dtype.hasobject:
        raise LoadError(f"its array {member.filename!r} has not as many bytes as it says")


def _found_in(x: Any, wanted: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the objects of some kind that an object holds, at any depth."""
    seen: set[int] = set()
    waiting = [x]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if wanted(each):
            yield each
        elif isinstance(each, LEAVES):
            continue
        elif isinstance(each, dict):
            waiting += [*reversed(each.values())]
        elif isinstance(each, (list, tuple, set, frozenset)):
            waiting += [*reversed(list(each))]
        else:
            waiting += [*reversed(getattr(each, "__dict__", {}).values())]


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "estimators of other libraries that contain sknet's are stored by skops, which is not installed: "
            'pip install "sknet[skops]"'
        ) from error
    return skops.io
