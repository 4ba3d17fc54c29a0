"""The description of a table whose rows native code encodes, with the bits of NumPy's operations.

Its arguments are the address of a number for each `Field`, how many rows, the addresses of their places among
those that were chosen and in the table, of where their outputs go, and of memory for the numbers of a row.
"""

from enum import IntEnum

__all__ = ["Codes", "Field"]


class Field(IntEnum):
    """What describes a table and its encoding: numbers, and addresses of arrays.

    NUMBERS, STRIDE: address of the numbers, and bytes between their rows.
    N_NUMBERS, CENTERS: their number, and what stands for each where it is missing.
    N_VALUES, KEPT, MIDDLES, SCALES, IS_PHASE: values are scaled, and clipped unless they are phases.
    N_BINS, BIN_NUMBERS, LOW, INVERSE, SMALLEST, LARGEST: every bin, and its number.
    N_FLAGS, FLAGS: numbers with an output for whether they are missing.
    N_COLUMNS, COLUMNS: columns of levels, each a `Codes`, the address of values, their number in a row, and
    three numbers of the `Codes`.
    WIDTH: outputs of a row.
    """

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
    """Where the codes of a column of levels come from.

    OF_TABLE: address of codes of the table, and bytes between them.
    OF_CHOSEN: the same of the rows that may be chosen.
    OF_NUMBER: address of increasing values, how many, and the number that is looked up among them.
    """

    OF_TABLE = 0
    OF_CHOSEN = 1
    OF_NUMBER = 2
