"""Instructions: rows of integers, each a function of the runner and its arguments, mostly addresses."""

from enum import IntEnum

import numpy as np

from sknet.compile.executors.native._addresses import place_of

__all__ = ["CONVERTED", "GIVEN", "MEANING", "OPERANDS", "TURN", "WIDTH", "Kind", "Meaning", "Spread", "Tape"]

WIDTH = 32  # integers per instruction
TURN = 4  # integers per turn: instructions and their number, steps, and the first
MEANING = 31  # field of a loop that only `_together` reads: see `Meaning`
OPERANDS = 30  # field of a loop that may be carried out in parts: number of addresses, or 0
GIVEN = ("int8", "uint8", "int16", "int32", "int64", "float32", "float64")
# Pairs of dtypes between which elements are converted; NumPy converts all others.
CONVERTED = tuple((a, b) for a in GIVEN for b in ("float32", "float64") if a != b)


class Kind(IntEnum):
    """The first field; the others follow, in this order. `b` is the number of the step in a run."""

    LOOP = 0
    BLAS = 1
    SPREAD = 2
    COPY = 3
    CONVERT = 4
    MASK = 5
    REPLACE = 6
    FILL = 7
    PUT = 8
    ADD_ROWS = 9
    ADD_MULTIPLE = 10
    BOUNDS = 11
    TABLE = 12
    HOST = 13
    FINITE = 14
    COUNTER = 15
    NOTHING = 16
    ADD_ROW_RELU = 17
    MASK_POSITIVE = 18
    UNIFORM = 19
    CHAIN = 20
    MOMENTS = 21
    SQUARES = 22
    QUOTIENTS = 23


class Spread(IntEnum):
    """Operations of a matrix and a row or column that is broadcast to it."""

    ADD_ROW = 0
    SUBTRACT_COLUMN = 1
    MULTIPLY_COLUMN = 2
    DIVIDE_COLUMN = 3


class Meaning(IntEnum):
    """Loops that may be fused with a neighbouring instruction."""

    OTHER = 0
    RELU = 1
    IS_POSITIVE = 2
    SQUARE = 3
    ROOT = 4
    SUM = 5
    QUOTIENT = 6


class Tape:
    """Collects instructions, and keeps alive what they point to."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self._alive: list[np.ndarray] = []

    def address(self, array: np.ndarray) -> int:
        """Return the address of an array, which is kept alive."""
        self._alive.append(array)
        return place_of(array)

    def number(self, value: float, dtype: np.dtype) -> int:
        """Return the address of a constant."""
        return self.address(np.array(value, dtype))

    def add(self, kind: Kind, *fields: int) -> int:
        """Append an instruction; return its position."""
        self.rows.append([int(kind), *map(int, fields), *[0] * (WIDTH - 1 - len(fields))])
        return len(self.rows) - 1

    def finished(self) -> np.ndarray:
        """Return all instructions: ndarray of shape (n, WIDTH), dtype=int64."""
        return np.array(self.rows, np.int64).reshape(-1, WIDTH)
