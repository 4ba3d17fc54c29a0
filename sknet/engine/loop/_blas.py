"""How many threads BLAS uses during fits: one where a second is not worth waking.

After a product, the threads of BLAS spin for a while. If another process or thread needs the core that one of
them has, a product waits for the scheduler, which takes many times longer than a small product.
"""

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

if TYPE_CHECKING:
    from sknet.compile import Plan

__all__ = ["blas_threads", "libraries", "threads_for"]

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
            found = max(found, math.prod(x[-2:]) * (y[-1] if len(y) > 1 else 1))
    return found


def _blas() -> list[Any]:
    return [library for library in libraries().lib_controllers if library.user_api == "blas"]


def _is_per_thread(library: Any) -> bool:
    """Tell whether each thread sets its own number: those of OpenMP are not shared."""
    return getattr(library, "threading_layer", None) == "openmp"


def _set(library: Any, count: int) -> None:
    if library.get_num_threads() != count:
        library.set_num_threads(count)
        # Some versions of threadpoolctl ignore all threads but the last one that has set a number.
        getattr(library, "clear_controlling_thread", bool)()


class _Limits:
    """The limits that fits have set for the process: the lowest holds, and the last to leave undoes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limits: list[int] = []
        self._before: list[tuple[Any, int]] = []

    def enter(self, limit: int) -> None:
        with self._lock:
            if not self._limits:
                shared = [library for library in _blas() if not _is_per_thread(library)]
                self._before = [(library, library.get_num_threads()) for library in shared]
            self._limits.append(limit)
            self._apply()

    def leave(self, limit: int) -> None:
        with self._lock:
            if limit in self._limits:  # not in a process that was forked since
                self._limits.remove(limit)
                self._apply()

    def _apply(self) -> None:
        for library, before in self._before:
            _set(library, min([before, *self._limits]))

    def begin_anew(self) -> None:
        """Undo all limits in a forked process, where the other threads are gone."""
        self._lock, self._limits = threading.Lock(), []
        self._apply()


_limits = _Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limits.begin_anew)


@contextmanager
def blas_threads(limit: int | None) -> Iterator[None]:
    """Return a context in which BLAS uses at most so many threads: in the whole process, or with OpenMP here.

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
    if limit is None:
        yield
        return
    own = [(library, library.get_num_threads()) for library in _blas() if _is_per_thread(library)]
    for library, before in own:
        _set(library, min(before, limit))
    _limits.enter(limit)
    try:
        yield
    finally:
        _limits.leave(limit)
        for library, before in own:
            _set(library, before)
