"""Fits that run together: in threads, sharing what does not belong to one of them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

from sknet._parallel import blas_threads
from sknet.engine.loop._idle import Idle

__all__ = ["Group", "current_group", "grouped", "inside", "n_threads_for", "note_which", "run_in_threads"]

Result = TypeVar("Result")
KEPT = 32  # idle steps, each with memory of its own
WAKE = 0.05  # seconds; a signal that reaches another thread does not wake the one that waits


class Group:
    """Fits that run together."""

    def __init__(self, n_threads: int, outer: "Group | None" = None) -> None:
        self.n_threads, self._outer = n_threads, outer
        self._ends = False
        self.turn: Any = None
        self.idle: Idle = Idle(KEPT) if outer is None else outer.idle

    @property
    def is_parallel(self) -> bool:
        """True if this group, or one around it, has several threads."""
        return self.n_threads > 1 or (self._outer is not None and self._outer.is_parallel)

    @property
    def is_cancelled(self) -> bool:
        """True if all fits have to end after the current block of steps."""
        return self._ends or (self._outer is not None and self._outer.is_cancelled)

    def cancel(self) -> None:
        """Let all fits end after the current block of steps."""
        self._ends = True


_current: ContextVar[Group | None] = ContextVar("group", default=None)


def current_group() -> Group | None:
    """Return the group of the fit that runs in this thread, or None."""
    return _current.get()


def n_threads_for(n_jobs: int | None, n_fits: int) -> int:
    """Return the number of threads for some fits; one inside of work that is parallel already."""
    from joblib import effective_n_jobs  # predictors do without
    from joblib.parallel import get_active_backend

    group = current_group()
    if (group is not None and group.is_parallel) or get_active_backend()[0].nesting_level:
        return 1
    return max(1, min(int(effective_n_jobs(-1 if n_jobs is None else n_jobs)), n_fits))


@contextmanager
def grouped(n_threads: int) -> Iterator[Group]:
    """Return a context in which fits are those of one group, in threads that run copies of it."""
    from joblib import effective_n_jobs  # predictors do without

    cores = max(1, int(effective_n_jobs(-1)) // n_threads)
    group = Group(n_threads, current_group())
    with inside(group), blas_threads(cores if n_threads > 1 else None):
        yield group


@contextmanager
def inside(group: Group) -> Iterator[None]:
    """Return a context in which fits are those of a group."""
    token = _current.set(group)
    try:
        yield
    finally:
        _current.reset(token)


def note_which(number: int, count: int) -> AbstractContextManager[None]:
    """Return a context whose errors say which of several fits they belong to."""
    return _noting(f"in fit {number} of {count}, counted from 0" if count > 1 else None)


@contextmanager
def _noting(note: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if note is not None:
            error.add_note(note)
        raise


def run_in_threads(
    fits: Sequence[Callable[[], Result]], n_jobs: int | None = None, notes: Sequence[str] | None = None
) -> list[Result]:
    """Run fits together, in threads of this process, whatever joblib's backend is."""
    n_threads, count = n_threads_for(n_jobs, len(fits)), len(fits)
    named = [note_which(i, count) if notes is None else _noting(notes[i]) for i in range(count)]
    whole = [_within(each, fit) for each, fit in zip(named, fits, strict=True)]
    with grouped(n_threads) as group:
        return [fit() for fit in whole] if n_threads == 1 else _in_threads(whole, group)


def _within(context: AbstractContextManager[None], fit: Callable[[], Result]) -> Callable[[], Result]:
    def run() -> Result:
        with context:
            return fit()

    return run


def _in_threads(fits: Sequence[Callable[[], Result]], group: Group) -> list[Result]:
    threads = _Threads(fits, group)
    threads.run(group.n_threads)
    if threads.error is not None:
        raise threads.error
    if len(threads.found) < len(fits):  # a group around this one was cancelled
        raise KeyboardInterrupt
    return [threads.found[i] for i in range(len(fits))]


class _Threads(Generic[Result]):
    """Threads that take one fit after the other, until all are done or one has failed."""

    def __init__(self, fits: Sequence[Callable[[], Result]], group: Group) -> None:
        from sklearn import get_config

        self._fits, self._group, self._next = fits, group, iter(range(len(fits)))
        self._lock, self._go, self._ended = threading.Lock(), threading.Event(), threading.Event()
        self.found: dict[int, Result] = {}
        self.error: BaseException | None = None
        self._config = get_config()  # each thread has its own

    def run(self, count: int) -> None:
        """Run all fits in `count` threads, none of which is left when this returns or raises."""
        threads = [
            threading.Thread(target=copy_context().run, args=(self._work,), name=f"sknet-fit-{i}")
            for i in range(count)
        ]
        try:
            # None begins before all have been started, which Ctrl-C may prevent.
            for thread in threads:
                thread.start()
            self._go.set()
            while not self._ended.wait(WAKE) and any(thread.is_alive() for thread in threads):
                pass
        finally:
            if len(self.found) < len(self._fits):
                self._group.cancel()
            self._go.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self) -> None:
        self._go.wait()
        from sklearn import config_context

        with config_context(**self._config):
            while not self._group.is_cancelled and self._fit_next():
                pass

    def _fit_next(self) -> bool:
        """Run the next fit; return whether there was one."""
        with self._lock:
            number = next(self._next, None)
        if number is None:
            return False
        try:
            found = self._fits[number]()
        except BaseException as error:
            with self._lock:
                # The first is the cause; those after it say that the group is cancelled.
                self.error = error if self.error is None else self.error
                self._group.cancel()
            self._ended.set()
            return False
        with self._lock:
            self.found[number] = found
            if len(self.found) == len(self._fits):
                self._ended.set()
        return True
