"""The source of normalizations over the last axis in single precision, some rows at a time."""

from enum import IntEnum

__all__ = ["NORMS", "Norm"]


class Norm(IntEnum):
    """What a normalization works on: matrices with rows of the same length, contiguous.

    X, WEIGHT, BIAS, OUT: operand, factors and summands of a row, and the result.
    G: the gradient of a result; then OUT is that of X.
    ROWS, WIDTH, BLOCK: rows, elements of each, and rows that are computed at a time.
    ONES, NUMBERS: addresses of as many ones as a row has elements, and of two numbers: how many
    elements, and what is added to variances.
    CENTERED, PRODUCTS, DEVIATIONS, SUMS: room for a block's matrices, and two columns.
    WEIGHT_SUMS, BIAS_SUMS: matrices with a row for each block.
    MATMUL, MATMUL_DATA: addresses of the inner loop of NumPy's matrix product and of its data.
    FIRST, SECOND, THIRD: addresses of what is multiplied, and of the result.
    OUTER, LINES, LENGTH, ONE: how many products, and lengths of their axes.
    STEPS: the first of nine strides.
    """

    X = 0
    WEIGHT = 1
    BIAS = 2
    OUT = 3
    G = 4
    ROWS = 5
    WIDTH = 6
    BLOCK = 7
    ONES = 8
    NUMBERS = 9
    CENTERED = 10
    PRODUCTS = 11
    DEVIATIONS = 12
    SUMS = 13
    WEIGHT_SUMS = 14
    BIAS_SUMS = 15
    MATMUL = 16
    MATMUL_DATA = 17
    FIRST = 18
    SECOND = 19
    THIRD = 20
    OUTER = 21
    LINES = 22
    LENGTH = 23
    ONE = 24
    STEPS = 25


NORMS = """
@intrinsic
def root(typing, x):
    def generate(context, builder, signature, values):
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [values[0].type]), values)

    return x(x), generate


@kernel
def multiply(call, matrix, vector, out, rows):
    call[{first}], call[{second}], call[{third}], call[{lines}] = matrix, vector, out, rows
    given = call.ctypes.data + 8 * {first}
    call_loop(call[{matmul}], (given, given + 8 * 3, given + 8 * 7, call[{matmul_data}]))


@kernel
def centered(x, centers, c, squares):
    for i in range(len(c)):
        center = centers[i]
        for j in range(c.shape[1]):
            c[i, j] = x[i, j] - center
            squares[i, j] = (x[i, j] - center) * (x[i, j] - center)


@kernel
def moved(c, deviations, w, b, out):
    for i in range(len(out)):
        deviation = deviations[i]
        for j in range(out.shape[1]):
            out[i, j] = (c[i, j] / deviation) * w[j] + b[j]


@kernel
def slopes(c, factors, g, products):
    for i in range(len(c)):
        factor = factors[i]
        for j in range(c.shape[1]):
            c[i, j] *= factor
            products[i, j] = g[i, j] * c[i, j]


@kernel
def normal_slopes(g, w, centers, c, shares, factors, out):
    for i in range(len(out)):
        center, share, factor = centers[i], shares[i], factors[i]
        for j in range(out.shape[1]):
            out[i, j] = ((g[i, j] * w[j] - center) - c[i, j] * share) * factor


@kernel
def column_sums(x, out):
    for j in range(len(out)):
        out[j] = x[0, j]
    for i in range(1, len(x)):
        for j in range(len(out)):
            out[j] += x[i, j]


@kernel
def deviations(call, first, rows):
    width = call[{width}]
    x = carray(pointer(call[{x}] + first * width * 4), (rows, width), float32)
    c = carray(pointer(call[{centered}]), (rows, width), float32)
    squares = carray(pointer(call[{products}]), (rows, width), float32)
    s = carray(pointer(call[{deviations}]), rows, float32)
    numbers = carray(pointer(call[{numbers}]), 2, float32)
    count, eps = numbers[0], numbers[1]
    multiply(call, x.ctypes.data, call[{ones}], call[{deviations}], rows)
    for i in range(rows):
        s[i] = s[i] / count
    centered(x, s, c, squares)
    multiply(call, call[{products}], call[{ones}], call[{deviations}], rows)
    for i in range(rows):
        s[i] = root(s[i] / count + eps)


@kernel
def norm(call):
    width, block = call[{width}], call[{block}]
    w, b = carray(pointer(call[{weight}]), width, float32), carray(pointer(call[{bias}]), width, float32)
    s = carray(pointer(call[{deviations}]), block, float32)
    for first in range(0, call[{rows}], block):
        rows = min(block, call[{rows}] - first)
        deviations(call, first, rows)
        c = carray(pointer(call[{centered}]), (rows, width), float32)
        out = carray(pointer(call[{out}] + first * width * 4), (rows, width), float32)
        moved(c, s, w, b, out)


@kernel
def norm_gradient(call):
    width, block, one = call[{width}], call[{block}], float32(1)
    w = carray(pointer(call[{weight}]), width, float32)
    count = carray(pointer(call[{numbers}]), 2, float32)[0]
    s = carray(pointer(call[{deviations}]), block, float32)
    sums = carray(pointer(call[{sums}]), (2, block), float32)
    for first in range(0, call[{rows}], block):
        rows = min(block, call[{rows}] - first)
        c = carray(pointer(call[{centered}]), (rows, width), float32)
        products = carray(pointer(call[{products}]), (rows, width), float32)
        g = carray(pointer(call[{g}] + first * width * 4), (rows, width), float32)
        out = carray(pointer(call[{out}] + first * width * 4), (rows, width), float32)
        at = first // block * width * 4
        deviations(call, first, rows)
        for i in range(rows):
            s[i] = one / s[i]
        slopes(c, s, g, products)
        multiply(call, g.ctypes.data, call[{weight}], sums[0].ctypes.data, rows)
        multiply(call, call[{products}], call[{weight}], sums[1].ctypes.data, rows)
        for i in range(rows):
            sums[0, i] = sums[0, i] / count
            sums[1, i] = sums[1, i] / count
        column_sums(products, carray(pointer(call[{weight_sums}] + at), width, float32))
        column_sums(g, carray(pointer(call[{bias_sums}] + at), width, float32))
        normal_slopes(g, w, sums[0], c, sums[1], s, out)

"""
