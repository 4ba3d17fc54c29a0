"""Arrays from rows: what is concatenated or scattered is written to its final offset directly.

Rows of the first axis are a slice of the flat array, so all of it is about flat arrays, and shapes come last.
"""

import math
from typing import Any, TypeGuard

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of

__all__ = ["ASSEMBLY"]

ASSEMBLY = Rules()

Parts = list[tuple[int, Variable]]


@ASSEMBLY.on("scatter_add")
def scatter(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for some rows, such as the gradient of a slice."""
    [x] = equation.operands
    bounds = _bounds(equation.params["index"], equation.params["shape"])
    if bounds is None or bounds[1] - bounds[0] != x.size:
        return None
    return _assembled(rewriter, [(bounds[0], x)], equation.output)


@ASSEMBLY.on("add")
def disjoint(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays whose rows do not overlap is assembled from the rows of both."""
    first, second = (_definition(rewriter, x) for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    parts = sorted(_parts(first) + _parts(second), key=lambda part: part[0])
    ends = [start + x.size for start, x in parts]
    if any(end > start for end, (start, _) in zip(ends, parts[1:], strict=False)):
        return None
    return _assembled(rewriter, parts, equation.output)


@ASSEMBLY.on("add")
def nothing_added(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum with zeros that are the gradient of an empty slice."""
    for x, zeros in (equation.operands, equation.operands[::-1]):
        scattered = rewriter.definition(zeros, "scatter_add")
        if scattered is not None and not scattered.operands[0].size and _is_like(x, equation.output):
            return x
    return None


@ASSEMBLY.on("concat")
def joined(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An array concatenated from rows; zeros among them need not be written."""
    output = equation.output
    if equation.params["axis"] % len(output.shape) or any(x.dtype != output.dtype for x in equation.operands):
        return None
    parts: Parts = []
    start = 0
    for x in equation.operands:
        inner = _definition(rewriter, x)
        if inner is not None and rewriter.is_used_once(x):
            parts += [(start + at, part) for at, part in _parts(inner)]
        elif scalar_of(rewriter, x) != 0 and x.size:
            parts.append((start, x))
        start += x.size
    return _assembled(rewriter, parts, output) if parts else None


def _bounds(index: Any, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the first and the last element, exclusively, of an index that takes consecutive rows, or one."""
    given = tuple([part for part in (index if isinstance(index, tuple) else (index,)) if part is not None])
    whole = [i for i, part in enumerate(given) if part is Ellipsis]
    if whole:
        all_of_others = (slice(None),) * (len(shape) - len(given) + 1)
        given = (*given[: whole[0]], *all_of_others, *given[whole[0] + 1 :])
    if not given or not shape or not all(isinstance(part, slice) for part in given[1:]):
        return None
    first, *others = given
    if isinstance(first, int) and not isinstance(first, bool):
        first = slice(first, first + 1 or None)
    if not isinstance(first, slice):
        return None
    if any(part.indices(n) != (0, n, 1) for part, n in zip(others, shape[1:], strict=False)):
        return None
    start, stop, step = first.indices(shape[0])
    length = math.prod(shape[1:])
    return (start * length, stop * length) if step == 1 and stop > start and length else None


def _definition(rewriter: Rewriter, x: Operand) -> Equation | None:
    """Return the equation that assembles an array, or the flat one that has its elements."""
    shaped = rewriter.definition(x, "reshape")
    return rewriter.definition(x if shaped is None else shaped.operands[0], "assemble")


def _is_like(x: Operand, other: Variable) -> TypeGuard[Variable]:
    return type(x) is Variable and x.shape == other.shape and x.dtype == other.dtype


def _parts(equation: Equation) -> Parts:
    return list(zip(equation.params["starts"], equation.operands, strict=True))


def _assembled(rewriter: Rewriter, parts: Parts, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts."""
    flat = [_shaped(rewriter, part, (part.size,)) for _, part in parts]
    starts = tuple([start for start, _ in parts])
    if [x.size for x in flat] != [like.size]:
        flat = [rewriter.emit(own.assemble, *flat, starts=starts, size=like.size)]
    return _shaped(rewriter, flat[0], like.shape)


def _shaped(rewriter: Rewriter, x: Variable, shape: tuple[int, ...]) -> Variable:
    return x if x.shape == shape else rewriter.emit("reshape", x, shape=shape)
