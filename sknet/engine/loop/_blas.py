"""Limits of BLAS threads during fits: one thread where a second is not worth waking.

After a product, the threads of BLAS spin for a while. If another process or thread needs the core that one of
them has, a product waits for the scheduler, which takes many times longer than a small product.
"""

import math
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sknet._parallel import Threads, are_shared
from sknet.ops.extend import convolution_work, recurrence_work

if TYPE_CHECKING:
    from sknet.compile import Plan

__all__ = ["threads_for"]

# Multiplications of a product for which one thread is enough; OpenBLAS takes one by itself for the tiny ones,
# and finding the libraries takes a process 10 milliseconds.
TINY, SMALL = 1 << 18, 1 << 21
# What else calls BLAS or LAPACK, in products of a size that is not known here.
OTHERS = frozenset(
    {
        *("recurrence_gradient", "recurrence_outputs", "recurrence_tape"),
        *("cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd"),
    }
)
_known: "WeakKeyDictionary[Plan, Threads]" = WeakKeyDictionary()


def threads_for(plan: "Plan") -> Threads:
    """Return how many threads the products of a program should have: 1, or as many as BLAS takes."""
    found = _known.get(plan)
    if found is None:
        found = _known[plan] = _threads_for(plan)
    return found


def _threads_for(plan: "Plan") -> Threads:
    shared, products = 0, [0.0]
    for equation in plan.graph.equations:
        name, work = equation.primitive.name, convolution_work(equation) or recurrence_work(equation)
        if work is not None:
            shared += work.in_threads
            products.append(work.by_blas)
        elif name == "matmul":
            x, y = (operand.shape for operand in equation.operands)
            # A stack of matrices times one matrix is one product.
            rows = x if len(y) == 2 else x[-2:]
            products.append(math.prod(rows) * (y[-1] if len(y) > 1 else 1))
        elif name in OTHERS:
            products.append(math.inf)
    if shared > sum(products) and are_shared():
        return Threads(1, leaves_cores=True)
    return Threads(1 if TINY < max(products) <= SMALL and not shared else None)
