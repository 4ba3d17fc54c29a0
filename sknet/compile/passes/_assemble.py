"""Arrays from parts: what is concatenated or scattered is written to its place directly, and not added up.

Rows of the first axis are a slice of the flat array, so what has such parts is assembled as a flat array, and
shapes come last. Parts along other axes are concatenated.
"""

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of

__all__ = ["ASSEMBLY"]

ASSEMBLY = Rules()

Parts = list[tuple[int, Variable]]


@ASSEMBLY.on("scatter_add")
def scatter(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for some rows, such as the gradient of a slice."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or span.axis or not x.size:
        return None
    return _assembled(rewriter, [(span.start * math.prod(shape[1:]), x)], equation.output)


@ASSEMBLY.on("scatter_add")
def scattered_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for a part of another axis, such as the gradient of some columns."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or not span.axis or not x.size:
        return None
    part = _shaped(rewriter, x, (*shape[: span.axis], span.stop - span.start, *shape[span.axis + 1 :]))
    return _concatenated(rewriter, [(span.start, part)], span.axis, equation.output)


@ASSEMBLY.on("add")
def disjoint(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays whose rows do not overlap is assembled from the rows of both."""
    first, second = (_definition(rewriter, x) for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    parts = sorted(_parts(first) + _parts(second), key=itemgetter(0))
    if _overlap(parts, [x.size for _, x in parts]):
        return None
    return _assembled(rewriter, parts, equation.output)


@ASSEMBLY.on("add")
def disjoint_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays of which each is zero where the other is not, along an axis."""
    first, second = (rewriter.definition(x, "concat") for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    axis = first.params["axis"] % len(equation.output.shape)
    if second.params["axis"] % len(equation.output.shape) != axis:
        return None
    parts = sorted(_parts_along(rewriter, first) + _parts_along(rewriter, second), key=itemgetter(0))
    if any(x.dtype != equation.output.dtype for _, x in parts):
        return None
    if _overlap(parts, [x.shape[axis] for _, x in parts]):
        return None
    return _concatenated(rewriter, parts, axis, equation.output)


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


class _Span(NamedTuple):
    """Some consecutive elements along an axis, and all along the others."""

    axis: int
    start: int
    stop: int


def _span(index: Any, shape: tuple[int, ...]) -> _Span | None:
    """Return what an index takes, if that is all rows, or consecutive elements, or one, along one axis."""
    given = tuple([part for part in (index if isinstance(index, tuple) else (index,)) if part is not None])
    whole = [i for i, part in enumerate(given) if part is Ellipsis]
    if whole:
        all_of_others = (slice(None),) * (len(shape) - len(given) + 1)
        given = (*given[: whole[0]], *all_of_others, *given[whole[0] + 1 :])
    if not given or not shape:
        return None
    found = _Span(0, 0, shape[0])
    for axis, (part, n) in enumerate(zip(given, shape, strict=False)):
        if isinstance(part, int) and not isinstance(part, bool):
            part = slice(part, part + 1 or None)
        if not isinstance(part, slice):
            return None
        start, stop, step = part.indices(n)
        if (start, stop, step) == (0, n, 1):
            continue
        if step != 1 or stop <= start or (found.start, found.stop) != (0, shape[found.axis]):
            return None
        found = _Span(axis, start, stop)
    return found


def _definition(rewriter: Rewriter, x: Operand) -> Equation | None:
    """Return the equation that assembles an array, or the flat one that has its elements."""
    shaped = rewriter.definition(x, "reshape")
    return rewriter.definition(x if shaped is None else shaped.operands[0], "assemble")


def _is_like(x: Operand, other: Variable) -> TypeGuard[Variable]:
    return type(x) is Variable and x.shape == other.shape and x.dtype == other.dtype


def _parts(equation: Equation) -> Parts:
    return list(zip(equation.params["starts"], equation.operands, strict=True))


def _overlap(parts: Parts, lengths: Sequence[int]) -> bool:
    """Tell whether a part, of those in order, begins before the one before it ends."""
    ends = [start + length for (start, _), length in zip(parts, lengths, strict=True)]
    return any(end > start for end, (start, _) in zip(ends, parts[1:], strict=False))


def _parts_along(rewriter: Rewriter, joined: Equation) -> Parts:
    """Return what is concatenated, without zeros, and where each part begins along the axis."""
    found, start, axis = [], 0, joined.params["axis"]
    for x in joined.operands:
        if scalar_of(rewriter, x) != 0:
            found.append((start, x))
        start += x.shape[axis]
    return found


def _concatenated(rewriter: Rewriter, parts: Parts, axis: int, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts, and zeros elsewhere."""
    whole, end = [], 0
    for start, x in (*parts, (like.shape[axis], None)):
        if start > end:
            shape = (*like.shape[:axis], start - end, *like.shape[axis + 1 :])
            whole.append(rewriter.constant(np.broadcast_to(np.zeros((), like.dtype), shape)))
        if x is not None:
            whole.append(x)
            end = start + x.shape[axis]
    return whole[0] if len(whole) == 1 else rewriter.emit("concat", *whole, axis=axis - len(like.shape))


def _assembled(rewriter: Rewriter, parts: Parts, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts."""
    flat = [_shaped(rewriter, part, (part.size,)) for _, part in parts]
    starts = tuple([start for start, _ in parts])
    if [x.size for x in flat] != [like.size]:
        flat = [rewriter.emit(own.assemble, *flat, starts=starts, size=like.size)]
    return _shaped(rewriter, flat[0], like.shape)


def _shaped(rewriter: Rewriter, x: Variable, shape: tuple[int, ...]) -> Variable:
    return x if x.shape == shape else rewriter.emit("reshape", x, shape=shape)
