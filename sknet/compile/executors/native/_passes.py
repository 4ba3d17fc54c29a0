"""The source of functions that go over arrays once where NumPy makes many passes, with the bits of its calls.

Convolutions of images, channel by channel, take the address of a number for each `Field`; `erfc` takes that
of a number for each `Operand`.
"""

from enum import IntEnum

from sknet.compile.executors.native._kernels import HEAD
from sknet.compile.executors.numpy import COEFFICIENTS

__all__ = ["ARGUMENTS", "PASSES", "Field", "Operand", "Work"]

ARGUMENTS = 3


class Work(IntEnum):
    """What is computed."""

    CONVOLVED = 0
    WEIGHT = 1
    ERFC = 2


class Field(IntEnum):
    """What describes images and kernels: addresses of arrays, steps between elements in bytes, and lengths.

    X, X_SAMPLE, X_CHANNEL, X_ROW, X_COLUMN: images, and the steps along their axes.
    G, G_SAMPLE, G_CHANNEL, G_ROW, G_COLUMN: kernels, or images of the gradient.
    OUT: images, or sums for each channel, element of a kernel and place, both contiguous.
    PADDED, SPREAD: room for images with a row more, and for a place of every window; for WEIGHT, two of each.
    SAMPLES, CHANNELS, ROWS, COLUMNS, TOP, LEFT: of the images, and what is above and left of them.
    PADDED_ROWS, PADDED_COLUMNS: of the padded image, with the row more.
    KERNEL_ROWS, KERNEL_COLUMNS, STRIDE_ROWS, STRIDE_COLUMNS, APART_ROWS, APART_COLUMNS: of windows.
    GRID_ROWS, GRID_COLUMNS, WIDTH: windows, and with how many columns they are computed.
    """

    X = 0
    X_SAMPLE = 1
    X_CHANNEL = 2
    X_ROW = 3
    X_COLUMN = 4
    G = 5
    G_SAMPLE = 6
    G_CHANNEL = 7
    G_ROW = 8
    G_COLUMN = 9
    OUT = 10
    PADDED = 11
    SPREAD = 12
    SAMPLES = 13
    CHANNELS = 14
    ROWS = 15
    COLUMNS = 16
    TOP = 17
    LEFT = 18
    PADDED_ROWS = 19
    PADDED_COLUMNS = 20
    KERNEL_ROWS = 21
    KERNEL_COLUMNS = 22
    STRIDE_ROWS = 23
    STRIDE_COLUMNS = 24
    APART_ROWS = 25
    APART_COLUMNS = 26
    GRID_ROWS = 27
    GRID_COLUMNS = 28
    WIDTH = 29


class Operand(IntEnum):
    """What `erfc` works on.

    X, OUT, LENGTH: addresses of the operand and the result, and their length.
    ROOMS, CHUNK: address of three arrays of as many elements as are computed at a time.
    EXP, EXP_DATA: addresses of the inner loop of NumPy's exponential and of its data.
    FIRST, SECOND, LINE, STEP, OTHER_STEP: what the loop is called with; the second and the last are 4.
    """

    X = 0
    OUT = 1
    LENGTH = 2
    ROOMS = 3
    CHUNK = 4
    EXP = 5
    EXP_DATA = 6
    FIRST = 7
    SECOND = 8
    LINE = 9
    STEP = 10
    OTHER_STEP = 11


_NAMES = ", ".join(field.name.lower() for field in Field)

IMAGES = """
@kernel
def copied_{dtype}(source, row_step, column_step, target, width, rows, columns):
    for i in range(rows):
        row, out = source + i * row_step, carray(pointer(target + i * width * {size}), columns, {dtype})
        if column_step == {size}:
            x = carray(pointer(row), columns, {dtype})
            for j in range(columns):
                out[j] = x[j]
        elif column_step == 0:
            value = carray(pointer(row), 1, {dtype})[0]
            for j in range(columns):
                out[j] = value
        else:
            for j in range(columns):
                out[j] = carray(pointer(row + j * column_step), 1, {dtype})[0]


@kernel
def first_{dtype}(x, step, factor, out):
    for q in range(len(out)):
        out[q] = x[q * step] * factor


@kernel
def added_{dtype}(x, step, factor, out):
    if step == 1:
        for q in range(len(out)):
            out[q] = out[q] + x[q] * factor
    else:
        for q in range(len(out)):
            out[q] = out[q] + x[q * step] * factor


@kernel
def nine_{dtype}(x, width, w, out):
    above, middle, below = x, x[width:], x[2 * width :]
    a, b, c, d, e, f, g, h, i = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]
    for q in range(len(out)):
        total = (above[q] * a + above[q + 1] * b) + above[q + 2] * c
        total = ((total + middle[q] * d) + middle[q + 1] * e) + middle[q + 2] * f
        out[q] = ((total + below[q] * g) + below[q + 1] * h) + below[q + 2] * i


@kernel
def first_product_{dtype}(x, step, g, out):
    for q in range(len(out)):
        out[q] = x[q * step] * g[q]


@kernel
def added_product_{dtype}(x, step, g, out):
    if step == 1:
        for q in range(len(out)):
            out[q] = out[q] + x[q] * g[q]
    else:
        for q in range(len(out)):
            out[q] = out[q] + x[q * step] * g[q]


@kernel
def added_products_{dtype}(x, y, step, g, h, out):
    if step == 1:
        for q in range(len(out)):
            out[q] = (out[q] + x[q] * g[q]) + y[q] * h[q]
    else:
        for q in range(len(out)):
            out[q] = (out[q] + x[q * step] * g[q]) + y[q * step] * h[q]


@kernel
def convolved_{dtype}(fields):
    {names} = fields
    length = padded_rows * padded_columns
    image = carray(pointer(padded), length, {dtype})
    inside = padded + (top * padded_columns + left) * {size}
    line = grid_rows * width if stride_rows == 1 and stride_columns == 1 else width
    lines = grid_rows * width // line if line else 0
    total = carray(pointer(spread), grid_rows * width, {dtype})
    are_next = kernel_rows == 3 and kernel_columns == 3 and apart_rows == 1 and apart_columns == 1
    is_three = are_next and lines == 1 and stride_columns == 1 and g_row == 3 * {size} and g_column == {size}
    for k in range(length):
        image[k] = {dtype}(0)
    for s in range(samples):
        for c in range(channels):
            source = x + s * x_sample + c * x_channel
            copied_{dtype}(source, x_row, x_column, inside, padded_columns, rows, columns)
            if is_three:
                kernel = carray(pointer(g + c * g_channel), 9, {dtype})
                nine_{dtype}(image, padded_columns, kernel, total)
            for r in range(0 if is_three else lines):
                out_line = total[r * line : (r + 1) * line]
                for i in range(kernel_rows):
                    kernel_row = g + c * g_channel + i * g_row
                    start = (r * stride_rows + i * apart_rows) * padded_columns
                    for j in range(kernel_columns):
                        factor = carray(pointer(kernel_row + j * g_column), 1, {dtype})[0]
                        part = image[start + j * apart_columns :]
                        if i == 0 and j == 0:
                            first_{dtype}(part, stride_columns, factor, out_line)
                        else:
                            added_{dtype}(part, stride_columns, factor, out_line)
            target = out + (s * channels + c) * grid_rows * grid_columns * {size}
            copied_{dtype}(spread, width * {size}, {size}, target, grid_columns, grid_rows, grid_columns)


@kernel
def weight_{dtype}(fields):
    {names} = fields
    length, places = padded_rows * padded_columns, grid_rows * width
    images = carray(pointer(padded), (2, length), {dtype})
    slopes = carray(pointer(spread), (2, places), {dtype})
    line = places if stride_rows == 1 and stride_columns == 1 else width
    lines = places // line if line else 0
    images[:] = {dtype}(0)
    slopes[:] = {dtype}(0)
    for c in range(channels):
        for s in range(0, samples, 2):  # two at a time, so that sums are read and written half as often
            both = s + 1 < samples
            for k in range(2 if both else 1):
                source, given = x + (s + k) * x_sample + c * x_channel, g + (s + k) * g_sample + c * g_channel
                inside = padded + (k * length + top * padded_columns + left) * {size}
                copied_{dtype}(source, x_row, x_column, inside, padded_columns, rows, columns)
                target = spread + k * places * {size}
                copied_{dtype}(given, g_row, g_column, target, width, grid_rows, grid_columns)
            for i in range(kernel_rows):
                for j in range(kernel_columns):
                    place = ((c * kernel_rows + i) * kernel_columns + j) * places
                    total = carray(pointer(out + place * {size}), places, {dtype})
                    for r in range(lines):
                        start = (r * stride_rows + i * apart_rows) * padded_columns + j * apart_columns
                        part, sums = slice(r * line, (r + 1) * line), total[r * line : (r + 1) * line]
                        first, second = images[0, start:], images[1, start:]
                        if s == 0:
                            first_product_{dtype}(first, stride_columns, slopes[0, part], sums)
                            if both:
                                added_product_{dtype}(second, stride_columns, slopes[1, part], sums)
                        elif both:
                            g0, g1 = slopes[0, part], slopes[1, part]
                            added_products_{dtype}(first, second, stride_columns, g0, g1, sums)
                        else:
                            added_product_{dtype}(first, stride_columns, slopes[0, part], sums)

"""


def _polynomial() -> str:
    """Return the expression of the polynomial at t, in the order in which NumPy's calls compute it."""
    first, *rest = [f"float32({float(c)!r})" for c in COEFFICIENTS]
    text = f"t * {first}"
    for coefficient in rest[:-1]:
        text = f"({text} + {coefficient}) * t"
    return f"({text} + {rest[-1]})"


ERFC = f"""
@kernel
def raise_e(place, at, n):
    call = carray(pointer(place), {len(Operand)}, int64)
    call[{Operand.FIRST}], call[{Operand.SECOND}], call[{Operand.LINE}] = at, at, n
    given = place + 8 * {Operand.FIRST}
    call_loop(call[{Operand.EXP}], (given, given + 16, given + 24, call[{Operand.EXP_DATA}]))


@kernel
def erfc(place):
    call = carray(pointer(place), {len(Operand)}, int64)
    x, out, length = call[{Operand.X}], call[{Operand.OUT}], call[{Operand.LENGTH}]
    rooms, chunk = call[{Operand.ROOMS}], call[{Operand.CHUNK}]
    zero, one, two, four, top = float32(0), float32(1), float32(2), float32(-4), float32(11)
    for start in range(0, length, chunk):
        n = min(chunk, length - start)
        given = carray(pointer(x + 4 * start), n, float32)
        result = carray(pointer(out + 4 * start), n, float32)
        second, third = rooms + 4 * chunk, rooms + 8 * chunk
        a, bits = carray(pointer(rooms), n, float32), carray(pointer(rooms), n, int32)
        h, leading = carray(pointer(second), n, float32), carray(pointer(second), n, int32)
        rest = carray(pointer(third), n, float32)
        for i in range(n):
            size = abs(given[i])
            a[i] = top if size > top else size
        for i in range(n):
            leading[i] = bits[i] & int32(-4096)
        for i in range(n):
            rest[i] = (h[i] - a[i]) * (h[i] + a[i])
        for i in range(n):
            h[i] = -(h[i] * h[i])
        raise_e(place, third, n)
        raise_e(place, second, n)
        for i in range(n):
            r = one / (a[i] + two)
            t = r * four + one
            a[i] = ({_polynomial()} * r) * (h[i] * rest[i])
        if x == out:  # said twice, so that the compiler knows that they are the same
            for i in range(n):
                result[i] = abs((two if result[i] < zero else zero) - a[i])
        else:
            for i in range(n):
                result[i] = abs((two if given[i] < zero else zero) - a[i])

"""

TAIL = f"""
@kernel
def steps(place, size, work):
    if work == {Work.ERFC}:
        erfc(place)
        return 0
    fields = carray(pointer(place), {len(Field)}, int64)
    if size == 4:
        if work == {Work.WEIGHT}:
            weight_float32(fields)
        else:
            convolved_float32(fields)
    elif work == {Work.WEIGHT}:
        weight_float64(fields)
    else:
        convolved_float64(fields)
    return 0

"""

REALS = (("float32", 4), ("float64", 8))
PASSES = (
    HEAD + "".join(IMAGES.format(dtype=dtype, size=size, names=_NAMES) for dtype, size in REALS) + ERFC + TAIL
)
