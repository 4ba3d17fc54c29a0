"""Machine code of one function, kept in one file; also what the compiling process runs.

This module imports nothing of sknet: a process that compiles in the background gets its text, and
runs isolated from the working directory and from Python's environment variables.
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
    """Keeps the compiled function in a file; to Numba, the cache of a dispatcher.

    Nothing in a file is interpreted before its digest is found to be right, and only files that nobody
    else can have written are read.

    Parameters
    ----------
    path : str
        The file.
    key : str
        What the machine code is of, in full.
    """

    def __init__(self, path: str, key: str) -> None:
        self.cache_path = path
        self._key = key.encode()

    def read(self, target: str) -> bytes | None:
        """Return what was written; None if there is nothing, or not all of it, or not by this user."""
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
        """Write the file as a whole or not at all; other processes may do the same at the same time."""
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

    # -- what Numba calls ---------------------------------------------------------------------

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
        except Exception:  # of another build of Numba with the same version: it is compiled again
            return None

    def save_overload(self, _: Any, compiled: Any) -> None:
        """Write the compiled function to the file."""
        from numba.core import serialize

        dumps: Any = serialize.dumps
        if not compiled.library.has_dynamic_globals:
            self.write(_target(compiled.library.codegen), dumps(compiled._reduce()))


def load(name: str, source: str, types: str, path: str | None, key: str) -> Any:
    """Return the function ``steps`` of a source, from a file if it is there, else compiled.

    Parameters
    ----------
    name : str
        Of the module.
    source : str
        Its text.
    types : str
        What its function ``compile_for`` reads.
    path : str or None
        The file of the machine code.
    key : str
        As for `CodeFile`.

    Returns
    -------
    callable
        A Numba dispatcher.
    """
    # Numba looks for the module when it loads machine code.
    module = sys.modules.setdefault(name, ModuleType(name))
    if not hasattr(module, "steps"):
        exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    if path is not None:
        module.steps._cache = CodeFile(path, key)
    module.compile_for(types)
    return module.steps


def unsafe(found: os.stat_result, is_kind: Callable[[int], bool]) -> str | None:
    """Return why others could have written something; None if they could not.

    Parameters
    ----------
    found : os.stat_result
        Of a file or directory itself, not of what a link points to.
    is_kind : callable
        ``stat.S_ISREG`` or ``stat.S_ISDIR``.
    """
    if not is_kind(found.st_mode):
        return "it is a link, or something else that compiled code is not kept in"
    if os.name != "posix":
        return None  # rights are in access control lists; a user's own directories are private
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (number {found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _remove_parts(folder: str) -> None:
    """Remove what processes that were killed while writing have left, an hour ago or earlier."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(PART) and entry.stat().st_mtime < time.time() - 3600:
                os.unlink(entry.path)


def _binary() -> int:
    return getattr(os, "O_BINARY", 0)


def _target(codegen: Any) -> str:
    return repr(codegen.magic_tuple())


def main() -> None:
    """Compile what standard input says: a JSON object of the arguments of `load`, and paths."""
    job = json.load(sys.stdin)
    sys.path.extend(job.pop("paths"))  # after the standard library: nothing there is hidden by them
    load(**job)


if __name__ == "__main__":
    main()
