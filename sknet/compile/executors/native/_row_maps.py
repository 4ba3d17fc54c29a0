"""The source of functions that go over the rows of matrices of single precision, written as vectors."""

__all__ = ["MEMORY", "ROW_MAPS"]

MEMORY = '''
def memory_of(builder, kind, size, lanes):
    """Return functions that load a vector and store one."""

    def place(address, count):
        return builder.inttoptr(address, ir.VectorType(kind, count).as_pointer())

    def load(address, count=lanes):
        return builder.load(place(address, count), align=size)

    def store(value, address, count=lanes):
        builder.store(value, place(address, count), align=size)

    return load, store


def shuffle(builder, first, second, order):
    """Return a vector of elements of two others."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), list(order))
    return builder.shuffle_vector(first, second, mask)

'''
ROW_MAPS = '''
def rows_of(compute, counts, rows, lanes):
    """Return a function that goes over some rows, and as many columns as there are lanes."""

    @intrinsic
    def call(typing, places, i, j, step):
        def generate(context, builder, signature, values):
            places, i, j, step = values
            load, store = memory_of(builder, ir.FloatType(), 4, lanes)
            column, word = builder.mul(j, ir.IntType(64)(4)), ir.IntType(64)
            given = iter([builder.extract_value(places, k) for k in range(sum(counts))])
            matrices, numbers, vectors, sums, out = [[next(given) for _ in range(n)] for n in counts]
            of_columns = [load(builder.add(place, column)) for place in vectors]
            totals = [load(builder.add(place, column)) for place in sums]
            for k in range(rows):
                row = builder.add(i, word(k))
                across = builder.add(builder.mul(row, step), column)
                of_row = [load(builder.add(place, builder.mul(row, word(4))), 1) for place in numbers]
                found = compute(
                    builder,
                    *[load(builder.add(place, across)) for place in matrices],
                    *[shuffle(builder, number, number, [0] * lanes) for number in of_row],
                    *of_columns,
                )
                for place, value in zip(out, found):
                    store(value, builder.add(place, across))
                totals = [builder.fadd(total, value) for total, value in zip(totals, found[len(out) :])]
            for place, total in zip(sums, totals):
                store(total, builder.add(place, column))
            return context.get_dummy_value()

        return types.void(types.UniTuple(types.int64, sum(counts)), *[types.int64] * 3), generate

    return call


def over_rows(compute, matrices, numbers=0, vectors=0, sums=0):
    """Return a function ``call(places, rows, width)`` that writes a matrix, element by element.

    Its first argument has the addresses of matrices, of arrays with a number for each row, of others with one
    for each column, of sums over rows, to which it adds, and of the result. Rows of all matrices follow each
    other. `compute` is given a builder of code and as many vectors of elements and of numbers, and returns
    those of the result and of what is added to sums.
    """
    counts = matrices, numbers, vectors, sums, 1
    rows = 4  # at a time
    (many, few, one), (many_of_one, few_of_one, one_of_one) = [
        [rows_of(compute, counts, n, lanes) for lanes in (16, 4, 1)] for n in (rows, 1)
    ]

    @kernel
    def call(places, count, width):
        step, i = 4 * width, 0
        while i + rows <= count:
            j = 0
            while j + 16 <= width:
                many(places, i, j, step)
                j += 16
            while j + 4 <= width:
                few(places, i, j, step)
                j += 4
            while j < width:
                one(places, i, j, step)
                j += 1
            i += rows
        while i < count:
            j = 0
            while j + 16 <= width:
                many_of_one(places, i, j, step)
                j += 16
            while j + 4 <= width:
                few_of_one(places, i, j, step)
                j += 4
            while j < width:
                one_of_one(places, i, j, step)
                j += 1
            i += 1

    return call

'''
