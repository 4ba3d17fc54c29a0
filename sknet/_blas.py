"""Limits of the number of threads that BLAS uses.

After a product, the threads of BLAS spin for a while. If another process or thread needs the core that one of
them has, a product waits for the scheduler, which takes many times longer than a small product.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

from sknet._locks import Lock

__all__ = [
    "SMALL",
    "BlasThreads",
    "Threads",
    "are_shared",
    "blas_threads",
    "free_threads",
    "libraries",
    "small_limit",
]

# OpenBLAS's names of processors for which it has kernels for small matrices, which run in one thread.
WITH_SMALL_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
SMALL = 10**6  # the most multiplications that they are used for


@cache
def libraries() -> Any:
    """Return threadpoolctl's controller, which looks for libraries once."""
    return ThreadpoolController()


@cache
def small_limit() -> int:
    """Return up to how many multiplications BLAS uses kernels for small matrices; 0 if it has none."""
    names = {library.get("architecture") for library in libraries().info()}
    return SMALL if names & WITH_SMALL_KERNELS else 0


class Threads(NamedTuple):
    """How many threads some work needs."""

    blas: int | None = None
    leaves_cores: bool = False


class _Limits:
    """The limits of this process, of which the lowest holds; the last to end restores what was before."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: WeakKeyDictionary[Any, Threads] = WeakKeyDictionary()  # by what has set them
        self._before: list[tuple[Any, int]] = []  # limited libraries, and their numbers without limits

    def begin(self, owner: object, limit: Threads) -> None:
        with self._lock:
            if not self._before:
                self._before = _numbers(of_blas()[0], 1)
            self._limits[owner] = limit
            self._apply()

    def free(self) -> int:
        """Return how many threads there may be with one of BLAS each."""
        with self._lock:
            before = dict(self._before)
            numbers = [before.get(library, library.get_num_threads()) for library in of_blas()[0]]
            limits = [each.blas for each in self._limits.values() if not each.leaves_cores]
            return min((count for count in (*numbers, *limits) if count is not None), default=1)

    def end(self, owner: object) -> None:
        with self._lock:
            if self._limits.pop(owner, None) is not None or not self._limits:
                self._apply()
            if not self._limits:
                self._before = []

    def _apply(self) -> None:
        for library, before in self._before:
            limits = [each.blas for each in self._limits.values() if each.blas is not None]
            _set(library, min([before, *limits]))

    def begin_anew(self) -> None:
        """Forget the limits of a forked process, whose other threads are gone."""
        self._limits = WeakKeyDictionary()


@cache
def of_blas() -> tuple[list[Any], list[Any]]:
    """Return the libraries of BLAS that have one number of threads for all of the process, and the others."""
    found = [each for each in libraries().lib_controllers if each.user_api == "blas"]
    return [each for each in found if _is_shared(each)], [each for each in found if not _is_shared(each)]


def are_shared() -> bool:
    """Tell whether limits hold in all threads: no library has a number of its own for each."""
    return not of_blas()[1]


def free_threads() -> int:
    """Return how many threads may share work in the place of those of BLAS: as many as BLAS would use."""
    return _limits.free() if are_shared() else 1


def _numbers(found: list[Any], limit: int) -> list[tuple[Any, int]]:
    """Return libraries that use more threads than a limit, and how many; it is not known of all libraries."""
    return [
        (library, count)
        for library in found
        if (count := library.get_num_threads()) is not None and count > limit
    ]


def _is_shared(library: Any) -> bool:
    """Tell whether a library has one pool of threads, and one number of them, for all of the process."""
    return library.internal_api == "openblas" and getattr(library, "threading_layer", None) != "openmp"


def _set(library: Any, count: int) -> None:
    if library.get_num_threads() != count:
        library.set_num_threads(count)
        # From 3.8 on, threadpoolctl ignores all threads but one until that one lets go.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


_limits = _Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limits.begin_anew)


class BlasThreads:
    """A limit of the number of threads that BLAS uses."""

    def __init__(self) -> None:
        self._others: list[tuple[Any, int]] = []

    def begin(self, limit: int | None, leaves_cores: bool = False) -> None:
        """Begin to limit."""
        if limit is None:
            return
        _limits.begin(self, Threads(limit, leaves_cores))
        self._others = _numbers(of_blas()[1], limit)
        for library, _ in self._others:
            library.set_num_threads(limit)

    def end(self) -> None:
        """End the limit, if there is one: as many threads as before are used again."""
        others, self._others = self._others, []
        for library, count in others:
            library.set_num_threads(count)
        _limits.end(self)


@contextmanager
def blas_threads(limit: int | None) -> Iterator[None]:
    """Return a context in which BLAS uses at most so many threads, see `BlasThreads`."""
    held = BlasThreads()
    try:
        held.begin(limit)
        yield
    finally:
        held.end()
