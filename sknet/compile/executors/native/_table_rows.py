"""The source of the function that encodes rows of a table, with the bits of NumPy's operations.

Its arguments are the address of a `Field` for each number, how many rows, the addresses of their places among
those that were chosen and in the table, of where their outputs go, and of memory for the numbers of a row.
"""

from enum import IntEnum

from sknet.compile.executors.native._kernels import HEAD

__all__ = ["ARGUMENTS", "COLUMN_FIELDS", "ROWS", "Codes", "Field"]

ARGUMENTS = 6
COLUMN_FIELDS = 6  # a `Codes`, addresses of values, their number in a row, and three numbers of the `Codes`


class Field(IntEnum):
    """What describes a table and its encoding: numbers, and addresses of arrays.

    NUMBERS, STRIDE: address of the numbers, and bytes between their rows.
    N_NUMBERS, CENTERS: their number, and what stands for each where it is missing.
    N_VALUES, KEPT, MIDDLES, SCALES, IS_PHASE: values are scaled, and clipped unless they are phases.
    N_BINS, BIN_NUMBERS, LOW, INVERSE, SMALLEST, LARGEST: every bin, and its number.
    N_FLAGS, FLAGS: numbers with an output for whether they are missing.
    N_COLUMNS, COLUMNS: columns of levels, each `COLUMN_FIELDS` numbers.
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


FIRST = 2  # the row of values for code 0
HUGE = "1e150"

ROWS = (
    HEAD
    + f"""
@kernel
def value_code(levels, count, value):
    known = carray(pointer(levels), count, float64)
    low, high = int64(0), int64(count)
    while low < high:
        middle = (low + high) >> 1
        if known[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < count and known[low] == value else int64({-FIRST})


@kernel
def encode_bins(filled, number, low, inverse, smallest, largest, out, count):
    for j in range(count):  # of all numbers, since a loop over those of one is too short for vectors
        t = (filled[number[j]] - low[j]) * inverse[j]
        t = smallest[j] if t < smallest[j] else t
        t = largest[j] if t > largest[j] else t
        out[j] = float32(t - 0.5)


@kernel
def steps(fields, count, chosen, places, target, room):
    f = carray(pointer(fields), {len(Field)}, int64)
    n_numbers, n_values = f[{Field.N_NUMBERS}], f[{Field.N_VALUES}]
    n_bins, n_flags = f[{Field.N_BINS}], f[{Field.N_FLAGS}]
    centers = carray(pointer(f[{Field.CENTERS}]), n_numbers, float64)
    kept = carray(pointer(f[{Field.KEPT}]), n_values, int64)
    middles = carray(pointer(f[{Field.MIDDLES}]), n_values, float64)
    scales = carray(pointer(f[{Field.SCALES}]), n_values, float64)
    is_phase = carray(pointer(f[{Field.IS_PHASE}]), n_values, uint8)
    number = carray(pointer(f[{Field.BIN_NUMBERS}]), n_bins, int64)
    low = carray(pointer(f[{Field.LOW}]), n_bins, float64)
    inverse = carray(pointer(f[{Field.INVERSE}]), n_bins, float64)
    smallest = carray(pointer(f[{Field.SMALLEST}]), n_bins, float64)
    largest = carray(pointer(f[{Field.LARGEST}]), n_bins, float64)
    flags = carray(pointer(f[{Field.FLAGS}]), n_flags, int64)
    columns = carray(pointer(f[{Field.COLUMNS}]), (f[{Field.N_COLUMNS}], {COLUMN_FIELDS}), int64)
    filled = carray(pointer(room), n_numbers, float64)
    picked, rows = carray(pointer(chosen), count, int64), carray(pointer(places), count, int64)
    for i in range(count):
        numbers = carray(pointer(f[{Field.NUMBERS}] + rows[i] * f[{Field.STRIDE}]), n_numbers, float64)
        start = target + 4 * i * f[{Field.WIDTH}]
        for k in range(n_numbers):
            filled[k] = centers[k] if numbers[k] != numbers[k] else numbers[k]
        out = carray(pointer(start), n_values, float32)
        for k in range(n_values):
            z = (filled[kept[k]] - middles[k]) / scales[k]
            z = -{HUGE} if z < -{HUGE} else z
            z = {HUGE} if z > {HUGE} else z
            third = z / 3.0
            clipped = z / np.sqrt(1.0 + third * third)
            out[k] = float32(z if is_phase[k] else clipped)
        start += 4 * n_values
        bins = carray(pointer(start), n_bins, float32)
        encode_bins(filled, number, low, inverse, smallest, largest, bins, n_bins)
        start += 4 * n_bins
        out = carray(pointer(start), n_flags, float32)
        for k in range(n_flags):
            out[k] = float32(numbers[flags[k]] != numbers[flags[k]])
        start += 4 * n_flags
        for k in range(f[{Field.N_COLUMNS}]):
            column = columns[k]
            if column[0] == {Codes.OF_NUMBER}:
                code = value_code(column[3], column[4], numbers[column[5]])
            else:
                row = rows[i] if column[0] == {Codes.OF_TABLE} else picked[i]
                code = int64(carray(pointer(column[3] + row * column[4]), 1, int32)[0])
            width = column[2]
            values = carray(pointer(column[1] + 4 * width * (code + {FIRST})), width, float32)
            out = carray(pointer(start), width, float32)
            for j in range(width):
                out[j] = values[j]
            start += 4 * width
    return count

"""
)
