"""Calls as instructions of native code, which are carried out once."""

import math
import platform
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from sknet._native import needed
from sknet._parallel import Sharing
from sknet.compile._calls import Call
from sknet.compile.native import _instructions
from sknet.compile.native._instructions import AXIS, SHARES, Kind, Tape
from sknet.compile.native._rules import _adds_up_as_blas, translated, write_product
from sknet.compile.native._run import append

KINDS = list(vars(Kind))
FLUSHES = platform.machine() in (
    "x86_64",
    "AMD64",
)  # processors that flush what is below the least normal number


def calling(function: Callable[..., Any], *args: Any, **named: Any) -> Call:
    """Return a call as programs have them: a function of NumPy or BLAS, and its arguments."""
    return Call(function, args, named)


def is_translated(one: Call) -> bool:
    """Tell whether there are instructions for a call; without, nothing is left of it."""
    tape = Tape()
    found = translated(tape, one)
    assert found or not tape.rows
    return found


def round_otherwise(patch: pytest.MonkeyPatch) -> None:
    """Let BLAS be one that rounds a sum of products in another way than native code."""
    patch.setattr(_instructions, "contracted_body", lambda size: None)


def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """Write a product of two matrices as native code makes it without BLAS."""
    write_product(x, y, out)


def adds_up_as_blas() -> bool:
    """Tell whether products without BLAS are found to have its bits."""
    return _adds_up_as_blas.__wrapped__()


def carry_out(program: np.ndarray, *, is_awake: bool = False, flushes: bool = False) -> bool:
    """Carry out a table of instructions; tell whether all succeeded."""
    turn = np.array([program.ctypes.data, len(program), 1, 0, int(is_awake), int(flushes)])
    return needed().steps(turn.ctypes.data, 1) == 1


class Instructions:
    """Instructions for some calls, fused as those of a step are.

    From so many multiplications as `shared` on, threads share products.
    """

    def __init__(self, calls: Sequence[Call], shared: float = math.inf) -> None:
        self._tape = Tape(shared)
        assert append(self._tape, calls)
        self._program = self._tape.finished()

    @property
    def kinds(self) -> list[str]:
        """Their names."""
        return [KINDS[row[0]] for row in self._tape.rows]

    @property
    def shares(self) -> list[int]:
        """The numbers of shares of products."""
        return [row[SHARES] for row in self._tape.rows if row[0] == Kind.PRODUCT]

    @property
    def axes(self) -> list[int]:
        """What products are divided along: 0 batches, 1 rows, 3 columns."""
        return [row[AXIS] for row in self._tape.rows if row[0] == Kind.PRODUCT]

    def has_shares(self) -> bool:
        """Tell whether threads share a product."""
        return self._tape.has_shares()

    def run(
        self, *, times: int = 1, has_threads: bool = False, is_awake: bool = False, flushes: bool = False
    ) -> bool:
        """Carry them out; tell whether all succeeded.

        With threads, these share products, or, of those that are awake, also long arrays. As in a fit,
        numbers below the least normal one may be flushed.
        """
        program = np.repeat(self._program, times, axis=0) if times > 1 else self._program
        with Sharing(needed()) if has_threads else nullcontext():
            return carry_out(program, is_awake=is_awake, flushes=flushes)
