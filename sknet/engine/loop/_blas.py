"""How many threads BLAS uses during fits: one where a second is not worth waking.

After a product, the threads of BLAS spin for a while. If another process or thread needs the core that one of
them has, a product waits for the scheduler, which takes many times longer than a small product.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

from sknet._locks import Lock

if TYPE_CHECKING:
    from sknet.compile import Plan

__all__ = ["BlasThreads", "blas_threads", "libraries", "threads_for"]

# Multiplications of a product for which one thread is enough; OpenBLAS takes one by itself for the tiny ones,
# and finding the libraries takes a process 10 milliseconds.
TINY, SMALL = 1 << 18, 1 << 21
# What else calls BLAS or LAPACK, in products of a size that is not known here.
OTHERS = frozenset(
    {
        *("conv", "conv_image", "conv_weight", "recurrence", "recurrence_gradient", "recurrence_tape"),
        *("cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd"),
    }
)
_largest: "WeakKeyDictionary[Plan, float]" = WeakKeyDictionary()


@cache
def libraries() -> Any:
    """Return threadpoolctl's controller, which looks for libraries once.

    Looking takes milliseconds, as long as a short fit; NumPy's BLAS is loaded from the start.
    """
    return ThreadpoolController()


def threads_for(plan: "Plan") -> int | None:
    """Return how many threads the products of a program should have: 1, or None for what BLAS takes.

    Parameters
    ----------
    plan : Plan
        The program's.
    """
    if plan not in _largest:
        _largest[plan] = _largest_product(plan)
    return 1 if TINY < _largest[plan] <= SMALL else None


def _largest_product(plan: "Plan") -> float:
    """Return the number of multiplications of the largest matrix product."""
    found = 0
    for equation in plan.graph.equations:
        name = equation.primitive.name
        if name in OTHERS:
            return math.inf
        if name == "matmul":
            x, y = (operand.shape for operand in equation.operands)
            # A stack of matrices times one matrix is one product.
            rows = x if len(y) == 2 else x[-2:]
            found = max(found, math.prod(rows) * (y[-1] if len(y) > 1 else 1))
    return found


class _Limits:
    """The limits of this process, of which the lowest holds; the last to end restores what was before.

    Ctrl-C may cut any line off: what is left undone then is done when the next limit ends.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by what has set them
        self._before: list[tuple[Any, int]] = []  # limited libraries, and their numbers without limits

    def begin(self, owner: object, limit: int) -> None:
        with self._lock:
            if not self._before:
                self._before = _numbers(of_blas()[0], 1)
            self._limits[owner] = limit
            self._apply()

    def end(self, owner: object) -> None:
        with self._lock:
            if self._limits.pop(owner, None) is not None or not self._limits:
                self._apply()
            if not self._limits:
                self._before = []

    def _apply(self) -> None:
        for library, before in self._before:
            _set(library, min([before, *self._limits.values()]))

    def begin_anew(self) -> None:
        """Forget the limits of a forked process, whose other threads are gone.

        Libraries are not called: another thread may have been inside of them. The next limit restores them.
        """
        self._limits = WeakKeyDictionary()


@cache
def of_blas() -> tuple[list[Any], list[Any]]:
    """Return the libraries of BLAS that have one number of threads for all of the process, and the others."""
    found = [each for each in libraries().lib_controllers if each.user_api == "blas"]
    return [each for each in found if _is_shared(each)], [each for each in found if not _is_shared(each)]


def _numbers(found: list[Any], limit: int) -> list[tuple[Any, int]]:
    """Return libraries that use more threads than a limit, and how many; it is not known of all libraries."""
    numbers = [(library, library.get_num_threads()) for library in found]
    return [(library, count) for library, count in numbers if count is not None and count > limit]


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
    """A limit of the number of threads that BLAS uses.

    OpenBLAS has one number for the process, so the limit holds in all threads; limits that overlap end in any
    order. Other libraries are limited as by threadpoolctl: some in the thread that calls `begin`.

    Examples
    --------
    >>> from sknet.engine.extend import BlasThreads
    >>> limit = BlasThreads()
    >>> limit.begin(1)
    >>> limit.end()
    """

    def __init__(self) -> None:
        self._others: list[tuple[Any, int]] = []

    def begin(self, limit: int | None) -> None:
        """Begin to limit.

        Parameters
        ----------
        limit : int or None
            The most threads; None for no limit.
        """
        if limit is None:
            return
        _limits.begin(self, limit)
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
    """Return a context in which BLAS uses at most so many threads, see `BlasThreads`.

    Parameters
    ----------
    limit : int or None
        The number; None for no limit.

    Returns
    -------
    context manager
        Its value is None.

    Examples
    --------
    >>> from sknet.engine.extend import blas_threads
    >>> with blas_threads(1):
    ...     pass
    """
    held = BlasThreads()
    try:
        held.begin(limit)
        yield
    finally:
        held.end()
