"""The description of a table whose rows native code encodes, with the bits of NumPy's operations.

Its arguments are the address of a number for each `Field`, how many rows, the addresses of their places among
those that were chosen and in the table, of where their outputs go, and of memory for the numbers of a row.
"""

from enum import IntEnum

__all__ = ["Codes", "Field"]


class Field(IntEnum):
    """Fields that describe a table and its encoding: numbers, and addresses of arrays."""

    NUMBERS = 0
    STRIDE = 1
    N_NUMBERS = 2
    CENTERS = 3
    N_VALUES = 4
    KEPT = 5
    MIDDLES = 6
    SCALES = 7
    IS_PHASE = 8
    N_BINS = 9
    BIN_NUMBERS = 10
    LOW = 11
    INVERSE = 12
    SMALLEST = 13
    LARGEST = 14
    N_FLAGS = 15
    FLAGS = 16
    N_COLUMNS = 17
    COLUMNS = 18
    WIDTH = 19


class Codes(IntEnum):
    """Source of the codes of a column of levels."""

    OF_TABLE = 0
    OF_CHOSEN = 1
    OF_NUMBER = 2
