"""Object files in memory, ready to be called: without Numba, and on most machines without LLVM.

Importing LLVM takes 50 MiB. Numba's object files for x86-64 are simple to link: the code may be anywhere in
memory, so it refers to other code and data by absolute addresses of 64 bits, which are all that is filled in.
"""

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from sknet.compile.executors.native._loaded import is_placed_by_hand
from sknet.compile.executors.native._machine_code import KNOWN

__all__ = ["keep", "placed"]


def placed(code: bytes, arguments: int) -> Callable[..., int]:
    """Return the function of an object file.

    Parameters
    ----------
    code : bytes
        From `compiled`.
    arguments : int
        As there.

    Returns
    -------
    callable
        Takes and returns integers; releases the GIL.

    Raises
    ------
    OSError, RuntimeError
        If the system does not allow new code in memory, or the object file is of an unknown kind.
    """
    name, _, content = code.partition(b"\0")
    address = _by_hand(content, name) if is_placed_by_hand() else _by_llvm(content, name.decode())
    words = [ctypes.c_int64] * arguments
    # Numba's own convention: a place for the result, one for an exception, and a status.
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *words)(address)

    def steps(*given: int) -> int:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = function(ctypes.addressof(result), ctypes.addressof(error), *given)
        if status:
            raise RuntimeError(f"native code ended with status {status}")
        return result.value

    return steps


def keep(memory: Any) -> None:
    """Never free what a thread in native code may read, even while Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


# -- by hand: ELF for x86-64 --------------------------------------------------------------------------------


class _Section(NamedTuple):
    """A section header of an object file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Symbol(NamedTuple):
    """An entry of the symbol table."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


HEADER, SECTION, SYMBOL, RELOCATION = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq"
IS_ELF = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
X86_64, OBJECT_FILE = 62, 1
NO_BITS, SYMBOLS, ADDENDS = 8, 2, 4  # kinds of sections
ALLOCATED = 2  # a flag of sections
UNDEFINED = 0  # the section number that stands for no section
WHOLE_ADDRESS = 1  # R_X86_64_64
UNWINDING = b".eh_frame"


def _by_hand(content: bytes, name: bytes) -> int:
    """Return the address of a function, after copying an object file to memory that can be executed."""
    header = struct.unpack_from(HEADER, content)
    if not (content.startswith(IS_ELF) and header[1] == OBJECT_FILE and header[2] == X86_64):
        raise RuntimeError("not an object file for this processor")
    start, each, count, texts = header[6], header[11], header[12], header[13]
    sections = [_Section(*struct.unpack_from(SECTION, content, start + i * each)) for i in range(count)]
    placed, size = _places(content, sections, sections[texts])
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for i, place in placed.items():
        if sections[i].kind != NO_BITS:
            memory[place : place + sections[i].size] = _content(content, sections[i])
    symbols: list[tuple[bytes, int | None]] = []
    for section in sections:
        if section.kind == SYMBOLS:
            symbols = [_resolved(x, content, sections, placed, base) for x in _symbols(content, section)]
    for section in sections:
        if section.kind == ADDENDS and section.info in placed:
            _relocate(memory, placed[section.info], _content(content, section), symbols)
    if ctypes.CDLL(None, use_errno=True).mprotect(
        ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC
    ):
        raise OSError(ctypes.get_errno(), "the system does not allow new code in memory")
    keep(memory)
    found = dict(symbols).get(name)
    if found is None:
        raise RuntimeError(f"the object file has no function {name.decode()!r}")
    return found


def _content(content: bytes, section: _Section) -> bytes:
    return content[section.offset : section.offset + section.size]


def _text(content: bytes, texts: _Section, start: int) -> bytes:
    return content[texts.offset + start : content.index(b"\0", texts.offset + start)]


def _places(content: bytes, sections: list[_Section], texts: _Section) -> tuple[dict[int, int], int]:
    """Return where each section that is needed begins, and the size of all in whole pages."""
    placed, end = {}, 0
    for i, section in enumerate(sections):
        if section.flags & ALLOCATED and _text(content, texts, section.name) != UNWINDING:
            placed[i] = end = -(-end // max(section.alignment, 1)) * max(section.alignment, 1)
            end += section.size
    return placed, max(-(-end // mmap.PAGESIZE), 1) * mmap.PAGESIZE


def _symbols(content: bytes, section: _Section) -> list[_Symbol]:
    return [_Symbol(*fields) for fields in struct.iter_unpack(SYMBOL, _content(content, section))]


def _resolved(
    symbol: _Symbol, content: bytes, sections: list[_Section], placed: dict[int, int], base: int
) -> tuple[bytes, int | None]:
    """Return the name and the address of a symbol; None where it has none."""
    texts = next(sections[each.link] for each in sections if each.kind == SYMBOLS)
    name = _text(content, texts, symbol.name)
    if symbol.section in placed:
        return name, base + placed[symbol.section] + symbol.value
    if symbol.section == UNDEFINED and name.decode() in KNOWN:
        library = ctypes.CDLL(None)
        found = getattr(library, name.decode(), library.abort)  # Numba's is not called
        return name, ctypes.cast(found, ctypes.c_void_p).value
    return name, None


def _relocate(
    memory: mmap.mmap, start: int, relocations: bytes, symbols: list[tuple[bytes, int | None]]
) -> None:
    """Fill in the addresses in a section."""
    for place, info, added in struct.iter_unpack(RELOCATION, relocations):
        name, address = symbols[info >> 32]
        if info & 0xFFFFFFFF != WHOLE_ADDRESS or address is None:
            raise RuntimeError(f"unknown reference to {name.decode()!r} in an object file")
        struct.pack_into("<Q", memory, start + place, (address + added) & 0xFFFFFFFFFFFFFFFF)


# -- by LLVM ------------------------------------------------------------------------------------------------


def _by_llvm(content: bytes, name: str) -> int:
    """Return the address of a function, linked by LLVM, with which Numba compiles."""
    import llvmlite.binding as llvm

    library: Any = ctypes.pythonapi if os.name == "posix" else ctypes.cdll.msvcrt
    llvm.add_symbol("NRT_MemInfo_call_dtor", ctypes.cast(library.abort, ctypes.c_void_p).value)
    for prepare in (llvm.initialize_native_target, llvm.initialize_native_asmprinter):
        prepare()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True, codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(content))
    engine.finalize_object()
    address: int = engine.get_function_address(name)
    if not address:
        raise RuntimeError(f"the object file has no function {name!r}")
    keep(engine)
    return address
