"""Programs in native code, such as forward passes: their calls, once a run."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Self

import numpy as np

from sknet._native import needed
from sknet.compile.executors._calls import Call
from sknet.compile.executors.native._addresses import place_of
from sknet.compile.executors.native._arithmetic import check_finite
from sknet.compile.executors.native._instructions import GIVEN, Tape
from sknet.compile.executors.native._layouts import code, is_plain
from sknet.compile.executors.native._moves import copied
from sknet.compile.executors.native._rules import translated
from sknet.compile.executors.native._together import joined

__all__ = ["NativeStep"]

LONG = 1 << 16  # bytes that a run reads and writes, about: 10 us and more, for which it releases the GIL


class NativeStep:
    """The calls of a program in native code, with the bits of NumPy's."""

    def __init__(self, tape: Tape, calls: slice, nbytes: int, dtype: np.dtype[Any] | None) -> None:
        self._tape, program = tape, tape.finished()
        start, n_calls = place_of(program), calls.stop - calls.start
        first = start + calls.start * program.strides[0]
        turns = np.array([[first, n_calls, 1, 0], [start, len(program), 1, 0]], np.int64)
        self._alive, self._place, self._place_of_row = (program, turns), place_of(turns), place_of(turns[1])
        self._holds = nbytes < LONG
        self._codes = {} if dtype is None else _codes(dtype)
        self._steps, self._row = needed().steps, needed().row

    @classmethod
    def of(cls, calls: Iterable[Call], slot: Any, result: Any, nbytes: int) -> Self | None:
        """Translate calls, with checks around them if the program computes the outcome of a row."""
        tape = Tape()
        is_row = _is_row(slot) and is_plain(result) and result.dtype.char in "fd"
        if is_row:
            copied(tape, slot, slot)  # the source is that of a run
            check_finite(tape, slot)
        first = len(tape.rows)
        if not all(translated(tape, call) for call in calls):
            return None
        tape.rows[first:] = joined(tape.rows[first:])
        stop = len(tape.rows)
        if is_row:
            check_finite(tape, result)
        return cls(tape, slice(first, stop), nbytes, slot.dtype if is_row else None)

    def run(self) -> bool:
        """Make the calls; tell whether none of them has to be repeated by NumPy, which says what is wrong."""
        return self._steps(self._place, 1) == 1

    def row(self, X: np.ndarray) -> bool:
        """Compute the result for a row; tell whether that was done, and row and result are finite."""
        found = self._codes.get(X.dtype)
        return found is not None and self._row(X, self._place_of_row, found, self._holds) == 1


def _is_row(slot: Any) -> bool:
    return type(slot) is np.ndarray and slot.ndim == 2 and len(slot) == 1 and slot.dtype.char in "fd"


@cache
def _codes(target: np.dtype[Any]) -> dict[np.dtype[Any], int | None]:
    """Return how numbers of each dtype are copied."""
    return {each: code(each, target) for each in map(np.dtype, GIVEN)}
