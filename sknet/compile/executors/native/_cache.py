"""Compiled functions: kept in this process, and on disk as source with Numba's machine code.

A function that is nowhere yet is compiled by a process of its own, which leaves it on disk: Python's
lock would let a fit in this process hardly go on beside a compiler. Loading takes some 20 ms, and a
third of a second more where Numba has not been imported; a thread does it.
"""

import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["Function", "cache_directory", "has_numba", "types_of"]

COMPILING = 5.0  # seconds that compiling takes, about
PATIENCE = 300.0  # seconds after which another process is not waited for
# What the compiling process runs: it knows Numba and the generated file, and nothing else.
CHILD = """
import importlib.util, sys
name, path, types = sys.argv[1:]
spec = importlib.util.spec_from_file_location(name, path)
module = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.compile_for(types)
"""

_functions: dict[tuple[str, str], Callable[..., int]] = {}
_modules: dict[str, ModuleType] = {}
_failed: set[tuple[str, str]] = set()
_children: dict[tuple[str, str], Any] = {}
_threads: dict[tuple[str, str], threading.Thread] = {}
_lock = threading.RLock()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    _children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def has_numba() -> bool:
    """Tell whether Numba can be imported; it is not imported."""
    return "numba" in sys.modules or importlib.util.find_spec("numba") is not None


def cache_directory() -> Path:
    """Return where sources and machine code are kept: `SKNET_CACHE_DIR`, or the user's cache directory."""
    given = os.environ.get("SKNET_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path.home()
    system = {"Windows": "AppData/Local", "Darwin": "Library/Caches"}.get(platform.system(), ".cache")
    base = Path(given) if given else home / system
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "none"
    return base / "sknet" / f"{sys.implementation.cache_tag}-numba{numba}-numpy{np.__version__}"


def types_of(arguments: tuple[Any, ...]) -> str:
    """Return a text that says of which types arguments are: ``<f42C`` for a float32 array of two axes.

    Parameters
    ----------
    arguments : tuple of int, bool or ndarray
        Examples.

    Returns
    -------
    str
        What the generated ``compile_for`` reads.
    """
    return ";".join(_type_of(x) for x in arguments)


def _type_of(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return type(x).__name__
    order = "C" if x.flags.c_contiguous else "F" if x.flags.f_contiguous else "A"
    return f"{x.dtype.str}:{x.ndim}{order}"


class Function:
    """The compiled function of a source for some types of arguments, found as soon as it is somewhere.

    Parameters
    ----------
    source : str
        With ``{cache}`` where it says whether Numba keeps the machine code.
    types : str
        From `types_of`.
    """

    def __init__(self, source: str, types: str) -> None:
        self._source, self._types = source, types
        digest = hashlib.sha256(source.encode()).hexdigest()[:20]
        self._name = f"sknet_steps_{digest}"
        self._id = digest, types
        self._folder = cache_directory()

    @property
    def is_compiled(self) -> bool:
        """Whether this process has it."""
        return self._id in _functions

    @property
    def is_on_disk(self) -> bool:
        """Whether some process has compiled it and left it on disk."""
        return self._file(".done").exists()

    def get(self, remaining: float) -> Callable[..., int] | None:
        """Return the function if this process has it; else see to it that it will, if that pays.

        Parameters
        ----------
        remaining : float
            Seconds that are left to do without it.

        Returns
        -------
        callable or None
            At once.
        """
        found = _functions.get(self._id)
        if found is not None or self._id in _failed:
            return found
        if self.is_on_disk:
            self._load_in_thread()
        elif remaining > COMPILING:
            self._compile_elsewhere()
        return None

    def wait(self) -> Callable[..., int]:
        """Return the function, compiled here and now if it is nowhere."""
        with _lock:
            found = _functions.get(self._id)
            if found is None:
                found = _functions[self._id] = self._loaded()
            return found

    # -- in this process ----------------------------------------------------------------------

    def _loaded(self) -> Callable[..., int]:
        module = _modules.get(self._name)
        if module is None:
            module = _modules[self._name] = self._module()
        module.compile_for(self._types)
        if module.__file__ is not None:
            _write(self._file(".done"), "")
        return module.steps  # type: ignore[no-any-return]

    def _module(self) -> ModuleType:
        path = self._written()
        if path is None:
            module = ModuleType(self._name)
            module.__file__ = None
            sys.modules[self._name] = module
            exec(
                compile(self._source.replace("{cache}", "False"), f"<{self._name}>", "exec"), module.__dict__
            )
            return module
        spec = importlib.util.spec_from_file_location(self._name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module  # Numba looks for it there when it loads machine code
        spec.loader.exec_module(module)
        return module

    def _load_in_thread(self) -> None:
        thread = _threads.get(self._id)
        if thread is None or not thread.is_alive():
            # No daemon: the interpreter must not end while Numba is half imported.
            thread = _threads[self._id] = threading.Thread(target=self._try_to_load, name="sknet-load")
            thread.start()

    def _try_to_load(self) -> None:
        try:
            self.wait()
        except Exception:  # whatever is wrong with Numba or the cache, a fit goes on without
            _failed.add(self._id)

    # -- elsewhere ----------------------------------------------------------------------------

    def _compile_elsewhere(self) -> None:
        if self._id in _children:
            if _children[self._id] is not None and _children[self._id].poll() not in (None, 0):
                _failed.add(self._id)
            return
        path = self._written()
        _children[self._id] = None
        if path is None or not sys.executable:
            self._load_in_thread()
            return
        if not self._is_mine():
            return
        command = [sys.executable, "-c", CHILD, self._name, str(path), self._types]
        quiet = subprocess.DEVNULL
        _children[self._id] = process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        threading.Thread(target=self._finish, args=(process,), daemon=True).start()

    def _finish(self, process: Any) -> None:
        if process.wait() == 0:
            _write(self._file(".done"), "")
        self._file(".claim").unlink(missing_ok=True)

    def _is_mine(self) -> bool:
        """Tell whether no other process is compiling the same; claims it."""
        claim = self._file(".claim")
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            if time.time() - claim.stat().st_mtime < PATIENCE:
                return False
            claim.touch()  # who claimed it was ended
        return True

    # -- files --------------------------------------------------------------------------------

    def _file(self, suffix: str) -> Path:
        types = hashlib.sha256(self._types.encode()).hexdigest()[:12]
        return self._folder / f"{self._name}.{types}{suffix}"

    def _written(self) -> Path | None:
        """Return the file of the source, or None where none can be kept."""
        path, text = self._folder / f"{self._name}.py", self._source.replace("{cache}", "True")
        try:
            if path.read_text(encoding="utf-8") == text and os.access(self._folder, os.W_OK):
                return path
        except OSError:
            pass
        return path if _write(path, text) else None


def _write(path: Path, text: str) -> bool:
    """Write a file as a whole or not at all; other processes may do the same at the same time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.utime(name, (0, 0))  # Numba compares times: the same text must have the same
        os.replace(name, path)
    except OSError:
        return False
    return True
