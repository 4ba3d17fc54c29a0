"""Threads that take shares of a work inside of native code, and look for more for a moment before they rest.

To wake a thread takes 30 to 80 us, also of the one that wakes it, and Python's lock is passed on as slowly.
So threads go from one work to the next without either, if it begins soon, as in a step with convolutions.
They avoid the core of their caller, see `sknet._parallel`.
"""

import ctypes
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from sknet._parallel import blas_threads, current_core, free_threads
from sknet.compile.native._instructions import Job, Work, address_of

LENGTH = 32  # of a job
MANY, FEW = 10000, 100  # looks for more work before a thread rests: about 250 and 3 us
QUIET = 16  # works for which threads look but a few times, after one of them was late
NAP = 5e-5  # seconds between looks at another thread that is late with its share

Steps = Callable[[int, int, int], int]


class _Helper:
    """A thread that looks for work when it is called."""

    def __init__(self, steps: Steps, job: Any, number: int) -> None:
        self._given = address_of(job), number, Work.SERVE
        self._steps = steps
        _keep(job)
        self._is_resting = False
        self._call = threading.Lock()
        self._call.acquire()
        self._cores: set[int] | None = None  # None for those of the thread that started it
        self._thread = threading.Thread(target=self._serve, name="sknet helper", daemon=True)

    def start(self) -> None:
        """Begin to look for work."""
        self._thread.start()

    def call(self, cores: set[int] | None) -> None:
        """Have it look for work, on these cores; None if it cannot be placed."""
        if cores and cores != self._cores and self._thread.native_id is not None:
            with suppress(OSError):  # the system does not allow it
                os.sched_setaffinity(self._thread.native_id, cores)
                self._cores = cores
        if self._is_resting and self._call.locked():
            self._call.release()

    def _serve(self) -> None:
        while True:
            self._steps(*self._given)
            self._is_resting = True
            self._call.acquire()
            self._is_resting = False


def _keep(memory: Any) -> None:
    """Never free what a thread in native code may read, even while Python ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


class _Crew:
    """The threads of this process that help with one work at a time; a forked one begins without any."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.job = np.zeros(LENGTH, np.int64)
        self.job[Job.LOOKS] = MANY
        self._helpers: list[_Helper] = []
        self._late = 0

    def note(self, is_late: bool) -> None:
        """Have threads rest sooner if one of them was late, since others want the cores."""
        self._late = QUIET if is_late else max(self._late - 1, 0)
        self.job[Job.LOOKS] = FEW if self._late else MANY

    def call(self, steps: Steps, count: int) -> None:
        """Have so many threads look for work."""
        while len(self._helpers) < count:
            # Its number is never another's, even if Ctrl-C comes while it starts.
            helper = _Helper(steps, self.job, len(self._helpers) + 1)
            self._helpers.append(helper)
            try:
                helper.start()
            except RuntimeError:  # Python ends, or the system allows no more threads
                self._helpers.remove(helper)
                break
        cores = _other_cores()
        for helper in self._helpers[:count]:
            helper.call(cores)


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def job_of_threads() -> tuple[int, int]:
    """Return the address of the job that threads share, and how many may take shares; zeros for none."""
    count = free_threads()
    return (address_of(_crew.job), count) if count > 1 else (0, 0)


def share_out(steps: Steps, fields: Any, size: int, work: int = Work.BY_TILES) -> None:
    """Do shares of a work, in as many threads as BLAS would use, with one thread of BLAS each.

    `fields` has what describes a share, for each share and thread. If the threads have other work, such as
    long instructions of a step, this one does all shares.
    """
    (n_shares, n_rooms, _), crew = fields.shape, _crew
    n_threads = min(free_threads(), n_shares, n_rooms)
    with blas_threads(1):
        if n_threads > 1 and crew.busy.acquire(blocking=False):
            try:
                if _lead(crew, steps, (fields, size, work), n_threads):
                    return
            finally:
                crew.busy.release()
        for share in fields:
            steps(address_of(share), size, work)


def _lead(crew: _Crew, steps: Steps, asked: tuple[Any, int, int], n_threads: int) -> bool:
    """Do shares together with other threads; return False, with nothing done, if these have other work."""
    fields, size, work = asked
    crew.job[Job.ASKED : Job.ASKED + 5] = address_of(fields), *fields.strides[:2], size, work
    crew.call(steps, n_threads - 1)
    place, left, began = address_of(crew.job), 1, time.perf_counter()
    try:
        left = steps(place, len(fields) | n_threads << 32, Work.LEAD)
    finally:
        done = time.perf_counter()
        if left > 0:
            _wait(steps, place)
    if left >= 0:
        # Others end with their last share, which one of them may have begun as this thread ended its own.
        of_share = (done - began) * n_threads / len(fields)
        crew.note(left > 0 and time.perf_counter() - done > of_share)
    return left >= 0


def _wait(steps: Steps, place: int) -> None:
    """Return when all shares are done, also on Ctrl-C, which is raised then."""
    raised = None
    while True:
        try:
            while steps(place, 0, Work.LEAD):
                time.sleep(NAP)
            break
        except BaseException as error:  # a signal's
            raised = error
    if raised is not None:
        raise raised
