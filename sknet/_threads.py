"""Work that several threads share, each with a single thread of BLAS.

Threads that BLAS wakes for a product of medium size wait for each other more than they multiply. Threads with
whole products of their own do not, and all that lies between two products is shared as well.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from sknet._blas import are_shared, blas_threads, free_threads
from sknet._cores import Cores
from sknet._locks import Lock

__all__ = ["in_threads"]

Room = TypeVar("Room")


class _Pool:
    """Threads that wait for work; a forked process begins without any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.numbers: list[int] = []  # the system's, of threads
        self.placing = threading.Lock()  # held by the call that decides where they run
        self._threads: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(os.cpu_count(), "sknet", self._note)
            return self._threads

    def _note(self) -> None:
        self.numbers.append(threading.get_native_id())


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.begin_anew)


def in_threads(work: Callable[[int, Room], None], count: int, rooms: Sequence[Room]) -> None:
    """Call a function with each number below `count`, in as many threads as BLAS would use."""
    n_threads = min(free_threads(), count, len(rooms))
    todo = deque(range(count))
    others = [_Helper(work, todo, room) for room in rooms[1:n_threads]]
    with blas_threads(1 if are_shared() else None), _cores_of(len(others)) as cores:
        try:
            cores.divide()
            for each in others:
                each.begin()
            cores.stay()
            _take(work, todo, rooms[0])
        finally:
            todo.clear()
            try:
                cores.end()
            finally:
                _wait_for(others)
    for each in others:
        if each.error is not None:
            raise each.error


@contextmanager
def _cores_of(n_others: int) -> Iterator[Cores]:
    """Return a context whose value places threads, those of the first call if there are several at a time."""
    placing = _pool.placing
    if not n_others or not placing.acquire(blocking=False):
        yield Cores([])
        return
    cores = Cores(_pool.numbers[:])
    try:
        yield cores
    finally:
        cores.end()  # if Ctrl-C has cut the first off
        placing.release()


def _take(work: Callable[[int, Room], None], todo: deque[int], room: Room) -> None:
    while True:
        try:
            i = todo.popleft()
        except IndexError:
            return
        work(i, room)


class _Helper(Generic[Room]):
    """Another thread's part of some work; there is nothing to do any more if it begins late."""

    def __init__(self, work: Callable[[int, Room], None], todo: deque[int], room: Room) -> None:
        self.busy = Lock()
        self.error: BaseException | None = None
        self._given = work, todo, room

    def begin(self) -> None:
        # RuntimeError: no thread can begin any more, as Python ends, or the system allows no more of them.
        with suppress(RuntimeError):
            _pool.get().submit(copy_context().run, self._run)

    def _run(self) -> None:
        with self.busy:
            try:
                _take(*self._given)
            except BaseException as error:
                self.error = error


def _wait_for(helpers: Sequence[_Helper[Any]]) -> None:
    """Return when none is at work, also on Ctrl-C, which is raised then."""
    raised = None
    for each in helpers:
        while True:
            try:
                with each.busy:
                    break
            except BaseException as error:  # a signal's; a lock raises none
                raised = error
    if raised is not None:
        raise raised
