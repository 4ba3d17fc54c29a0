"""Machine code of one function, kept in one file; also the program of the compiling process.

This module imports nothing from sknet: a process that compiles in the background is given its source,
and runs isolated from the working directory and from Python's environment variables.
"""

import contextlib
import hashlib
import json
import os
import pickle
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["CodeFile", "load", "unsafe"]

MAGIC = b"sknet machine code, version 1\n"
PART = ".part"  # a file that is being written


class CodeFile:
    """Keeps the compiled function in a file; implements the interface of Numba's dispatcher cache.

    Nothing in a file is interpreted before its digest has been verified, and only files that nobody
    else can have written are read.

    Parameters
    ----------
    path : str
        The file.
    key : str
        Identifies in full what was compiled.
    """

    def __init__(self, path: str, key: str) -> None:
        self.cache_path = path
        self._key = key.encode()

    def read(self, target: str) -> bytes | None:
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
        return payload if content[:start] == MAGIC + self._digest(target, payload) else None

    def write(self, target: str, payload: bytes) -> bool:
        """Write the file atomically; other processes may write it concurrently."""
        folder, name = os.path.split(self.cache_path)
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=name, suffix=PART)
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + self._digest(target, payload) + payload)
            os.replace(temporary, self.cache_path)
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return False
        _remove_parts(folder)
        return True

    def _digest(self, target: str, payload: bytes) -> bytes:
        parts = (self._key, target.encode(), payload)
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()

    # -- Numba's interface --------------------------------------------------------------------

    def load_overload(self, _: Any, target_context: Any) -> Any:
        """Return the compiled function from the file, or None."""
        from numba.core.compiler import CompileResult

        rebuilt: Any = CompileResult._rebuild
        target_context.refresh()
        payload = self.read(_target(target_context.codegen()))
        if payload is None:
            return None
        try:
            return rebuilt(target_context, *pickle.loads(payload))
        except Exception:  # written by another build of the same Numba version: compile again
            return None

    def save_overload(self, _: Any, compiled: Any) -> None:
        """Write the compiled function to the file."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        if not compiled.library.has_dynamic_globals:
            self.write(_target(compiled.library.codegen), dumps(compiled._reduce()))


def load(name: str, source: str, types: str, path: str | None, key: str) -> Any:
    """Return the function ``steps`` of a source, loaded from a file if possible, else compiled.

    Parameters
    ----------
    name : str
        Name of the module.
    source : str
        Text of the module.
    types : str
        The argument of its function ``compile_for``.
    path : str or None
        The file for the machine code.
    key : str
        As for `CodeFile`.

    Returns
    -------
    callable
        A Numba dispatcher.
    """
    # Numba looks up the module when it loads machine code.
    module = sys.modules.setdefault(name, ModuleType(name))
    if not hasattr(module, "steps"):
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    if path is not None:
        module.steps._cache = CodeFile(path, key)
    module.compile_for(types)
    return module.steps


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


def _target(codegen: Any) -> str:
    return repr(codegen.magic_tuple())


def main() -> None:
    """Read a JSON object from standard input, the arguments of `load` and import paths, and compile."""
    job = json.load(sys.stdin)
    if hasattr(os, "nice"):
        os.nice(10)  # the fit that goes on meanwhile comes first
    sys.path.extend(job.pop("paths"))  # after the standard library, so that they cannot shadow it
    load(**job)


if __name__ == "__main__":
    main()
