"""Fusion: elementwise equations that are executed together.

On the host, chains over large arrays are executed block by block, so that a block stays in the cache
(`fuse`). On a device that compiles kernels, equations of one shape are fused into one kernel (`fuse_maps`).
"""

import math
from collections.abc import Callable, Iterator, Sequence

from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._group import Group, is_elementwise

__all__ = ["BLOCK", "fuse", "fuse_maps"]

BLOCK = (
    1 << 13
)  # elements: a handful of such blocks fits into a core's own cache, and BLAS wakes no thread for one
MOST = 64  # equations per kernel: more would run out of registers
CACHE = 1 << 20  # bytes that stay in the cache from one equation to the next: smaller arrays need no blocks


def fuse(graph: Graph, block: int = BLOCK, cache: int = CACHE) -> list[Group]:
    """Group the equations of a graph: elementwise chains over large arrays become one group each.

    Parameters
    ----------
    graph : Graph
        Any graph.
    block : int, default=BLOCK
        Elements of a block.
    cache : int, default=CACHE
        Bytes that the arrays of a chain must have together for them to be divided into blocks.

    Returns
    -------
    list of Group
        Every equation once, in an order in which each uses only what was computed before.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.passes import fuse
    >>> graph = capture(lambda x: ops.tanh(ops.exp(x) + 1), np.zeros((1024, 1024)))
    >>> [[equation.primitive.name for equation in group.equations] for group in fuse(graph)]
    [['exp', 'add', 'tanh']]
    """
    return [_finished(equations, block, cache) for equations in _chains(graph, block)]


def fuse_maps(
    graph: Graph,
    is_map: Callable[[Equation], bool],
    most: int = MOST,
    is_fusible: Callable[[Equation, Sequence[Equation]], bool] | None = None,
) -> list[Group]:
    """Group the equations of a graph for a device: as few kernels as possible.

    Parameters
    ----------
    graph : Graph
        Any graph.
    is_map : callable
        Tells whether a kernel can be generated for an equation: it computes each element independently.
    most : int, default=MOST
        Equations of one kernel.
    is_fusible : callable, default=None
        ``is_fusible(equation, reductions)`` tells whether an equation is a reduction that the kernel of its
        operand can compute besides others; None for none.

    Returns
    -------
    list of Group
        Every equation once, in an order in which each uses only what was computed before. A map
        joins the last group of its output's shape, unless it needs something computed later; a reduction
        joins the group of the map that it reduces.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.passes import fuse_maps
    >>> graph = capture(lambda x: ops.sum(ops.exp(x) + 1), np.zeros(4))
    >>> groups = fuse_maps(graph, lambda equation: equation.primitive.expression is not None)
    >>> [[equation.primitive.name for equation in group.equations] for group in groups]
    [['exp', 'add'], ['sum']]
    """
    groups: list[Group] = []
    reductions: list[list[Equation]] = []
    home: dict[Variable, int] = {}  # the first group that may use a value
    latest: dict[tuple[int, ...], int] = {}
    maps: dict[Variable, int] = {}
    for equation in graph.equations:
        output = equation.output
        number = maps.get(equation.operands[0], -1) if is_fusible is not None and equation.variables else -1
        if is_fusible is not None and number >= 0 and is_fusible(equation, reductions[number]):
            groups[number].equations.append(equation)
            reductions[number].append(equation)
            home[output] = number + 1
            continue
        fused = is_map(equation)
        number = latest.get(output.shape, -1) if fused else -1
        needed = max((home[x] for x in equation.variables if x in home), default=0)
        if number >= needed and len(groups[number].equations) < most:
            groups[number].equations.append(equation)
        else:
            number = len(groups)
            reductions.append([])
            groups.append(Group([equation], 0, fused, reductions[number]))
            if fused:
                latest[output.shape] = number
        home[output] = number
        if fused:
            maps[output] = number
    return groups


def _chains(graph: Graph, least: int) -> Iterator[list[Equation]]:
    chain: list[Equation] = []
    outputs: set[Variable] = set()
    for equation in graph.equations:
        large = equation.output.size > least and is_elementwise(equation) and _can_be_divided(equation)
        if large and chain and chain[0].output.shape == equation.output.shape:
            chain.append(equation)
        elif large or not outputs.isdisjoint(equation.variables):
            if chain:
                yield chain
            chain = [equation]
            outputs.clear()
            if not large:
                yield chain
                chain = []
        else:  # it uses no result of the chain, so it goes before it
            yield [equation]
        if large:
            outputs.add(equation.output)
    if chain:
        yield chain


def _can_be_divided(equation: Equation) -> bool:
    """Tell whether a block of the output's rows needs only the same rows of each operand, or all of it."""
    shape = equation.output.shape
    return len(shape) > 0 and all(
        len(x.shape) < len(shape) or x.shape[0] in (1, shape[0]) for x in equation.variables
    )


def _finished(equations: list[Equation], block: int, cache: int) -> Group:
    arrays = {x for equation in equations for x in (*equation.variables, equation.output)}
    if len(equations) == 1 or sum(x.nbytes for x in arrays) < cache:
        return Group(equations, 0)
    shape = equations[0].output.shape
    rows = max(1, block // math.prod(shape[1:]))
    return Group(equations, rows if rows < shape[0] else 0)
