"""Locks that are free in a forked process, where no thread is left that could release them."""

import os
import threading
from contextlib import suppress
from weakref import WeakSet

__all__ = ["Lock"]


class Lock:
    """A lock that a thread may take several times, and that nobody holds in a forked process."""

    def __init__(self) -> None:
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the thread that held it has forked, and in its child nobody holds it
            self._lock.release()


_all: WeakSet[Lock] = WeakSet()


def _renew_all() -> None:
    for lock in _all:
        lock._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
