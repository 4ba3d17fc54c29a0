"""Estimators of other libraries that contain sknet's: skops writes them, with placeholders for sknet's."""

import copy
import io
import json
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRequest

from sknet._late import optional
from sknet.exceptions import LoadError
from sknet.files._registry import full_name, is_ours, splitters
from sknet.persistence import needed

Bytes = np.ndarray[Any, Any]
SCHEMA = "schema.json"  # the member with the nodes from which skops makes objects
PER_NODE = 1 << 12  # bytes of memory of a node, and of the object that it becomes, at most
PER_MEMBER = 1 << 10  # the same for what is known of a member
ENTRY = b"PK\x01\x02"  # which begins what an archive says of a member
HEAD = 1 << 14  # bytes, more than the header of an array has
CHUNK = 1 << 16
REQUESTS = (MetadataRequest, type(MetadataRequest(owner="").fit))  # what set_fit_request and its like store
LEAVES = (np.ndarray, str, bytes, int, float, type(None), type)


class Seat(BaseEstimator):
    """The placeholder for an sknet estimator in an estimator of another library."""

    def __init__(self, number: int = 0) -> None:
        self.number = number


def packed(estimator: Any) -> tuple[Bytes, list[Any], int]:
    """Replace sknet's estimators inside another by placeholders, and write it with skops."""
    skops = _skops()
    inside = list({id(x): x for x in _found_in(estimator, is_ours)}.values())
    seats = {id(x): Seat(number) for number, x in enumerate(inside)}
    frame = copy.deepcopy(estimator, dict(seats))
    for request in _found_in(frame, lambda x: type(x) in REQUESTS):
        for each in (request, *vars(request).values()):
            if type(each) in REQUESTS:
                each.owner = type(each.owner).__name__  # which would hold the request again
    written = skops.dumps(frame)
    spent = max(archive_needs(written, math.inf) - len(written), 0)
    return np.frombuffer(written, np.uint8), inside, math.ceil(spent)


def unpacked(frame: Bytes, inside: list[Any], trusted: Iterable[Any], spare: int) -> Any:
    """Return the estimator that `packed` has written."""
    skops, written = _skops(), frame.tobytes()
    del frame
    archive_needs(written, len(written) + spare)
    known = [*map(full_name, (Seat, Bunch, np.dtype, *REQUESTS, *splitters(), *trusted))]
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
    """Return how many bytes of memory what an archive holds takes."""
    with zipfile.ZipFile(_listed(written, most)) as archive:
        members = archive.infolist()
        uses = _uses(archive, members, most)
        found = float(PER_MEMBER * len(members))
        for member in members:
            found += max(uses[member.filename], 1) * _member_needs(archive, written, member, most - found)
            if found > most:
                raise _too_large(member.filename)
    return found


def _listed(written: bytes, most: float) -> io.BytesIO:
    """Return an archive as a file after checking the memory that a list of its members takes."""
    if PER_MEMBER * written.count(ENTRY) > most:
        raise LoadError("its archive has more members than the file justifies")
    return io.BytesIO(written)


def _too_large(name: str) -> LoadError:
    return LoadError(f"its member {name[:80]!r} needs more memory than the file justifies")


def _uses(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], most: float) -> "Counter[str]":
    """Return the number of nodes that name each member: skops reads it anew for each."""
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        raise LoadError("two members of its archive have one name")
    if SCHEMA not in names:  # one of a sparse matrix, whose arrays are read once
        return Counter()
    schema = archive.getinfo(SCHEMA)
    if schema.compress_type != zipfile.ZIP_STORED or schema.compress_size != schema.file_size:
        raise LoadError(f"its member {SCHEMA!r} is compressed")
    if schema.file_size > most:
        raise _too_large(SCHEMA)
    text = archive.read(SCHEMA)
    if needed(text) + PER_NODE * text.count(b"{") > most:
        raise _too_large(SCHEMA)
    nodes: dict[tuple[Any, str], int] = {}
    waiting = [json.loads(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("file"), str):
                key = node.get("__id__") or len(nodes)  # nodes with equal numbers are read once
                nodes[str(key), node["file"]] = 1
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return Counter(name for _, name in nodes)


def _member_needs(archive: zipfile.ZipFile, written: bytes, member: zipfile.ZipInfo, most: float) -> float:
    """Return how many bytes of memory what is made of a member takes when it is read once."""
    if 2 * member.file_size > most:
        raise _too_large(member.filename)
    _check_size(written, member)
    with archive.open(member) as file:
        head = file.read(HEAD)
    if member.filename == SCHEMA:
        text = archive.read(member)
        return needed(text) + PER_NODE * text.count(b"{")
    if head.startswith(b"PK"):  # arrays of a sparse matrix, each of which is read once
        return member.file_size + archive_needs(archive.read(member), most)
    if head.startswith(np.lib.format.MAGIC_PREFIX):
        _check_array(head, member)
    return 2 * member.file_size  # as bytes, and as an array


def _check_size(written: bytes, member: zipfile.ZipInfo) -> None:
    """Raise a LoadError unless a member has as many bytes as it says."""
    size = member.compress_size
    if member.compress_type == zipfile.ZIP_DEFLATED:
        start = member.header_offset
        start += 30 + sum(int.from_bytes(written[start + at : start + at + 2], "little") for at in (26, 28))
        code, size = zlib.decompressobj(-zlib.MAX_WBITS), 0
        for begin in range(start, start + member.compress_size, CHUNK):
            part, n = written[begin : min(begin + CHUNK, start + member.compress_size)], CHUNK
            while (part or n == CHUNK) and size <= member.file_size:
                n = len(code.decompress(part, CHUNK))
                part, size = code.unconsumed_tail, size + n
    if size != member.file_size or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise LoadError(f"its member {member.filename[:80]!r} has not the size that it says")


def _check_array(head: bytes, member: zipfile.ZipInfo) -> None:
    """Raise a LoadError unless an array has as many bytes as its header says."""
    file = io.BytesIO(head)  # no further, however long the header says that it is
    version = np.lib.format.read_magic(file)
    read: Any = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    is_whole = math.prod(shape) * dtype.itemsize == member.file_size - file.tell()
    if not is_whole or not dtype.itemsize or dtype.hasobject:
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
    return optional("skops.io", "a file of an estimator of another library that contains sknet's", "skops")
