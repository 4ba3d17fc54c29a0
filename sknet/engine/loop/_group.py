"""Fits that run together: in threads, sharing what does not belong to one of them."""

import threading
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Generic, TypeVar

__all__ = ["Group", "current_group", "n_threads_for", "run_together"]

Result = TypeVar("Result")
KEPT = 8  # idle objects of one form


class Group:
    """Fits that run together.

    Attributes
    ----------
    is_cancelled : bool
        Whether all its fits have to end after the current block of steps.
    """

    def __init__(self) -> None:
        self.is_cancelled = False
        self._idle: dict[Hashable, list[Any]] = {}
        self._lock = threading.Lock()

    def take(self, form: Hashable) -> Any:
        """Return an idle object of this form, which no other fit gets until it is given back; or None."""
        with self._lock:
            idle = self._idle.get(form)
            return idle.pop() if idle else None

    def give_back(self, form: Hashable, idle: Any) -> None:
        """Let other fits use an object."""
        with self._lock:
            found = self._idle.setdefault(form, [])
            if len(found) < KEPT:
                found.append(idle)


_current: ContextVar[Group | None] = ContextVar("group", default=None)


def current_group() -> Group | None:
    """Return the group of the fit that runs in this thread, or None."""
    return _current.get()


def n_threads_for(n_jobs: int | None, n_fits: int) -> int:
    """Return the number of threads for some fits; one inside of other parallel work.

    Parameters
    ----------
    n_jobs : int or None
        As for joblib; None is all cores.
    n_fits : int
        The number of fits.

    Returns
    -------
    int
        At least 1.
    """
    from joblib import effective_n_jobs  # predictors do without
    from joblib.parallel import get_active_backend

    if current_group() is not None or get_active_backend()[0].nesting_level:
        return 1
    return max(1, min(int(effective_n_jobs(-1 if n_jobs is None else n_jobs)), n_fits))


def run_together(fits: Sequence[Callable[[], Result]], n_jobs: int | None = None) -> list[Result]:
    """Run fits together.

    Parameters
    ----------
    fits : sequence of callable
        Each does a fit, with models and callbacks that no other uses.
    n_jobs : int or None, default=None
        The number of threads, as for joblib; None is one for each core. Inside of other parallel work, and of
        another group, there is one.

    Returns
    -------
    list
        The results, in the order of the fits. They do not depend on the number of threads.

    Raises
    ------
    Exception
        The first error of a fit; all others have then ended after the current block of steps.
    KeyboardInterrupt
        On Ctrl-C; likewise.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> X, y = np.eye(4, dtype="float32"), np.array([0.0, 1.0, 1.0, 0.0])
    >>> models = [Model(nn.Linear(4, 1), random_state=seed) for seed in range(3)]
    >>> found = run_together([lambda model=model: model.fit(X, y, epochs=2) for model in models])
    >>> [len(history["loss"]) for history in found]
    [2, 2, 2]
    """
    n_threads, outer = n_threads_for(n_jobs, len(fits)), current_group()
    group = outer or Group()
    token = _current.set(group)
    try:
        if n_threads == 1:
            return [fit() for fit in fits]
        return _in_threads(fits, n_threads, group)
    finally:
        _current.reset(token)


def _in_threads(fits: Sequence[Callable[[], Result]], n_threads: int, group: Group) -> list[Result]:
    from joblib import effective_n_jobs
    from threadpoolctl import threadpool_limits

    threads = _Threads(fits, group)
    with threadpool_limits(max(1, int(effective_n_jobs(-1)) // n_threads), "blas"):
        threads.run(n_threads)
    if threads.error is not None:
        raise threads.error
    return [threads.found[i] for i in range(len(fits))]


class _Threads(Generic[Result]):
    """Threads that take one fit after the other, until all are done or one has failed.

    Parameters
    ----------
    fits : sequence of callable
        The fits.
    group : Group
        Theirs; cancelled when one fails.
    """

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
            self._ended.wait()
        finally:
            if len(self.found) < len(self._fits):
                self._group.is_cancelled = True
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
                self.error = self.error or error
                self._group.is_cancelled = True
            self._ended.set()
            return False
        with self._lock:
            self.found[number] = found
            if len(self.found) == len(self._fits):
                self._ended.set()
        return True
