"""On which cores threads run while they share work.

Linux may wake a thread on the core of the one that woke it although another core is idle: in virtual
machines, idle cores look taken. Both then take turns for milliseconds, which is as long as most shared work.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

__all__ = ["Cores", "current_core"]


@cache
def current_core() -> Callable[[], int] | None:
    """Return a function that returns the number of the current core; None where threads cannot be placed."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        import ctypes

        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (ImportError, OSError, AttributeError):
        return None
    return found


class Cores:
    """The cores that this thread may use, divided among it and others: each has some of its own."""

    def __init__(self, others: Sequence[int]) -> None:
        self._others = others
        self._all: set[int] = set()  # empty if nothing is divided
        self._here = -1

    def divide(self) -> None:
        """Give the other threads cores of their own, on which they wake then."""
        current = current_core()
        if current is None or not self._others:
            return
        try:
            every, self._here = os.sched_getaffinity(0), current()
        except OSError:  # the system does not tell
            return
        free = sorted(every - {self._here})
        if not free or self._here not in every:
            return
        self._all, count = every, min(len(free), len(self._others))
        for i, thread in enumerate(self._others):
            _place(thread, set(free[i % count :: count]))

    def stay(self) -> None:
        """Keep this thread on its core. Threads that begin now would have only this core, too."""
        if self._all:
            _place(0, {self._here})

    def end(self) -> None:
        """Give all threads all cores again, if that has not been done."""
        if self._all:
            for thread in (0, *self._others):
                _place(thread, self._all)
            self._all = set()


def _place(thread: int, cores: set[int]) -> None:
    with suppress(OSError):  # the thread has ended, or the cores have changed
        os.sched_setaffinity(thread, cores)
