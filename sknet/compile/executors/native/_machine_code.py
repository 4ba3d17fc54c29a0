"""Machine code of one function, stored in one file; also the program of the compiling process.

This module imports nothing from sknet: a process that compiles in the background is given its source,
and runs isolated from the working directory and from Python's environment variables.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["KNOWN", "CodeFile", "compiled", "unsafe"]

MAGIC = b"sknet machine code, version 2\n"
PART = ".part"  # a file that is being written
# What compiled code may refer to: functions of the C library, and one of Numba's that is never called.
KNOWN = frozenset({"memset", "memcpy", "memmove", "NRT_MemInfo_call_dtor"})


class CodeFile:
    """Stores compiled code in a file.

    Nothing in a file is interpreted before its digest has been verified, and only files that nobody
    else can have written are read.

    Parameters
    ----------
    path : str
        The file.
    key : str
        Identifies in full what was compiled, for which processor, and by what.
    """

    def __init__(self, path: str, key: str) -> None:
        self.cache_path = path
        self._key = key.encode()

    def read(self) -> bytes | None:
        """Return the payload; None if the file is missing, incomplete, or not this user's."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _binary()
        try:
            handle = os.open(self.cache_path, flags)
        except OSError:
            return None
        try:
            if unsafe(os.fstat(handle), stat.S_ISREG) is not None:
                return None
            with os.fdopen(handle, "rb", closefd=False) as file:
                content = file.read()
        except OSError:
            return None
        finally:
            os.close(handle)
        start = len(MAGIC) + hashlib.sha256().digest_size
        payload = content[start:]
        return payload if content[:start] == MAGIC + self._digest(payload) else None

    def write(self, payload: bytes) -> bool:
        """Write the file atomically; other processes may write it concurrently."""
        folder, name = os.path.split(self.cache_path)
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=name, suffix=PART)
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + self._digest(payload) + payload)
            os.replace(temporary, self.cache_path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return False
        _remove_parts(folder)
        return True

    def _digest(self, payload: bytes) -> bytes:
        parts = (self._key, payload)
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


class _Keeper:
    """Takes the machine code of a function; implements the interface of Numba's dispatcher cache."""

    cache_path = None

    def __init__(self) -> None:
        self.code = b""

    def load_overload(self, _: Any, target_context: Any) -> None:
        """Find nothing."""

    def save_overload(self, _: Any, found: Any) -> None:
        """Store the name of the function, and the object file that contains it."""
        library = found.library
        declared = set(re.findall(r'^declare [^@]*@"?([^"(]+)', library.get_llvm_str(), re.MULTILINE))
        strange = [name for name in declared - KNOWN if not name.startswith("llvm.")]
        if strange:
            raise RuntimeError(f"compiled code refers to {strange}")
        _, kind, code = library.serialize_using_object_code()
        if kind != "object":
            raise RuntimeError(f"compiled code is kept as {kind!r}")
        self.code = (
            found.fndesc.llvm_func_name.encode() + b"\0" + (code if isinstance(code, bytes) else code[0])
        )


def compiled(source: str, arguments: int) -> bytes:
    """Compile the function ``steps`` of a source by Numba.

    Parameters
    ----------
    source : str
        Text of a module, in which ``steps`` is a function that Numba has not compiled yet.
    arguments : int
        How many arguments it has: integers of 64 bits, as its result.

    Returns
    -------
    bytes
        The name of the function and a null byte, then an object file.

    Raises
    ------
    RuntimeError
        If the object file needs other code.
    """
    from numba import types

    module, keeper = ModuleType("sknet_native"), _Keeper()
    exec(compile(source, "<sknet native code>", "exec"), module.__dict__)
    module.steps._cache = keeper
    module.steps.compile((types.int64,) * arguments)
    return keeper.code


def unsafe(found: os.stat_result, is_kind: Callable[[int], bool]) -> str | None:
    """Return the reason why others could have written a file; None if they could not.

    Parameters
    ----------
    found : os.stat_result
        From ``os.lstat``: of the file or directory itself, not of what a link points to.
    is_kind : callable
        ``stat.S_ISREG`` or ``stat.S_ISDIR``.
    """
    if not is_kind(found.st_mode):
        return "it is a link or a special file"
    if os.name != "posix":
        return None  # permissions are access control lists there; a user's directories are private
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _remove_parts(folder: str) -> None:
    """Remove partial files, at least an hour old, of processes that were killed while writing."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(PART) and entry.stat().st_mtime < time.time() - 3600:
                os.unlink(entry.path)


def _binary() -> int:
    return getattr(os, "O_BINARY", 0)


def main() -> None:
    """Read a JSON object from standard input: what to compile, how urgent, the file, its key, and paths."""
    job = json.load(sys.stdin)
    if hasattr(os, "nice"):
        os.nice(job["nice"])
    sys.path.extend(job["paths"])  # after the standard library, so that they cannot shadow it
    CodeFile(job["path"], job["key"]).write(compiled(job["source"], job["arguments"]))


if __name__ == "__main__":
    main()
