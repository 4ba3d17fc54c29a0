"""Totals that share a kernel: a reduction to one number waits for the next, if nothing needs it before."""

from collections.abc import Callable, Sequence

from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._group import Group

__all__ = ["join_totals"]

MOST = 8  # parts of a kernel
KEPT = 1 << 22  # bytes that a total keeps in memory while it waits, at most


def join_totals(
    graph: Graph, groups: Sequence[Group], is_of_blocks: Callable[[Equation], bool]
) -> list[Group]:
    """Join groups that have totals of different arrays, as parts of one group.

    Parameters
    ----------
    graph : Graph
        Any graph.
    groups : list of Group
        Its equations, in order.
    is_of_blocks : callable
        Tells whether a kernel can compute a reduction besides others of other arrays.

    Returns
    -------
    list of Group
        Every equation once, in order. A group goes to the next one that can be joined with it: a kernel
        computes all totals first, and then the maps of them all.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.passes import Kernels, fuse_maps, join_totals
    >>> graph = capture(lambda x, y: ops.sum_squares(x) + ops.sum_squares(y), np.zeros(4), np.zeros(9))
    >>> def is_total(equation):
    ...     return equation.primitive.name == "sum_squares"
    >>> is_map = lambda equation: equation.primitive.expression is not None
    >>> groups = fuse_maps(graph, Kernels(is_map, is_total))
    >>> len(groups), len(join_totals(graph, groups, is_total))
    (2, 1)
    """
    found = _Waiting({*graph.inputs, *graph.constants})
    for group in groups:
        found.take(group, bool(group.reductions) and all(map(is_of_blocks, group.reductions)))
    return found.all()


class _Waiting:
    """Groups in order, of which the last ones may be put off."""

    def __init__(self, resident: set[Variable]) -> None:
        self._resident = resident  # inputs, constants and views of them, which take no memory of the plan
        self._done: list[Group] = []
        self._waiting: list[Group] = []

    def take(self, group: Group, has_totals: bool) -> None:
        """Take the next group."""
        made = {x for each in self._waiting for x in each.internal}
        after = group.epilogue if has_totals else ()
        read = {x for e in group.equations if e not in after for x in e.variables}
        if made & read or (has_totals and self._n_parts >= MOST):
            self._go_on()
        if has_totals:
            self._waiting.append(group)
            if self._kept(group) > KEPT:
                self._go_on()
            return
        for equation in group.equations:
            if equation.primitive.view is not None and self._resident.issuperset(equation.variables):
                self._resident.add(equation.output)
        self._done.append(group)

    @property
    def _n_parts(self) -> int:
        return sum(len(group.reductions) for group in self._waiting)

    def _kept(self, group: Group) -> int:
        made = group.internal
        read = {x for e in group.equations for x in e.variables} - made - self._resident
        return sum(x.nbytes for x in read)

    def _go_on(self) -> None:
        if self._waiting:
            self._done.append(_joined(self._waiting))
            self._waiting = []

    def all(self) -> list[Group]:
        """Return all groups."""
        self._go_on()
        return self._done


def _joined(parts: list[Group]) -> Group:
    if len(parts) == 1:
        return parts[0]
    before = [e for part in parts for e in part.equations if e not in part.epilogue]
    reductions = [e for part in parts for e in part.reductions]
    epilogue = [e for part in parts for e in part.epilogue]
    return Group([*before, *epilogue], 0, True, reductions, epilogue, parts)
