"""Leases of devices: of the worker processes of one parent, one at a time trains on a device."""

import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache

from sknet._config import lease_setting
from sknet._parallel import Lock
from sknet._warnings import warn_caller
from sknet.device._backend import Device, backend

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

PAUSE = 0.005  # seconds between two looks at whether a lease is free
NO_LEASE = (
    "no lease of device '{device}' can be had ({error}): workers train on it beside each other. Let the "
    "environment variable XDG_RUNTIME_DIR name a folder on this machine that only you can read and write, or "
    "set SKNET_LEASE=never"
)


NONE_NEEDED = nullcontext()


def leased(device: Device, poll: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a context in which this process has a device to itself, as far as its siblings are concerned.

    Only processes that another one has started by multiprocessing, as workers of joblib, Dask and
    concurrent.futures are, wait for each other, and only those of the same parent. Threads of a process
    share its lease. A process that has the lease of another device does not wait for this one: two that do
    might wait for each other.
    """
    if device.kind == "cpu":
        return NONE_NEEDED
    lease = _lease_of(device)
    return NONE_NEEDED if lease is None else _held(lease, poll)


@contextmanager
def _held(lease: "_Lease", poll: Callable[[], None]) -> Iterator[None]:
    holder = object()
    try:
        while not lease.take(holder) and not any(each.is_held for each in _leases.values()):
            poll()
            time.sleep(PAUSE)
        yield
    finally:
        lease.give_back(holder)


class _Lease:
    """The lease of one device, of which the threads of this process hold a share each."""

    def __init__(self, device: Device, name: str, place: int) -> None:
        self._device, self._name, self._place = device, name, place
        self._guard, self._holders = Lock(), set[object]()
        self._file: int | None = None
        self._is_lost = False  # there is no lock to be had

    @property
    def is_held(self) -> bool:
        """True if this process has it."""
        return self._file is not None

    def take(self, holder: object) -> bool:
        """Take a share of the lease, if another process does not have it; return whether it is there."""
        with self._guard:
            self._holders.add(holder)
            if self._file is None and not self._is_lost:
                try:
                    self._file = _locked(self._name, self._place)
                except OSError as error:
                    self._is_lost = True
                    message = NO_LEASE.format(device=self._device, error=error)
                    warn_caller(message, UserWarning)
            is_there = self._file is not None or self._is_lost
            if not is_there:
                self._holders.discard(holder)
            return is_there

    def give_back(self, holder: object) -> None:
        """Give a share back, if it has been taken; others can have the lease after the last one."""
        with self._guard:
            self._holders.discard(holder)
            if self._file is not None and not self._holders:
                try:
                    backend(self._device.kind).free_unused(self._device)  # for the next process
                finally:
                    os.close(self._file)
                    self._file = None


_leases: dict[tuple[str, int], _Lease] = {}  # by name and place
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leases.clear)  # a lock of bytes does not pass to a child


def _lease_of(device: Device) -> _Lease | None:
    """Return the lease of a device; None if this process needs none to train there."""
    place = _parent()
    if place is None or lease_setting() == "never":
        return None
    name = _name_of(device)
    if name is None:
        return None
    return _leases.setdefault((name, place), _Lease(device, name, place))


@cache
def _name_of(device: Device) -> str | None:
    return backend(device.kind).identity(device)


def _parent() -> int | None:
    """Return the number of the process for which this one works; None if it is nobody's worker."""
    processes = sys.modules.get("multiprocessing.process")  # workers have loaded it
    parent = None if processes is None else processes.parent_process()
    return None if parent is None else parent.pid


# -- files ----------------------------------------------------------------------------------------


def _locked(name: str, place: int) -> int | None:
    """Return a file of which one byte is locked, until it is closed; None if another process has it."""
    file = os.open(os.path.join(_folder(), f"{name}.lease"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file, place)
    except (BlockingIOError, PermissionError):  # what a held lock is told as
        os.close(file)
        return None
    except BaseException:
        os.close(file)
        raise
    return file


# A lock of bytes is the process's own: one that is forked meanwhile, and lives longer, does not have it.
if sys.platform == "win32":

    def _lock(file: int, place: int) -> None:
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:

    def _lock(file: int, place: int) -> None:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)


def _folder() -> str:
    """Return a folder on this machine that is this user's own; it is created if missing."""
    of_system = os.environ.get("XDG_RUNTIME_DIR", "")
    user = str(os.getuid()) if sys.platform != "win32" else "user"  # whose temporary folder is his own
    if os.path.isabs(of_system) and os.path.isdir(of_system):
        return _own(os.path.join(of_system, "sknet"))
    return _own(os.path.join(tempfile.gettempdir(), f"sknet-{user}"))


def _own(path: str) -> str:
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if sys.platform != "win32":
        status = os.lstat(path)
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if not is_own or status.st_mode & 0o077:
            raise OSError(f"{path} is not a folder that only this user can read and write")
    return path
