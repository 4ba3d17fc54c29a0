"""Matrix products, sums and extrema on NumPy."""

import math
from typing import Any

import numpy as np

from sknet._parallel import SMALL, small_limit
from sknet.compile._calls import Writer
from sknet.compile._graph import Equation, Variable
from sknet.compile.numpy._emitters import REAL, Needs, by_its_forward, emitter, level_1, scratch

__all__ = ["parts_of"]


def parts_of(rows: int, per_row: int, limit: int) -> int:
    """Return into how many parts a product is split, so that each fits a kernel for small matrices."""
    if limit < rows * per_row <= 2 * limit:
        for parts in range(2, 5):
            if rows % parts == 0:
                return parts
    return 1


def parts_here(rows: int, per_row: int) -> int:
    """Return `parts_of` for this machine; BLAS is inspected only if needed, as that takes milliseconds."""
    return parts_of(rows, per_row, small_limit()) if SMALL < rows * per_row <= 2 * SMALL else 1


NARROW = 64  # up to this many columns, a maximum over them is faster on the transposed array
ALONE = 9216  # elements of a matrix up to which OpenBLAS multiplies it with a vector in one thread


@emitter("matmul")
def _matmul(w: Writer, equation: Equation) -> None:
    (x, y), output = equation.operands, equation.output
    same = x.dtype == y.dtype and output.size > 0
    # A stack of matrices times one matrix is one product.
    is_stack = x.ndim > y.ndim == 2 and not w.exact and x.dtype.char in REAL and w.plan.views.is_contiguous(x)
    # np.dot calls BLAS with less overhead, but does not take stacks of matrices.
    flat = same and (x.ndim == y.ndim == 2 or is_stack)
    if not flat:
        w.call(np.matmul, w.name(x), w.name(y), w.name(output))
        return
    (inner, columns), rows = y.shape, output.size // y.shape[1]
    source, target = w.reshaped(x, (rows, inner)), w.reshaped(output, (rows, columns))
    if inner == 1 and not w.exact and x.dtype.char in REAL:  # a column times a row
        w.call(np.multiply, source, w.name(y), target)
        return
    # For an inner length of 1 np.dot returns 0 where np.matmul returns 0 * inf, which is NaN.
    fits = inner > 1 and (is_stack or _for_blas(w, x)) and _for_blas(w, y)
    parts = 1 if w.exact or not fits else parts_here(rows, inner * columns)
    if parts > 1:
        source = w.shaped(w.name(x), parts, rows // parts, inner)
        target = w.shaped(w.name(output), parts, rows // parts, columns)
    use_dot = fits and parts == 1
    w.call(np.dot if use_dot else np.matmul, source, w.name(y), target)


def _for_blas(w: Writer, x: Variable) -> bool:
    flags = w.plan.views.ghost(x).flags
    return flags.c_contiguous or flags.f_contiguous


def _reduction(w: Writer, equation: Equation, function: Any, name: str) -> None:
    [x], axis = equation.operands, equation.params["axis"]
    axes = tuple(sorted(a % x.ndim for a in axis))
    at = axes[0] if len(axes) == 1 else axes
    keep = [True] if equation.params["keepdims"] else []
    w.call(function, w.name(x), at, None, w.name(equation.output), *keep, label=name)


def _ends(equation: Equation) -> tuple[int, int, int] | None:
    """Return how many elements are along the summed axes before, the kept axes and the summed axes behind."""
    [x], axis = equation.operands, equation.params["axis"]
    kept = [i for i in range(x.ndim) if i - x.ndim not in axis and i not in axis]
    if not kept or kept != list(range(kept[0], kept[-1] + 1)) or not x.size:
        return None
    parts = slice(kept[0]), slice(kept[0], kept[-1] + 1), slice(kept[-1] + 1, None)
    before, between, behind = (math.prod(x.shape[part]) for part in parts)
    return (before, between, behind) if 1 < behind <= ALONE else None


@scratch("sum")
def _sums_behind(equation: Equation) -> Needs:
    before, kept, _ = _ends(equation) or (1, 1, 1)
    return [((before, kept), equation.output.dtype)] if before > 1 else []


@emitter("sum")
def _sum(w: Writer, equation: Equation) -> None:
    [x], axis, ends = equation.operands, equation.params["axis"], _ends(equation)
    if w.exact or x.dtype.char not in REAL or not w.plan.views.is_contiguous(x):
        _reduction(w, equation, np.add.reduce, "sum")
    elif ends is not None:
        _sum_behind(w, equation, *ends)
    elif 1 <= x.ndim <= 2 and len(axis) == 1 and axis[0] == -x.ndim:
        # As a product with ones: BLAS sums faster than np.add.reduce.
        ones = w.constant(np.ones(x.shape[0], x.dtype))
        target = w.reshaped(equation.output, x.shape[1:])
        w.call(np.dot, ones, w.name(x), target)
    else:
        _reduction(w, equation, np.add.reduce, "sum")


def _sum_behind(w: Writer, equation: Equation, before: int, kept: int, behind: int) -> None:
    """Write the sum over the last axes as products of some rows with ones, then that over the first."""
    [x], rows = equation.operands, before * kept
    sums = w.scratch(equation) if before > 1 else w.name(equation.output)
    ones = np.ones(behind, x.dtype)
    parts = next(n for n in range(-(-rows * behind // ALONE), rows + 1) if rows % n == 0)
    if parts > 1:
        shape = parts, rows // parts
        source, target = w.shaped(w.name(x), *shape, behind), w.shaped(sums, *shape, 1)
        w.call(np.matmul, source, w.constant(ones[:, np.newaxis]), target)
    else:
        source, target = w.reshaped(x, (rows, behind)), w.shaped(sums, -1)
        w.call(np.dot, source, w.constant(ones), target)
    if before > 1:
        w.call(np.add.reduce, sums, 0, None, w.reshaped(equation.output, (kept,)), label="sum")


@scratch("max")
def _turned(equation: Equation) -> Needs:
    x = equation.operands[0]
    return [(x.shape[::-1], x.dtype)] if _is_narrow(equation) else []


@emitter("max", "min")
def _extremum(w: Writer, equation: Equation) -> None:
    name = equation.primitive.name
    function = np.maximum.reduce if name == "max" else np.minimum.reduce
    if name == "min" or not _is_narrow(equation):
        _reduction(w, equation, function, name)
        return
    [x] = equation.operands
    turned = w.scratch(equation)
    w.call(np.copyto, turned, w.turned(w.name(x), (1, 0)))
    w.call(function, turned, 0, None, w.reshaped(equation.output, x.shape[:1]), label=name)


def _is_narrow(equation: Equation) -> bool:
    x: Variable = equation.operands[0]
    return x.ndim == 2 and equation.params["axis"] == (-1,) and 1 < x.shape[1] <= NARROW


@scratch("sum_squares")
def _one_square(equation: Equation) -> Needs:
    return [((), equation.output.dtype)] if len(equation.operands) > 1 else []


@emitter("sum_squares")
def _sum_squares(w: Writer, equation: Equation) -> None:
    out = w.name(equation.output)
    for i, x in enumerate(equation.operands):
        if not w.plan.views.is_contiguous(x):
            by_its_forward(w, equation)
            return
        flat = w.reshaped(x, (x.size,))
        target = w.scratch(equation) if i else out
        w.call(np.dot, flat, flat, target)
        # For one number, a BLAS call takes half the time of a ufunc call.
        if i and not w.exact and x.dtype.char in REAL:
            w.call(level_1("axpy", x), w.shaped(target, 1), w.shaped(out, 1), label="axpy")
        elif i:
            w.call(np.add, out, target, out)
