"""Threads that take shares of a work inside of native code, and look for more for a moment before they rest.

They go from one work to the next without Python if it begins soon, see `sknet/_native/jobs.inc.c`.
They avoid the core of their caller, see `sknet._parallel`.
"""

import os
import threading
from contextlib import suppress
from typing import Any

from sknet._native import Core, needed
from sknet._parallel import BlasThreads, Lock, current_core, free_threads
from sknet.compile.native._instructions import address_of

MOST = 63  # threads besides the leader, see `crew` in sknet/_native/native.h


class _Helper:
    """A thread that takes shares for as long as the process lives."""

    def __init__(self, core: Core, number: int) -> None:
        self._cores: set[int] | None = None  # None for those of the thread that started it
        self.thread = threading.Thread(target=core.serve, args=(number,), name="sknet helper", daemon=True)

    def place(self, cores: set[int] | None) -> None:
        """Have it run on these cores; None if it cannot be placed."""
        if cores and cores != self._cores and self.thread.native_id is not None:
            with suppress(OSError):  # the system does not allow it
                os.sched_setaffinity(self.thread.native_id, cores)
                self._cores = cores


class _Crew:
    """The threads of this process; a forked one begins without any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._helpers: list[_Helper] = []

    def ready(self, core: Core, count: int) -> None:
        """Let so many threads share work, with their leader, on cores other than its."""
        with self._lock:
            while len(self._helpers) < min(count - 1, MOST):
                # Its number is never another's, even if Ctrl-C comes while it starts.
                helper = _Helper(core, len(self._helpers) + 1)
                self._helpers.append(helper)
                try:
                    helper.thread.start()
                except RuntimeError:  # Python ends, or the system allows no more threads
                    self._helpers.remove(helper)
                    break
            core.crew(count, len(self._helpers))
            cores = _other_cores() if count > 1 else None
            for helper in self._helpers[: count - 1]:
                helper.place(cores)


def _other_cores() -> set[int] | None:
    """Return the cores that this thread may use, except for its own; None where threads cannot be placed."""
    current = current_core()
    try:
        return None if current is None else os.sched_getaffinity(0) - {current()}
    except OSError:  # the system does not tell
        return None


_crew = _Crew()


def _begin_anew() -> None:
    global _crew
    _crew = _Crew()
    needed().crew(0, 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


class Sharing:
    """A context in which native code shares work among as many threads as BLAS would use, which has one."""

    def __enter__(self) -> None:
        count, self._held = free_threads(), BlasThreads()
        try:
            self._held.begin(1, leaves_cores=True)
            _crew.ready(needed(), count)
        except BaseException:  # Ctrl-C
            self._held.end()
            raise

    def __exit__(self, *_: object) -> None:
        self._held.end()


def share_out(fields: Any, size: int, work: int) -> None:
    """Do shares of a pass, with one thread of BLAS each; `fields` describe it for each share and thread."""
    n_shares, n_rooms, _ = fields.shape
    step, of_thread, _ = fields.strides
    with Sharing():
        needed().share(address_of(fields), n_shares, step, of_thread, size, n_rooms, work)
