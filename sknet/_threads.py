"""Work that several threads share, each with a single thread of BLAS.

Threads that BLAS wakes for a product of medium size wait for each other more than they multiply. Threads with
whole products of their own do not, and all that lies between two products is shared as well.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from sknet._blas import blas_threads, free_threads
from sknet._locks import Lock

__all__ = ["in_threads"]

Room = TypeVar("Room")


class _Pool:
    """Threads that wait for work; a forked process begins without any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(os.cpu_count(), "sknet")
            return self._threads


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.begin_anew)


def in_threads(work: Callable[[int, Room], None], count: int, rooms: Sequence[Room]) -> None:
    """Call a function with each number below `count`, in as many threads as BLAS would use.

    BLAS has one thread meanwhile, however many there are: so its results do not depend on them.

    Parameters
    ----------
    work : callable
        ``work(i, room)``. It is worth other threads if a call takes at least 0.1 ms, most of it without
        Python's global lock.
    count : int
        How many calls.
    rooms : sequence
        What a call has for itself while it runs, as temporary memory; there are no more threads than rooms.

    Raises
    ------
    Exception
        Of a call. None is running any more then, and some may not have begun.

    Examples
    --------
    >>> from sknet._threads import in_threads
    >>> squares = [0, 0, 0]
    >>> in_threads(lambda i, room: squares.__setitem__(i, i * i), 3, ["first", "second"])
    >>> squares
    [0, 1, 4]
    """
    n_threads = min(free_threads(), count, len(rooms))
    with blas_threads(1):
        todo = deque(range(count))
        others = [
            _pool.get().submit(copy_context().run, _take, work, todo, room) for room in rooms[1:n_threads]
        ]
        try:
            _take(work, todo, rooms[0])
        finally:
            todo.clear()
            running = [each for each in others if not each.cancel()]
            for each in running:
                each.exception()  # waits
        for each in running:
            each.result()


def _take(work: Callable[[int, Room], None], todo: deque[int], room: Room) -> None:
    while True:
        try:
            i = todo.popleft()
        except IndexError:
            return
        work(i, room)
