"""The source of the maps between images and tiles, for convolutions with kernels of three by three.

They are those of `sknet.ops._winograd`, whose sums they make in the same order. Vectors are written as such,
because compilers do not find them in loops with sixteen results.
"""

from enum import IntEnum

__all__ = ["WEAVES", "Product", "Tile", "source_of_tiles"]


class Tile(IntEnum):
    """What describes images and tiles: addresses of arrays, steps between elements in bytes, and lengths.

    X, X_SAMPLE, X_CHANNEL, X_ROW, X_COLUMN: images, and the steps along their axes.
    TILES, STEP: the first of sixteen matrices of numbers of tiles, a row for each channel, and the step to
    the next one. What vectors write beyond a row of tiles is overwritten by the next, and beyond a matrix
    lies between this one and the next.
    ROOM: for four planes of an image, and for what vectors read beyond them.
    BIAS: numbers that are added, one for each channel of a result; 0 if there are none.
    SAMPLES, CHANNELS, ROWS, COLUMNS, TOP, LEFT: of the images, and what is above and left of them.
    TILE_ROWS, TILE_COLUMNS: tiles of an image. A plane has a row and a column more.
    """

    X = 0
    X_SAMPLE = 1
    X_CHANNEL = 2
    X_ROW = 3
    X_COLUMN = 4
    TILES = 5
    STEP = 6
    ROOM = 7
    BIAS = 8
    SAMPLES = 9
    CHANNELS = 10
    ROWS = 11
    COLUMNS = 12
    TOP = 13
    LEFT = 14
    TILE_ROWS = 15
    TILE_COLUMNS = 16


class Product(IntEnum):
    """What describes products of tiles, between those of images and those of a result.

    MATMUL, MATMUL_DATA: addresses of the inner loop of NumPy's matrix product and of its data.
    LEFT, RIGHT, OUT: addresses of factors and product.
    SHAPE, STRIDES: the first of four lengths, and of nine steps in bytes, with which the loop is called.
    SUMS: address of sums of the products of all parts; 0 for convolutions.
    SAMPLES, PART: of the share, and at a time.
    GROUPS: of channels.
    APART: bytes between matrices.
    """

    MATMUL = 0
    MATMUL_DATA = 1
    LEFT = 2
    RIGHT = 3
    OUT = 4
    SHAPE = 5
    STRIDES = 9
    SUMS = 18
    SAMPLES = 19
    PART = 20
    GROUPS = 21
    APART = 22


WEAVES = '''
def at(builder, address, step, count):
    """Return the address of so many steps further."""
    return builder.add(address, builder.mul(step, ir.IntType(64)(count)))


def differences(builder, a, b, c, d):
    """Return the transform of four elements of a tile."""
    return builder.fsub(a, c), builder.fadd(b, c), builder.fsub(c, b), builder.fsub(b, d)


def sums(builder, a, b, c, d):
    """Return two elements of a result."""
    return builder.fadd(builder.fadd(a, b), c), builder.fsub(builder.fsub(b, c), d)


def spread(builder, a, b):
    """Return the adjoint of `sums`."""
    return a, builder.fadd(a, b), builder.fsub(a, b), builder.fneg(b)


def splits(kind, size, lanes):
    """Return a function that writes every other element of a row, and those between them."""

    @intrinsic
    def call(typing, row, even, odd):
        def generate(context, builder, signature, values):
            row, even, odd = values
            load, store = memory_of(builder, kind, size, lanes)
            first, second = load(row), load(at(builder, row, ir.IntType(64)(size), lanes))
            store(shuffle(builder, first, second, range(0, 2 * lanes, 2)), even)
            store(shuffle(builder, first, second, range(1, 2 * lanes, 2)), odd)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 3), generate

    return call


def tiles_of(kind, size, lanes):
    """Return a function that transforms tiles of four planes."""

    @intrinsic
    def call(typing, planes, plane, row, tiles, step):
        def generate(context, builder, signature, values):
            planes, plane, row, tiles, step = values
            load, store = memory_of(builder, kind, size, lanes)
            element, rows = ir.IntType(64)(size), []
            for i in range(4):
                line = at(builder, at(builder, planes, plane, 2 * (i % 2)), row, i // 2)
                rows.append([
                    load(at(builder, at(builder, line, plane, j % 2), element, j // 2)) for j in range(4)
                ])
            for i, line in enumerate(zip(*[differences(builder, *column) for column in zip(*rows)])):
                for j, value in enumerate(differences(builder, *line)):
                    store(value, at(builder, tiles, step, 4 * i + j))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return call


def slopes_of(kind, size, lanes):
    """Return a function that transforms two by two elements of the gradient of a result."""

    @intrinsic
    def call(typing, planes, plane, tiles, step):
        def generate(context, builder, signature, values):
            planes, plane, tiles, step = values
            load, store = memory_of(builder, kind, size, lanes)
            a, b, c, d = [load(at(builder, planes, plane, k)) for k in range(4)]
            for i, line in enumerate(zip(spread(builder, a, c), spread(builder, b, d))):
                for j, value in enumerate(spread(builder, *line)):
                    store(value, at(builder, tiles, step, 4 * i + j))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), generate

    return call


def images_of(kind, size, lanes):
    """Return a function that writes parts of two rows of an image, to which the number at `bias` is added."""

    @intrinsic
    def call(typing, tiles, step, bias, image, line):
        def generate(context, builder, signature, values):
            tiles, step, bias, image, line = values
            load, store = memory_of(builder, kind, size, lanes)
            rows = [[load(at(builder, tiles, step, 4 * i + j)) for j in range(4)] for i in range(4)]
            found = zip(*[sums(builder, *column) for column in zip(*rows)])
            number = load(bias, 1)
            more = shuffle(builder, number, number, [0] * lanes)
            for i, row in enumerate(found):
                even, odd = [builder.fadd(value, more) for value in sums(builder, *row)]
                woven = shuffle(builder, even, odd, [k for j in range(lanes) for k in (j, lanes + j)])
                store(woven, at(builder, image, line, i), 2 * lanes)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), generate

    return call


real = {4: ir.FloatType(), 8: ir.DoubleType()}

'''

TILES = """
split_{dtype}, split_few_{dtype} = [splits(real[{size}], {size}, n) for n in ({lanes} // 2, 4)]
tiles_{dtype}, few_tiles_{dtype} = [tiles_of(real[{size}], {size}, n) for n in ({lanes}, {lanes} // 2)]
slopes_{dtype}, few_slopes_{dtype} = [slopes_of(real[{size}], {size}, n) for n in ({lanes}, {lanes} // 2)]
images_{dtype}, few_images_{dtype} = [images_of(real[{size}], {size}, n) for n in ({lanes}, {lanes} // 2)]


@kernel
def split_row_{dtype}(row, step, count, even, odd):
    n, done = count // 2, 0
    if step == {size} and n >= 4:
        # The last vector overlaps the one before.
        if n >= {lanes} // 2:
            while done < n:
                k = min(done, n - {lanes} // 2)
                split_{dtype}(row + 2 * k * {size}, even + k * {size}, odd + k * {size})
                done += {lanes} // 2
        else:
            while done < n:
                k = min(done, n - 4)
                split_few_{dtype}(row + 2 * k * {size}, even + k * {size}, odd + k * {size})
                done += 4
        done = n
    a, b = carray(pointer(even), n + 1, {dtype}), carray(pointer(odd), n + 1, {dtype})
    for k in range(done, n):
        a[k] = carray(pointer(row + 2 * k * step), 1, {dtype})[0]
        b[k] = carray(pointer(row + (2 * k + 1) * step), 1, {dtype})[0]
    if count % 2:
        a[n] = carray(pointer(row + 2 * n * step), 1, {dtype})[0]


@kernel
def split_image_{dtype}(image, row_step, column_step, rows, columns, top, left, planes, plane, width):
    for h in range(rows):
        line = planes + (top + h) % 2 * 2 * plane + (top + h) // 2 * width
        even = line + left % 2 * plane + left // 2 * {size}
        odd = line + (left + 1) % 2 * plane + (left + 1) // 2 * {size}
        split_row_{dtype}(image + h * row_step, column_step, columns, even, odd)


@kernel
def to_tiles_{dtype}(fields, are_slopes):
    {names} = fields
    width, reach = tile_columns + 1, (tile_rows + 2) * (tile_columns + 1) + {lanes}
    plane, row = reach * {size}, width * {size}
    carray(pointer(room), 4 * reach, {dtype})[:] = {dtype}(0)
    are_few, target = 2 * tile_columns <= {lanes}, tiles
    for c in range(channels):
        for s in range(samples):
            image = x + s * x_sample + c * x_channel
            split_image_{dtype}(image, x_row, x_column, rows, columns, top, left, room, plane, row)
            for i in range(tile_rows):
                for j in range(0, tile_columns, {lanes}):
                    k = min(j, max(tile_columns - {lanes}, 0))  # the last vector overlaps the one before
                    source, to = room + i * row + k * {size}, target + k * {size}
                    if are_few and are_slopes:
                        few_slopes_{dtype}(source, plane, to, step)
                    elif are_few:
                        few_tiles_{dtype}(source, plane, row, to, step)
                    elif are_slopes:
                        slopes_{dtype}(source, plane, to, step)
                    else:
                        tiles_{dtype}(source, plane, row, to, step)
                target += tile_columns * {size}


@kernel
def to_images_{dtype}(fields):
    {names} = fields
    line, zero = 2 * (tile_columns + {lanes}) * {size}, room
    pair, source = room + {size}, tiles
    carray(pointer(zero), 1, {dtype})[0] = {dtype}(-0.0)  # adding it changes nothing
    are_few = 2 * tile_columns <= {lanes}
    for c in range(channels):
        more = bias + c * {size} if bias else zero
        for s in range(samples):
            target = x + s * x_sample + c * x_channel
            for i in range(tile_rows):
                for j in range(0, tile_columns, {lanes}):
                    k = min(j, max(tile_columns - {lanes}, 0))
                    if are_few:
                        few_images_{dtype}(source + k * {size}, step, more, pair + 2 * k * {size}, line)
                    else:
                        images_{dtype}(source + k * {size}, step, more, pair + 2 * k * {size}, line)
                source += tile_columns * {size}
                for h in range(2 * i, min(2 * i + 2, rows)):
                    copy_row(target + h * x_row, pair + h % 2 * line, columns * {size})


@kernel
def multiply_tiles_{dtype}(call, channels, filters, length):
    groups, row = call[{groups}], length * {size}
    c, o = channels // groups, filters // groups
    shape, strides = call[{shape} : {shape} + 4], call[{strides} : {strides} + 9]
    shape[0], shape[1] = groups, o
    if call[{sums}]:
        shape[2], shape[3] = length, c
        left, right, out = o * row, c * row, o * c * {size}
        strides[3], strides[4], strides[5], strides[6] = row, {size}, {size}, row
        strides[7], strides[8] = c * {size}, {size}
    else:
        shape[2], shape[3] = c, length
        left, right, out = o * c * {size}, c * row, o * row
        strides[3], strides[4], strides[5], strides[6] = c * {size}, {size}, row, {size}
        strides[7], strides[8] = row, {size}
    strides[0], strides[1], strides[2] = left, right, out
    first, second, third = call[{left}], call[{right}], call[{out}]
    of_tiles, given = groups * right + call[{apart}], call.ctypes.data
    of_left = groups * left + (call[{apart}] if call[{sums}] else 0)
    of_out = groups * out + (0 if call[{sums}] else call[{apart}])
    for k in range(16):
        # The loop changes the addresses.
        call[{left}], call[{right}] = first + k * of_left, second + k * of_tiles
        call[{out}] = third + k * of_out
        places = given + 8 * {left}, given + 8 * {shape}, given + 8 * {strides}, call[{matmul_data}]
        call_loop(call[{matmul}], places)
    call[{left}], call[{right}], call[{out}] = first, second, third


@kernel
def share_{dtype}(images, results, call):
    channels, filters = images[{channels}], results[{channels}]
    total, count = call[{sums}], 16 * channels * filters // call[{groups}]
    product = call[{out}]
    for start in range(0, call[{samples}], call[{part}]):
        n = min(call[{part}], call[{samples}] - start)
        length = n * images[{tile_rows}] * images[{tile_columns}]
        images[{tile_samples}] = results[{tile_samples}] = n
        images[{step}] = channels * length * {size} + call[{apart}]
        results[{step}] = filters * length * {size} + call[{apart}]
        to_tiles_{dtype}(images, False)
        if total:
            to_tiles_{dtype}(results, True)
            call[{out}] = product if start else total
        multiply_tiles_{dtype}(call, channels, filters, length)
        if total and start:
            sums, more = carray(pointer(total), count, {dtype}), carray(pointer(product), count, {dtype})
            for k in range(count):
                sums[k] += more[k]
        if not total:
            to_images_{dtype}(results)
        images[{x}] += n * images[{x_sample}]
        results[{x}] += n * results[{x_sample}]

"""


def source_of_tiles(dtype: str, size: int) -> str:
    """Return the source for numbers of a dtype, of so many bytes."""
    names = {field.name.lower(): int(field) for field in Tile} | {"tile_samples": int(Tile.SAMPLES)}
    names |= {field.name.lower(): int(field) for field in Product}
    fields = ", ".join(field.name.lower() for field in Tile)
    return TILES.format(dtype=dtype, size=size, lanes=64 // size, names=fields, **names)
