"""The directory of compiled code: it and every file read from it must be writeable by the user only."""

import os
import platform
import stat
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from sknet._installed import version_of
from sknet.compile.executors.native._machine_code import unsafe

__all__ = ["cache_directory", "is_own_file", "processor", "usable", "versions"]

_warned: set[Path] = set()


def cache_directory() -> Path | None:
    """Return the directory for machine code, or None if there is none.

    It is ``sknet/<versions>`` in the directory that the environment variable ``SKNET_CACHE_DIR`` names,
    else in ``XDG_CACHE_HOME`` (if absolute, as its specification says), else in the user's cache
    directory: ``~/.cache``, ``~/Library/Caches`` or ``~/AppData/Local``.
    """
    base = _base()
    return None if base is None else base / "sknet" / versions()


def _base() -> Path | None:
    if given := os.environ.get("SKNET_CACHE_DIR"):
        return Path(given).absolute()
    if (given := os.environ.get("XDG_CACHE_HOME")) and Path(given).is_absolute():
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:  # the user has no home directory
        return None
    return home / {"Windows": "AppData/Local", "Darwin": "Library/Caches"}.get(platform.system(), ".cache")


@cache
def versions() -> str:
    """Return the versions of Python, Numba, llvmlite and NumPy that machine code depends on."""
    compiler = f"numba{version_of('numba')}-llvmlite{version_of('llvmlite')}"
    return f"{sys.implementation.cache_tag}-{compiler}-numpy{np.__version__}"


@cache
def processor() -> str:
    """Return the processor and the settings of Numba that machine code depends on."""
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_"))
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 14).split("\n\n")[0].splitlines()
        kind = [x for x in lines if x.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        kind = [platform.processor()]
    return "\n".join([platform.machine(), *kind, *settings])


def usable(folder: Path) -> bool:
    """Tell whether a directory can hold compiled code; it is created if missing.

    Parameters
    ----------
    folder : Path
        From `cache_directory`.

    Returns
    -------
    bool
        False if it cannot be written to, or if others could write to it.

    Warns
    -----
    UserWarning
        Once per directory that is not used because others could write to it.
    """
    try:
        folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            if not path.is_symlink():
                path.mkdir(mode=0o700, exist_ok=True)
            if (reason := unsafe(path.lstat(), stat.S_ISDIR)) is not None:
                _warn(path, path, reason)
                return False
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_own_file(path: Path) -> bool:
    """Tell whether a file exists that only the user can have written.

    Parameters
    ----------
    path : Path
        In a directory that is `usable`.

    Warns
    -----
    UserWarning
        Once per directory that holds files which others could have written.
    """
    try:
        reason = unsafe(path.lstat(), stat.S_ISREG)
    except OSError:
        return False
    if reason is not None:
        _warn(path.parent, path, reason)
    return reason is None


def _warn(folder: Path, path: Path, reason: str) -> None:
    if folder in _warned:
        return
    _warned.add(folder)
    warnings.warn(
        f"compiled code in {path} is ignored, because running it would not be safe: {reason}. Training "
        "steps are compiled again. Remove it, make it writeable by you only (chmod go-w), or let the "
        "environment variable SKNET_CACHE_DIR name another directory.",
        UserWarning,
        stacklevel=2,
    )
