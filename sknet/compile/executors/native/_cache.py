"""Compiled functions: cached in this process, and their machine code on disk.

A function found in neither is compiled by a child process, which writes it to disk: a compiler in this
process would hold the GIL most of the time, and stall the fit. Loading takes a millisecond; where LLVM has to
link the code, it takes a tenth of a second, in a thread.
"""

import hashlib
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from sknet._cached import cached_property
from sknet._locks import Lock
from sknet.compile.executors.native._folder import (
    cache_directory,
    is_own_file,
    processor,
    usable,
    versions,
)
from sknet.compile.executors.native._loaded import directory_of, is_placed_by_hand
from sknet.compile.executors.native._machine_code import CodeFile, compiled
from sknet.compile.executors.native._placed import placed

__all__ = ["Function"]

COMPILING = 5.0  # seconds that compiling takes, roughly
PATIENCE = 300.0  # seconds after which a process that compiles is presumed dead
NEEDED = ("numba", "llvmlite", "numpy", "scipy")  # what the compiling process imports

_functions: dict[str, Callable[..., int]] = {}
_failed: set[str] = set()
_children: dict[str, subprocess.Popen[bytes] | None] = {}
_threads: dict[str, threading.Thread] = {}
_lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_children.clear)


class Function:
    """The compiled function of a source, in memory or on disk.

    Parameters
    ----------
    source : str
        A module with a function ``steps`` of integers.
    arguments : int
        Their number.

    Warns
    -----
    UserWarning
        If compiled code is ignored because others could have written it; once per directory.
    """

    def __init__(self, source: str, arguments: int) -> None:
        self._source, self._arguments = source, arguments
        self._key = "\n".join([versions(), processor(), str(arguments), source])
        self._id = _digest(self._key)[:32]

    @cached_property
    def _folder(self) -> Path | None:
        """The directory of compiled code; not looked for if this process has loaded it."""
        folder = cache_directory()
        return folder if folder is not None and usable(folder) else None

    @property
    def is_compiled(self) -> bool:
        """Whether this process has loaded it."""
        return self._id in _functions

    @property
    def file(self) -> Path | None:
        """The file of its machine code, which need not exist; None where none can be written."""
        return None if self._folder is None else self._folder / f"{self._id}.code"

    @property
    def is_on_disk(self) -> bool:
        """Whether its machine code is on disk."""
        return self.file is not None and is_own_file(self.file)

    def get(self, remaining: float) -> Callable[..., int] | None:
        """Return the function if this process has it; otherwise start loading or compiling it if worthwhile.

        Parameters
        ----------
        remaining : float
            Seconds that the rest of the work takes without it.

        Returns
        -------
        callable or None
            Without waiting.
        """
        found = _functions.get(self._id)
        if found is not None or self._id in _failed:
            return found
        if self.is_on_disk and is_placed_by_hand():
            self._try_to_load()
            return _functions.get(self._id)
        if self.is_on_disk:
            self._load_in_thread()
        elif remaining > COMPILING:
            self._compile_elsewhere()
        return None

    def begin(self) -> None:
        """Compile it in a child process, for which somebody will wait, unless it is known or on disk."""
        if not (self.is_compiled or self.is_on_disk):
            self._compile_elsewhere(nice=0)

    def wait(self) -> Callable[..., int]:
        """Return the function; load it, wait for the child process that compiles it, or compile it now."""
        with _lock:
            found = _functions.get(self._id)
            if found is None:
                child = _children.get(self._id)
                if child is not None:
                    child.wait()
                found = _functions[self._id] = placed(self._read() or self._compiled(), self._arguments)
            return found

    def _read(self) -> bytes | None:
        return None if self.file is None else CodeFile(str(self.file), self._key).read()

    def _compiled(self) -> bytes:
        code = compiled(self._source, self._arguments)
        if self.file is not None:
            CodeFile(str(self.file), self._key).write(code)
        return code

    # -- in this process ----------------------------------------------------------------------

    def _load_in_thread(self) -> None:
        thread = _threads.get(self._id)
        if thread is None or not thread.is_alive():
            # No daemon: the interpreter must not exit while Numba is half imported.
            thread = _threads[self._id] = threading.Thread(target=self._try_to_load, name="sknet-load")
            thread.start()

    def _try_to_load(self) -> None:
        try:
            self.wait()
        except Exception:  # whatever is wrong with Numba or the file, the fit continues without it
            _failed.add(self._id)

    # -- in a child process ----------------------------------------------------------------------------

    def _compile_elsewhere(self, nice: int = 10) -> None:  # the running fit has priority
        if self._id in _children:
            if (process := _children[self._id]) is not None and process.poll() is not None:
                _failed.add(self._id)  # it has exited without writing the file
            return
        _children[self._id] = None
        text = _text_of_child()
        if self._folder is None or not sys.executable or text is None:
            self._load_in_thread()
            return
        claim = self._folder / f"{self._id}.claim"
        if not _claimed(claim):
            return
        paths = [path for path in map(directory_of, NEEDED) if path is not None]
        of_code = {"source": self._source, "arguments": self._arguments, "key": self._key, "nice": nice}
        job = json.dumps({**of_code, "path": str(self.file), "paths": list(dict.fromkeys(paths))})
        # Isolated (-I), and with no directories but those passed on (-S): neither the working
        # directory nor the environment decides what is imported.
        command = [sys.executable, "-I", "-S", "-c", text]
        quiet = subprocess.DEVNULL
        _children[self._id] = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd=self._folder
        )
        threading.Thread(target=_finish, args=(process, job.encode(), claim), daemon=True).start()


@lru_cache(maxsize=128)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of_child() -> str | None:
    try:
        return inspect.getsource(sys.modules[CodeFile.__module__])
    except OSError:  # installed without sources
        return None


def _finish(process: subprocess.Popen[bytes], job: bytes, claim: Path) -> None:
    process.communicate(job)
    claim.unlink(missing_ok=True)


def _claimed(claim: Path) -> bool:
    """Claim the compilation; return False if another process has already claimed it."""
    try:
        claim.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        if time.time() - claim.stat().st_mtime < PATIENCE:
            return False
        claim.touch()  # the process that claimed it was killed
    return True
