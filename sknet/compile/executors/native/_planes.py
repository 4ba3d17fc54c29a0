"""The source of convolutions of images, channel by channel."""

from enum import IntEnum

__all__ = ["IMAGES", "THREE", "Field"]


class Field(IntEnum):
    """What describes images and kernels: addresses of arrays, steps between elements in bytes, and lengths.

    X, X_SAMPLE, X_CHANNEL, X_ROW, X_COLUMN: images, and the steps along their axes.
    G, G_SAMPLE, G_CHANNEL, G_ROW, G_COLUMN: kernels, or images of the gradient.
    OUT: images, or sums for each channel, element of a kernel and place, both contiguous.
    PADDED, SPREAD: room for images with a row more, and for a place of every window; WEIGHT has eight.
    SAMPLES, CHANNELS, ROWS, COLUMNS, TOP, LEFT: of the images, and what is above and left of them.
    PADDED_ROWS, PADDED_COLUMNS: of the padded image, with the row more.
    KERNEL_ROWS, KERNEL_COLUMNS, STRIDE_ROWS, STRIDE_COLUMNS, APART_ROWS, APART_COLUMNS: of windows.
    GRID_ROWS, GRID_COLUMNS, WIDTH: windows, and with how many columns they are computed.
    BIAS: numbers that are added, one for each channel; 0 if there are none.
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
    BIAS = 30


AT_ONCE = 8  # samples whose images are padded at a time for the gradient of the kernels
NAMES = ", ".join(field.name.lower() for field in Field)

IMAGES = """
@kernel
def copied_{dtype}(source, row_step, column_step, target, width, rows, columns):
    for i in range(rows):
        row, out = source + i * row_step, carray(pointer(target + i * width * {size}), columns, {dtype})
        if column_step == {size}:
            copy_row(target + i * width * {size}, row, columns * {size})
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
def nine_{dtype}(x, width, w, more, out):
    above, middle, below = x, x[width:], x[2 * width :]
    a, b, c, d, e, f, g, h, i = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8]
    for q in range(len(out)):
        total = (above[q] * a + above[q + 1] * b) + above[q + 2] * c
        total = ((total + middle[q] * d) + middle[q + 1] * e) + middle[q + 2] * f
        total = ((total + below[q] * g) + below[q + 1] * h) + below[q + 2] * i
        out[q] = total + more


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
    NAMES = fields
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
                # Adding -0 changes nothing.
                more = carray(pointer(bias), channels, {dtype})[c] if bias else {dtype}(-0.0)
                nine_{dtype}(image, padded_columns, kernel, more, total)
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
            if bias and not is_three:
                more = carray(pointer(bias), channels, {dtype})[c]
                for k in range(grid_rows * width):
                    total[k] += more
            target = out + (s * channels + c) * grid_rows * grid_columns * {size}
            copied_{dtype}(spread, width * {size}, {size}, target, grid_columns, grid_rows, grid_columns)


@kernel
def weight_{dtype}(fields):
    NAMES = fields
    length, places = padded_rows * padded_columns, grid_rows * width
    if {size} == 4 and kernel_rows == 3 and kernel_columns == 3 and apart_rows == 1 and apart_columns == 1:
        if stride_rows == 1 and stride_columns == 1:
            weight_of_three(fields)
            return
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

""".replace("NAMES", NAMES)

THREE = """
@kernel
def weight_of_three(fields):
    NAMES = fields
    length, places = padded_rows * padded_columns, grid_rows * width
    carray(pointer(padded), SAMPLES_AT_ONCE * length, float32)[:] = float32(0)
    carray(pointer(spread), SAMPLES_AT_ONCE * places, float32)[:] = float32(0)
    for c in range(channels):
        for s in range(0, samples, SAMPLES_AT_ONCE):
            count = min(SAMPLES_AT_ONCE, samples - s)
            for k in range(count):
                source, given = x + (s + k) * x_sample + c * x_channel, g + (s + k) * g_sample + c * g_channel
                inside = padded + (k * length + top * padded_columns + left) * 4
                copied_float32(source, x_row, x_column, inside, padded_columns, rows, columns)
                target = spread + k * places * 4
                copied_float32(given, g_row, g_column, target, width, grid_rows, grid_columns)
            line, target = padded_columns * 4, out + c * 9 * places * 4
            image_step, slope_step = length * 4, places * 4
            add_nine(padded, image_step, line, spread, slope_step, count, target, places, s)

""".replace("NAMES", NAMES).replace("SAMPLES_AT_ONCE", str(AT_ONCE))
