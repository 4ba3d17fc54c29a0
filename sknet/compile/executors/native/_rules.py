"""Translates calls of NumPy to instructions with bitwise identical results; others are left to it."""

import operator
import sys
from collections.abc import Callable
from contextvars import Context
from functools import cache, partial
from typing import Any

import numpy as np

from sknet.compile.executors._calls import Call
from sknet.compile.executors.native import _arithmetic, _moves
from sknet.compile.executors.native._addresses import level_1
from sknet.compile.executors.native._instructions import Tape
from sknet.compile.executors.native._layouts import fill
from sknet.compile.executors.numpy import add_multiple, check_indices, fill_uniform, write_largest

__all__ = ["translated"]

Rule = Callable[[Tape, Call], bool]  # appends instructions, or returns False


def translated(tape: Tape, call: Call) -> bool:
    """Append instructions for a call."""
    rule = _rule_of(call.function)
    return rule is not None and rule(tape, call)


def _rule_of(function: Any) -> Rule | None:
    if isinstance(function, np.ufunc):
        return _arithmetic.matmul if function is np.matmul else _arithmetic.ufunc
    if isinstance(getattr(function, "__self__", None), Context):  # as `silently` calls a function
        return _silenced
    if isinstance(function, partial):
        return _moves.uniform if function.func is fill_uniform else None
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return _arithmetic.reduce if function.__name__ == "reduce" else None
    try:
        return _rules().get(function) or _rule_of_scipy(function)
    except TypeError:  # not hashable
        return None


def _rule_of_scipy(function: Any) -> Rule | None:
    """Return the rule of a function of SciPy, which is loaded only where a program needs it."""
    sparsetools: Any = sys.modules.get("scipy.sparse._sparsetools")
    if sparsetools is not None and function is sparsetools.csc_matvecs:
        return _moves.add_rows
    is_loaded = "scipy.linalg" in sys.modules
    return _arithmetic.vectors if is_loaded and level_1(function) else None


def _silenced(tape: Tape, call: Call) -> bool:
    function, *args = call.args
    return translated(tape, Call(function, tuple(args), call.named))


@cache
def _rules() -> dict[Any, Rule]:
    return {
        np.dot: _arithmetic.dot,
        np.copyto: _moves.copyto,
        np.ndarray.take: _moves.take,
        np.ndarray.fill: lambda tape, call: fill(tape, call.args[0], call.args[1]),
        operator.setitem: _moves.put,
        add_multiple: _arithmetic.add_multiple,
        check_indices: _moves.check_indices,
        write_largest: _arithmetic.largest,
    }
