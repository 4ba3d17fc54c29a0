"""Flat buffers from slices: what is concatenated or scattered is written to its final offset directly."""

import math
from typing import Any

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of

__all__ = ["ASSEMBLY"]

ASSEMBLY = Rules()

Parts = list[tuple[int, Variable]]


@ASSEMBLY.on("scatter_add")
def scatter(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for a slice, such as the gradient of a slice of a flat array."""
    [x] = equation.operands
    bounds = _bounds(equation.params["index"], equation.params["shape"])
    if bounds is None or bounds[1] - bounds[0] != x.size or len(x.shape) != 1:
        return None
    return _assembled(rewriter, [(bounds[0], x)], equation.output.size)


@ASSEMBLY.on("add")
def disjoint(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays whose slices do not overlap is assembled from the slices of both."""
    found = [rewriter.definition(x, "assemble") for x in equation.operands]
    first, second = found
    if first is None or second is None or first.output.shape != second.output.shape:
        return None
    if first.output.dtype != second.output.dtype:
        return None
    parts = sorted(_parts(first) + _parts(second), key=lambda part: part[0])
    ends = [start + x.size for start, x in parts]
    if any(end > start for end, (start, _) in zip(ends, parts[1:], strict=False)):
        return None
    return _assembled(rewriter, parts, first.output.size)


@ASSEMBLY.on("concat")
def joined(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A flat array concatenated from others; zeros among them need not be written."""
    if any(len(x.shape) != 1 or x.dtype != equation.output.dtype for x in equation.operands):
        return None
    parts: Parts = []
    start = 0
    for x in equation.operands:
        inner = rewriter.definition(x, "assemble")
        if inner is not None and rewriter.is_used_once(x):
            parts += [(start + at, part) for at, part in _parts(inner)]
        elif scalar_of(rewriter, x) != 0 and x.size:
            parts.append((start, x))
        start += x.size
    return _assembled(rewriter, parts, start) if parts else None


def _bounds(index: Any, shape: tuple[int, ...]) -> tuple[int, int] | None:
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if len(shape) != 1 or not isinstance(index, slice):
        return None
    start, stop, step = index.indices(shape[0])
    return (start, stop) if step == 1 and stop > start else None


def _parts(equation: Equation) -> Parts:
    return list(zip(equation.params["starts"], equation.operands, strict=True))


def _assembled(rewriter: Rewriter, parts: Parts, size: int) -> Variable:
    starts = tuple([start for start, _ in parts])
    whole = [part for start, part in parts if part.size == size and start == 0]
    if whole:
        return whole[0]
    flat = [_flat(rewriter, part) for _, part in parts]
    return rewriter.emit(own.assemble, *flat, starts=starts, size=size)


def _flat(rewriter: Rewriter, x: Variable) -> Variable:
    shape = (math.prod(x.shape),)
    return x if x.shape == shape else rewriter.emit("reshape", x, shape=shape)
