"""Files that are there whole or not at all, whenever the process or the machine stops."""

import os
import re
import shutil
import socket
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["keep_as", "remove_leftovers", "write_atomically"]

LEFTOVER = re.compile(r"\.(\d+)-\d+@(.*)\.tmp$")


def write_atomically(path: Path, chunks: Iterable[Any]) -> None:
    """Write a file under another name, make sure that it is on the disk, and rename it.

    Whoever opens `path` at any moment finds the former file or the new one.

    Parameters
    ----------
    path : Path
        The file; replaced if it is there.
    chunks : iterable of bytes-like
        What to write.
    """
    temporary = _temporary(path)
    try:
        with temporary.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def keep_as(path: Path, other: Path) -> None:
    """Let `other` be what `path` is now, without a moment in which one of the two is missing.

    Parameters
    ----------
    path : Path
        An existing file, which stays.
    other : Path
        In the same folder; replaced if it is there.
    """
    temporary = _temporary(other)
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, temporary)
    os.replace(temporary, other)
    temporary.unlink(missing_ok=True)  # renaming a file to another name of itself does nothing
    _sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files that processes of this machine have left when they were killed.

    Parameters
    ----------
    path : Path
        What they were to become.
    """
    for found in path.parent.glob(f".{path.name}.*.tmp"):
        named = LEFTOVER.search(found.name)
        if named and named[2] == socket.gethostname() and not _is_running(int(named[1])):
            found.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """Return a name in the same folder that no other thread, process or machine takes."""
    who = f"{os.getpid()}-{threading.get_ident()}@{socket.gethostname()}"
    return path.with_name(f".{path.name}.{who}.tmp")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Make sure that a renaming is on the disk."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
