"""Softmax and related functions on NumPy without temporary arrays, bit for bit like their forwards."""

import math
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._calls import Name
from sknet.compile.executors._writer import Writer
from sknet.compile.executors.numpy._emitters import by_its_forward, emitter, scratch

__all__ = ["write_largest"]

Needs = list[tuple[tuple[int, ...], Any]]


def _kept(equation: Equation) -> tuple[int, ...]:
    """Return the shape with length 1 along the reduced axes."""
    shape = list(equation.operands[0].shape)
    for axis in _axes(equation):
        shape[axis] = 1
    return tuple(shape)


def _axes(equation: Equation) -> tuple[int, ...]:
    """Return the axes that are reduced, counted from the front."""
    given, ndim = equation.params["axis"], equation.operands[0].ndim
    return tuple([a % ndim for a in (given if isinstance(given, tuple) else (given,))])


def _reduce(w: Writer, function: Any, name: str, x: Name, equation: Equation, out: Name) -> None:
    axes = _axes(equation)
    at = axes[0] if len(axes) == 1 else axes
    w.call(function, x, at, None, out, True, label=name)


def _shift(w: Writer, equation: Equation, top: Name, out: Name) -> None:
    """Write x minus its maximum."""
    x = w.name(equation.operands[0])
    number = _number(w, equation, top)
    if _is_one(w, equation):  # a reduction takes four times as long as finding the position
        w.call(write_largest, number, x)
    else:
        _reduce(w, np.maximum.reduce, "max", x, equation, top)
    w.call(np.subtract, x, number, out)


def write_largest(number: np.ndarray, x: np.ndarray) -> None:
    """Write the largest element of an array."""
    number[()] = x.item(x.argmax())


def _is_one(w: Writer, equation: Equation) -> bool:
    """Tell whether this is a prediction for a single row, whose reductions have one element."""
    return w.exact and not w.is_dividing and math.prod(_kept(equation)) == 1


def _number(w: Writer, equation: Equation, row: Name) -> Name:
    """Return an array as one of shape () if it has one element: NumPy broadcasts that in half the time."""
    return w.shaped(row) if _is_one(w, equation) else row


@scratch("softmax")
def _row(equation: Equation) -> Needs:
    return [(_kept(equation), equation.operands[0].dtype)]


@scratch("log_softmax")
def _row_and_powers(equation: Equation) -> Needs:
    x: Variable = equation.operands[0]
    return [*_row(equation), (x.shape, x.dtype)]


@scratch("logsumexp")
def _row_powers_and_mask(equation: Equation) -> Needs:
    return [*_row_and_powers(equation), (_kept(equation), np.dtype(bool))]


@emitter("softmax")
def _softmax(w: Writer, equation: Equation) -> None:
    if not equation.operands[0].size:
        by_its_forward(w, equation)
        return
    out, row = w.name(equation.output), w.scratch(equation)
    _shift(w, equation, row, out)
    w.call(np.exp, out, out)
    _reduce(w, np.add.reduce, "sum", out, equation, row)
    w.call(np.divide, out, _number(w, equation, row), out)


@emitter("log_softmax")
def _log_softmax(w: Writer, equation: Equation) -> None:
    if not equation.operands[0].size:
        by_its_forward(w, equation)
        return
    out, row, powers = w.name(equation.output), w.scratch(equation), w.scratch(equation, 1)
    _shift(w, equation, row, out)
    w.call(np.exp, out, powers)
    _reduce(w, np.add.reduce, "sum", powers, equation, row)
    w.call(np.log, row, row)
    w.call(np.subtract, out, _number(w, equation, row), out)


@emitter("logsumexp")
def _logsumexp(w: Writer, equation: Equation) -> None:
    if not equation.operands[0].size or not _axes(equation):
        by_its_forward(w, equation)
        return
    x, top = w.name(equation.operands[0]), w.scratch(equation)
    powers, infinite = w.scratch(equation, 1), w.scratch(equation, 2)
    out = w.reshaped(equation.output, _kept(equation))
    _reduce(w, np.maximum.reduce, "max", x, equation, top)
    w.call(np.isfinite, top, infinite)
    w.call(np.logical_not, infinite, infinite)
    w.call(np.copyto, top, 0, where=infinite)
    w.call(np.subtract, x, top, powers)
    w.call(np.exp, powers, powers)
    _reduce(w, np.add.reduce, "sum", powers, equation, out)
    w.call(np.log, out, out)
    w.call(np.add, out, top, out)
