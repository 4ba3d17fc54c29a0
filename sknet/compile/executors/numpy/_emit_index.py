"""Indexing on NumPy without temporary arrays: positions first, then all elements at once."""

import math
import operator
from typing import Any

import numpy as np

from sknet._indexing import is_basic, may_repeat, rows_of, with_ellipsis

# Private: the loop behind a sparse matrix product, which adds into a given array; see device/_numpy.py.
from sknet._scipy import sparsetools
from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._writer import Writer
from sknet.compile.executors.numpy._emitters import by_its_forward, emitter, scratch, unless_in_place
from sknet.device import backend

__all__: list[str] = []

Needs = list[tuple[tuple[int, ...], Any]]

# -- one element per row ----------------------------------------------------------------------


def _count_from_start(
    w: Writer, equation: Equation, indices: Variable, length: int, out: str, behind: int = 1
) -> None:
    """Write the offsets that indices point to, in steps of `behind`; an index out of bounds raises."""
    if equation.params.get("from_end", True):  # by a table, in which negative indices count from the end
        table = w.constant(np.arange(length) * behind)
        w.method(table, "take", f"{w.name(indices)}, None, {out}")
        return
    if indices.size:
        _check(w, indices, length)
    w.line(f"{w.function(np.copyto, 'copyto')}({out}, {w.name(indices)})")
    if behind != 1:
        w.line(f"{w.function(np.multiply, 'multiply')}({out}, {behind}, {out})")


def _check(w: Writer, indices: Variable, length: int) -> None:
    """Write the check of `check_indices`, with the view and its methods bound once."""
    name, bound = w.name(indices), length
    read = name
    if indices.dtype.kind == "i":  # seen as unsigned integers, negative numbers exceed all valid indices
        unsigned = indices.dtype.str.replace("i", "u")
        read = w.made(f"{name}.view('{unsigned}')", "r")
        bound = min(length, np.iinfo(indices.dtype).max + 1)
    largest, item = w.made(f"{read}.argmax", "argmax"), w.made(f"{read}.item", "item")
    refuse = w.function(backend("cpu").xp.check_indices, "check_indices")
    check = f"{refuse}({name}, {length})"
    w.line(f"if {item}({largest}()) >= {bound}: {check}", check)


@emitter("flat_index")
def _flat_index(w: Writer, equation: Equation) -> None:
    [indices], out = equation.operands, w.name(equation.output)
    length = equation.params["length"]
    starts = w.constant(np.arange(0, indices.size * length, length))
    _count_from_start(w, equation, indices, length, out)
    w.line(f"{w.function(np.add, 'add')}({out}, {starts}, {out})")


@emitter("take_at")
def _take_at(w: Writer, equation: Equation) -> None:
    x, positions = equation.operands
    if not w.plan.views.is_contiguous(x):
        by_its_forward(w, equation)
        return
    # mode="clip" skips the check and the buffer; the positions are valid.
    _take_elements(w, w.name(x), w.name(positions), w.name(equation.output))


def _take_elements(w: Writer, x: str, positions: str, out: str) -> None:
    flat = f"{x}.reshape(-1)"
    w.method(flat, "take", f"{positions}, None, {out}, 'clip'")


def _put_elements(w: Writer, flat: str, positions: str, values: str) -> None:
    w.called["_array_setitem"] = operator.setitem
    w.line(f"{flat}[{positions}] = {values}", f"_array_setitem({flat}, {positions}, {values})")


@scratch("subtract_at")
def _chosen(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    return [(equation.operands[2].shape, equation.output.dtype)]


@emitter("subtract_at")
def _subtract_at(w: Writer, equation: Equation) -> None:
    x, g, positions = equation.operands
    out, part, at = w.name(equation.output), w.scratch(equation), w.name(positions)
    unless_in_place(w, x, equation.output)
    flat = w.made(f"{out}.reshape(-1)", "r")
    _take_elements(w, out, at, part)
    w.line(f"{w.function(np.subtract, 'subtract')}({part}, {_values(w, g, positions)}, {part})")
    _put_elements(w, flat, at, part)


@emitter("put_at")
def _put_at(w: Writer, equation: Equation) -> None:
    g, positions = equation.operands
    out = w.name(equation.output)
    _fill(w, equation.output)
    _put_elements(w, w.made(f"{out}.reshape(-1)", "r"), w.name(positions), _values(w, g, positions))


def _values(w: Writer, g: Variable, positions: Variable) -> str:
    return w.reshaped(g, positions.shape) if w.plan.views.is_contiguous(g) else f"{w.name(g)}.reshape(-1)"


# -- by positions -----------------------------------------------------------------------------


def _take(w: Writer, x: Variable, rows: str, length: int, output: Variable) -> None:
    """Take rows of a matrix by their numbers, which are in bounds."""
    shapes = [(y.size // length, length) if length != 1 else (y.size,) for y in (x, output)]
    matrix, out = w.reshaped(x, shapes[0]), w.reshaped(output, shapes[1])
    # mode="clip" skips the check and the buffer.
    w.method(matrix, "take", f"{rows}, 0, {out}, 'clip'")


def _fill(w: Writer, output: Variable) -> None:
    w.method(w.name(output), "fill", "0")


def _add(w: Writer, g: Variable, rows: str, count: int, length: int, output: Variable) -> None:
    """Add the rows of g to rows of a matrix of zeros, by their numbers, which are in bounds."""
    sizes = f"{output.size // length}, {count}, {length}"
    starts, ones = w.constant(np.arange(count + 1)), w.constant(np.ones(count, g.dtype))
    values, out = w.reshaped(g, (g.size,)), w.reshaped(output, (output.size,))
    add = w.function(sparsetools().csc_matvecs, "csc_matvecs")
    w.line(f"{add}({sizes}, {starts}, {rows}, {ones}, {values}, {out})")


def _is_simple(w: Writer, *xs: Variable) -> bool:
    return all(x.size > 0 and w.plan.views.is_contiguous(x) for x in xs)


def _has_loops(x: Variable) -> bool:
    return x.dtype.char in "fd"


# -- whole rows -------------------------------------------------------------------------------


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after a (negative) axis."""
    at = len(shape) + axis
    return math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])


def _rows(w: Writer, equation: Equation, indices: Variable, before: int, length: int) -> str:
    """Write the row numbers that indices point to, in each matrix of a stack."""
    _count_from_start(w, equation, indices, length, w.scratch(equation))
    if before == 1:
        return w.made(f"{w.scratch(equation)}.reshape(-1)", "r")
    starts = w.constant(np.arange(0, before * length, length).reshape(before, 1))
    each, every = w.made(f"{w.scratch(equation)}.reshape(-1)", "r"), w.scratch(equation, 1)
    w.line(f"{w.function(np.add, 'add')}({starts}, {each}, {every})")
    return w.made(f"{every}.reshape(-1)", "r")


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


def _along(w: Writer, equation: Equation, shape: tuple[int, ...]) -> str:
    """Write the flat positions of the elements in an array of a shape."""
    indices, (before, length, behind) = equation.operands[1], _around(shape, equation.params["axis"])
    _count_from_start(w, equation, indices, length, w.scratch(equation), behind)
    starts = np.arange(before).reshape(-1, 1, 1) * (length * behind) + np.arange(behind)
    places = w.made(f"{w.scratch(equation)}.reshape{before, indices.size // (before * behind), behind}", "r")
    w.line(f"{w.function(np.add, 'add')}({places}, {w.constant(starts)}, {places})")
    return w.made(f"{w.scratch(equation)}.reshape(-1)", "r")


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
    places = _along(w, equation, output.shape)
    if distinct:
        _put_elements(w, w.reshaped(output, (output.size,)), places, w.reshaped(g, (g.size,)))
    else:
        _add(w, g, places, g.size, 1, output)


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
        part = w.made(f"{w.name(output)}[{w.partial(with_ellipsis(index), 'at')}]", "p")
        w.line(f"{w.function(np.copyto, 'copyto')}({part}, {w.name(g)})")
        return
    rows, length = rows_of(np, index, output.shape)
    _add(w, g, w.constant(rows), rows.size, length, output)
