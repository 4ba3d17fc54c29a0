"""Atomic writes: a file is complete or absent, even if the process or the machine stops."""

import errno
import os
import re
import secrets
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

LEFTOVER = re.compile(r"(\d+)-\w+@(.*)\.tmp")
BINARY = getattr(os, "O_BINARY", 0)  # Windows has texts as well
BEGAN = time.time() - 1.0  # this process has written nothing before


def write_atomically(path: Path, chunks: Iterable[Any]) -> None:
    """Write a file under another name, flush it to disk, and rename it.

    At any moment, `path` is either the former file or the new one, which has its permissions and, as far as
    the system allows it, its owner. What killed processes have left of such writes is removed.
    """
    path = _followed(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}")
    former = path.stat() if path.exists() else None
    if former is not None and not stat.S_ISREG(former.st_mode):
        with path.open("wb") as file:
            file.writelines(chunks)
        return
    temporary = _temporary(path)
    try:
        with _opened(temporary, 0o666 if former is None else 0o600) as file:
            file.writelines(chunks)
            if former is not None:
                _give(file, former)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    remove_leftovers(path)


def keep_as(path: Path, other: Path) -> None:
    """Make `other` a copy of `path`, without a moment in which either is missing."""
    path, other = _followed(path), _followed(other)
    temporary = _temporary(other)
    try:
        os.link(path, temporary)
    except OSError:  # a file system without hard links, or another one
        temporary.touch(mode=0o600)
        shutil.copy(path, temporary)
    os.replace(temporary, other)
    temporary.unlink(missing_ok=True)  # renaming a file to another hard link of it does nothing
    _sync_folder(other.parent)
    remove_leftovers(other)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes on this machine that were killed."""
    path = _followed(path)
    found, prefix = [], f".{path.name}."
    with suppress(OSError), os.scandir(path.parent) as entries:
        found = [entry.name for entry in entries if entry.name.startswith(prefix)]
    for name in found:
        named = LEFTOVER.fullmatch(name.removeprefix(prefix))
        if named and named[2] == socket.gethostname():
            with suppress(OSError):  # somebody else has removed it, or may not have it removed
                if not _is_in_use(path.with_name(name), int(named[1])):
                    path.with_name(name).unlink()


def _followed(path: Path) -> Path:
    """Return the target of a chain of links, whether it exists or not; other paths as they are."""
    if not path.is_symlink():
        return path
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, "cannot be written: it is a link to itself", str(path))
    return target


def _temporary(path: Path) -> Path:
    """Return a name in the same folder that no other thread, process or machine uses."""
    who = f"{os.getpid()}-{secrets.token_hex(8)}@{socket.gethostname()}"
    return path.with_name(f".{path.name}.{who}.tmp")


def _opened(temporary: Path, mode: int) -> IO[bytes]:
    """Create a file, and lock it until it is closed, so that nobody takes it for a leftover."""
    file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode), "wb")
    with suppress(OSError):  # a file system without locks
        _lock(file)
    return file


def _give(file: IO[bytes], former: os.stat_result) -> None:
    """Give a file the owner and the permissions of a former one; the owner first, which resets some."""
    if os.name != "posix":
        return
    for owner, group in ((former.st_uid, -1), (-1, former.st_gid)):
        with suppress(OSError):  # of another user, or a group without this one
            os.fchown(file.fileno(), owner, group)
    os.fchmod(file.fileno(), stat.S_IMODE(former.st_mode))


if sys.platform == "win32":

    def _lock(file: IO[bytes]) -> bool:
        return True  # what is open cannot be removed

else:

    def _lock(file: IO[bytes]) -> bool:
        """Lock a file until it is closed; return False if another process or thread has done so."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _is_in_use(found: Path, process: int) -> bool:
    """Tell whether a process may still be writing a temporary file."""
    may_be = found.stat().st_mtime >= BEGAN if process == os.getpid() else _is_running(process)
    if may_be:
        return True
    with found.open("r+b") as file:  # some file systems lock only what can be written
        return not _lock(file)  # by a process of another container, with the same name and numbers of its own


def _is_running(process: int) -> bool:
    if os.name != "posix":  # a file that is in use cannot be removed there
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # other systems cannot open folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
