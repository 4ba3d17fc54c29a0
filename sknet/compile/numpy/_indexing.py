"""Indexing on NumPy without temporary arrays: positions first, then all elements at once."""

import math
import operator
from typing import Any

import numpy as np

from sknet._frames import is_basic, may_repeat, rows_of, with_ellipsis
from sknet._late import sparsetools
from sknet.compile._calls import Name, Writer
from sknet.compile._graph import Equation, Variable
from sknet.compile.numpy._emitters import Needs, by_its_forward, emitter, scratch, unless_in_place
from sknet.device import backend

# Private: the loop behind a sparse matrix product, which adds into a given array; see device/_backend.py.


# -- one element per row ----------------------------------------------------------------------


def _count_from_start(
    w: Writer, equation: Equation, indices: Variable, length: int, out: Name, behind: int = 1
) -> None:
    """Write the offsets that indices point to, in steps of `behind`; an index out of bounds raises."""
    if equation.params.get("from_end", True):  # by a table, in which negative indices count from the end
        table = w.constant(np.arange(length) * behind)
        w.call(np.ndarray.take, table, w.name(indices), None, out)
        return
    if indices.size:
        _check(w, indices, length)
    w.call(np.copyto, out, w.name(indices))
    if behind != 1:
        w.call(np.multiply, out, behind, out)


def _check(w: Writer, indices: Variable, length: int) -> None:
    """Add the check of `check_indices`, on a view that is made once."""
    name, bound = w.name(indices), length
    unsigned = name
    if indices.dtype.kind == "i":  # seen as unsigned integers, negative numbers exceed all valid indices
        unsigned = w.viewed(name, indices.dtype.str.replace("i", "u"))
        bound = min(length, np.iinfo(indices.dtype).max + 1)
    w.call(check_indices, name, length, unsigned, bound)


def check_indices(indices: np.ndarray, length: int, unsigned: np.ndarray, bound: int) -> None:
    """Raise an IndexError unless indices, which are also given as unsigned integers, are below a bound."""
    if unsigned.item(unsigned.argmax()) >= bound:
        backend("cpu").xp.check_indices(indices, length)


@emitter("flat_index")
def _flat_index(w: Writer, equation: Equation) -> None:
    [indices], out = equation.operands, w.name(equation.output)
    length = equation.params["length"]
    starts = w.constant(np.arange(0, indices.size * length, length))
    _count_from_start(w, equation, indices, length, out)
    w.call(np.add, out, starts, out)


@emitter("take_at")
def _take_at(w: Writer, equation: Equation) -> None:
    x, positions = equation.operands
    if not w.plan.views.is_contiguous(x):
        by_its_forward(w, equation)
        return
    # mode="clip" skips the check and the buffer; the positions are valid.
    _take_elements(w, w.name(x), w.name(positions), w.name(equation.output))


def _take_elements(w: Writer, x: Name, positions: Name, out: Name) -> None:
    w.call(np.ndarray.take, w.shaped(x, -1), positions, None, out, "clip")


@scratch("subtract_at")
def _chosen(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    return [(equation.operands[2].shape, equation.output.dtype)]


@emitter("subtract_at")
def _subtract_at(w: Writer, equation: Equation) -> None:
    x, g, positions = equation.operands
    out, part, at = w.name(equation.output), w.scratch(equation), w.name(positions)
    unless_in_place(w, x, equation.output)
    flat = w.shaped(out, -1)
    _take_elements(w, out, at, part)
    like_g = w.shaped(part, *g.shape)
    w.call(np.subtract, like_g, w.name(g), like_g)
    w.call(operator.setitem, flat, at, part)


@emitter("put_at")
def _put_at(w: Writer, equation: Equation) -> None:
    g, positions = equation.operands
    out = w.name(equation.output)
    _fill(w, equation.output)
    w.call(operator.setitem, w.shaped(out, -1), w.shaped(w.name(positions), *g.shape), w.name(g))


# -- by positions -----------------------------------------------------------------------------


def _take(w: Writer, x: Variable, rows: Name, length: int, output: Variable) -> None:
    """Take rows of a matrix by their numbers, which are in bounds."""
    shapes = [(y.size // length, length) if length != 1 else (y.size,) for y in (x, output)]
    matrix, out = w.reshaped(x, shapes[0]), w.reshaped(output, shapes[1])
    # mode="clip" skips the check and the buffer.
    w.call(np.ndarray.take, matrix, rows, 0, out, "clip")


def _fill(w: Writer, output: Variable) -> None:
    w.call(np.ndarray.fill, w.name(output), 0)


def _add(w: Writer, g: Variable, rows: Name, count: int, length: int, output: Variable) -> None:
    """Add the rows of g to rows of a matrix of zeros, by their numbers, which are in bounds."""
    n_rows = output.size // length
    starts, ones = w.constant(np.arange(count + 1)), w.constant(np.ones(count, g.dtype))
    values, out = w.reshaped(g, (g.size,)), w.reshaped(output, (output.size,))
    w.call(sparsetools().csc_matvecs, n_rows, count, length, starts, rows, ones, values, out)


def _is_simple(w: Writer, *xs: Variable) -> bool:
    return all(x.size > 0 and w.plan.views.is_contiguous(x) for x in xs)


def _has_loops(x: Variable) -> bool:
    return x.dtype.char in "fd"


# -- whole rows -------------------------------------------------------------------------------


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after a (negative) axis."""
    at = len(shape) + axis
    return math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])


def _rows(w: Writer, equation: Equation, indices: Variable, before: int, length: int) -> Name:
    """Write the row numbers that indices point to, in each matrix of a stack."""
    _count_from_start(w, equation, indices, length, w.scratch(equation))
    if before == 1:
        return w.shaped(w.scratch(equation), -1)
    starts = w.constant(np.arange(0, before * length, length).reshape(before, 1))
    each, every = w.shaped(w.scratch(equation), -1), w.scratch(equation, 1)
    w.call(np.add, starts, each, every)
    return w.shaped(every, -1)


def _of_rows(indices: Variable, before: int) -> Needs:
    whole = np.dtype(np.intp)
    return [(indices.shape, whole), *([((before, indices.size), whole)] if before != 1 else [])]


@scratch("take")
def _take_needs(equation: Equation) -> Needs:
    x, indices = equation.operands
    return _of_rows(indices, _around(x.shape, equation.params["axis"])[0])


@emitter("take")
def _take_rows(w: Writer, equation: Equation) -> None:
    x, indices = equation.operands
    if not _is_simple(w, x) or not equation.output.size:
        by_its_forward(w, equation)
        return
    before, length, behind = _around(x.shape, equation.params["axis"])
    _take(w, x, _rows(w, equation, indices, before, length), behind, equation.output)


@scratch("put")
def _put_needs(equation: Equation) -> Needs:
    return _of_rows(equation.operands[1], _around(equation.output.shape, equation.params["axis"])[0])


@emitter("put")
def _put_rows(w: Writer, equation: Equation) -> None:
    g, indices = equation.operands
    if not _is_simple(w, g) or not _has_loops(g):
        by_its_forward(w, equation)
        return
    before, length, behind = _around(equation.output.shape, equation.params["axis"])
    _fill(w, equation.output)
    rows = _rows(w, equation, indices, before, length)
    _add(w, g, rows, before * indices.size, behind, equation.output)


# -- along an axis ----------------------------------------------------------------------------


@scratch("take_along_axis", "put_along_axis")
def _along_needs(equation: Equation) -> Needs:
    return [(equation.operands[1].shape, np.dtype(np.intp))]


def _along(w: Writer, equation: Equation, shape: tuple[int, ...]) -> Name:
    """Write the flat positions of the elements in an array of a shape."""
    indices, (before, length, behind) = equation.operands[1], _around(shape, equation.params["axis"])
    _count_from_start(w, equation, indices, length, w.scratch(equation), behind)
    starts = np.arange(before).reshape(-1, 1, 1) * (length * behind) + np.arange(behind)
    positions = w.shaped(w.scratch(equation), before, indices.size // (before * behind), behind)
    w.call(np.add, positions, w.constant(starts), positions)
    return w.shaped(w.scratch(equation), -1)


@emitter("take_along_axis")
def _take_along(w: Writer, equation: Equation) -> None:
    x, indices = equation.operands
    if not _is_simple(w, x) or not indices.size:
        by_its_forward(w, equation)
        return
    _take(w, x, _along(w, equation, x.shape), 1, equation.output)


@emitter("put_along_axis")
def _put_along(w: Writer, equation: Equation) -> None:
    g, output = equation.operands[0], equation.output
    distinct = g.shape[equation.params["axis"]] == 1
    if not _is_simple(w, g) or not (distinct or _has_loops(g)):
        by_its_forward(w, equation)
        return
    _fill(w, output)
    positions = _along(w, equation, output.shape)
    if distinct:
        flat, values = w.reshaped(output, (output.size,)), w.reshaped(g, (g.size,))
        w.call(operator.setitem, flat, positions, values)
    else:
        _add(w, g, positions, g.size, 1, output)


# -- with [] ----------------------------------------------------------------------------------


@emitter("getitem")
def _getitem(w: Writer, equation: Equation) -> None:
    [x], index = equation.operands, equation.params["index"]
    if is_basic(index) or not _is_simple(w, x) or not equation.output.size:
        by_its_forward(w, equation)
        return
    rows, length = rows_of(np, index, x.shape)
    _take(w, x, w.constant(rows), length, equation.output)


@emitter("scatter_add")
def _scatter_add(w: Writer, equation: Equation) -> None:
    [g], index, output = equation.operands, equation.params["index"], equation.output
    if not _is_simple(w, g) or not (is_basic(index) or (may_repeat(index) and _has_loops(g))):
        by_its_forward(w, equation)
        return
    _fill(w, output)
    if is_basic(index):
        part = w.part(w.name(output), w.partial(with_ellipsis(index), "at"))
        w.call(np.copyto, part, w.name(g))
        return
    rows, length = rows_of(np, index, output.shape)
    _add(w, g, w.constant(rows), rows.size, length, output)
