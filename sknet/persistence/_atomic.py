"""Atomic writes: a file is complete or absent, even if the process or the machine stops."""

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
    """Write a file under another name, flush it to disk, and rename it.

    At any moment, `path` is either the former file or the new one.

    Parameters
    ----------
    path : Path
        The file; replaced if it exists.
    chunks : iterable of bytes-like
        The contents.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import write_atomically
    >>> path = Path(tempfile.mkdtemp()) / "notes"
    >>> write_atomically(path, [b"epoch ", b"1"])
    >>> path.read_text()
    'epoch 1'
    """
    temporary = _temporary(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}")
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
    """Make `other` a copy of `path`, without a moment in which either is missing.

    Parameters
    ----------
    path : Path
        An existing file, which is kept.
    other : Path
        A name in the same folder; replaced if it exists.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import keep_as
    >>> last = Path(tempfile.mkdtemp()) / "last"
    >>> _ = last.write_text("epoch 1")
    >>> keep_as(last, last.with_name("previous"))
    >>> last.with_name("previous").read_text()
    'epoch 1'
    """
    temporary = _temporary(other)
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, temporary)
    os.replace(temporary, other)
    temporary.unlink(missing_ok=True)  # renaming a file to another hard link of it does nothing
    _sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes on this machine that were killed.

    Parameters
    ----------
    path : Path
        The file that they would have become.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sknet.persistence import remove_leftovers
    >>> path = Path(tempfile.mkdtemp()) / "last"
    >>> _ = path.write_text("epoch 1")
    >>> remove_leftovers(path)
    >>> path.exists()
    True
    """
    for found in path.parent.glob(f".{path.name}.*.tmp"):
        named = LEFTOVER.search(found.name)
        if named and named[2] == socket.gethostname() and not _is_running(int(named[1])):
            found.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """Return a name in the same folder that no other thread, process or machine uses."""
    who = f"{os.getpid()}-{threading.get_ident()}@{socket.gethostname()}"
    return path.with_name(f".{path.name}.{who}.tmp")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk."""
    if os.name != "posix":  # other systems cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
