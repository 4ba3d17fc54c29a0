"""The source of normalizations in single precision: over rows, some at a time, and over channels."""

from enum import IntEnum

__all__ = ["NORMS", "Norm"]


class Norm(IntEnum):
    """What a normalization works on: matrices with rows of the same length, contiguous.

    X, WEIGHT, BIAS, OUT: operand, factors and summands of a row, and the result.
    G: the gradient of a result; then OUT is that of X. 0 if there is none.
    ROWS, WIDTH, BLOCK: rows, elements of each, and rows that are computed at a time.
    ONES, NUMBERS: addresses of as many ones as a row has elements, and of two numbers: how many
    elements, and what is added to variances.
    PRODUCTS, CENTERS, FACTORS, SUMS: room for a block's matrix, and four columns, of which SUMS has two.
    WEIGHT_SUMS, BIAS_SUMS: matrices with a row for each `GROUP` rows.
    GROUP: a multiple of BLOCK.
    APART: bytes between blocks of G; 0 if all are the same.
    For norms over channels, WEIGHT, BIAS, CENTERS, FACTORS and SUMS have a number for each row.
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
    PRODUCTS = 10
    CENTERS = 11
    FACTORS = 12
    SUMS = 13
    WEIGHT_SUMS = 14
    BIAS_SUMS = 15
    GROUP = 16
    APART = 17
    MATMUL = 18
    MATMUL_DATA = 19
    FIRST = 20
    SECOND = 21
    THIRD = 22
    OUTER = 23
    LINES = 24
    LENGTH = 25
    ONE = 26
    STEPS = 27


NORMS = """
def squares(b, x, center):
    difference = b.fsub(x, center)
    return [b.fmul(difference, difference)]


def moved(b, x, center, factor, weight, bias):
    return [b.fadd(b.fmul(b.fmul(b.fsub(x, center), factor), weight), bias)]


def slopes(b, x, g, center, factor):
    product = b.fmul(g, b.fmul(b.fsub(x, center), factor))
    return [product, product, g]


def normal_slopes(b, x, g, center, factor, inner, share, weight):
    normal = b.fmul(b.fsub(x, center), factor)
    return [b.fmul(b.fsub(b.fsub(b.fmul(g, weight), inner), b.fmul(normal, share)), factor)]


def scaled(b, x, center, factor, shift):
    return [b.fadd(b.fmul(b.fsub(x, center), factor), shift)]


def channel_products(b, x, g, center):
    return [b.fmul(b.fsub(x, center), g)]


def channel_slopes(b, x, g, center, slope, mean, factor):
    return [b.fsub(b.fmul(b.fsub(g, mean), factor), b.fmul(b.fsub(x, center), slope))]


write_squares = over_rows(squares, matrices=1, numbers=1)
write_moved = over_rows(moved, matrices=1, numbers=2, vectors=2)
write_slopes = over_rows(slopes, matrices=2, numbers=2, sums=2)
write_normal_slopes = over_rows(normal_slopes, matrices=2, numbers=4, vectors=1)
write_scaled = over_rows(scaled, matrices=1, numbers=3)
write_channel_products = over_rows(channel_products, matrices=2, numbers=1)
write_channel_slopes = over_rows(channel_slopes, matrices=2, numbers=4)


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
def factors_of(call, x, rows):
    numbers = carray(pointer(call[{numbers}]), 2, float32)
    count, eps, one = numbers[0], numbers[1], float32(1)
    centers = carray(pointer(call[{centers}]), rows, float32)
    factors = carray(pointer(call[{factors}]), rows, float32)
    multiply(call, x, call[{ones}], call[{centers}], rows)
    for i in range(rows):
        centers[i] = centers[i] / count
    write_squares((x, call[{centers}], call[{products}]), rows, call[{width}])
    multiply(call, call[{products}], call[{ones}], call[{factors}], rows)
    for i in range(rows):
        factors[i] = one / root(factors[i] / count + eps)


@kernel
def norm(call):
    width, block, weight, bias = call[{width}], call[{block}], call[{weight}], call[{bias}]
    for first in range(0, call[{rows}], block):
        rows, at = min(block, call[{rows}] - first), first * width * 4
        x = call[{x}] + at
        factors_of(call, x, rows)
        write_moved((x, call[{centers}], call[{factors}], weight, bias, call[{out}] + at), rows, width)


@kernel
def norm_gradient(call):
    width, block, weight, products = call[{width}], call[{block}], call[{weight}], call[{products}]
    centers, factors, inner = call[{centers}], call[{factors}], call[{sums}]
    count, shares = carray(pointer(call[{numbers}]), 2, float32)[0], inner + 4 * block
    of_rows = carray(pointer(inner), (2, block), float32)
    g, weights, biases = call[{g}], call[{weight_sums}], call[{bias_sums}]
    for first in range(0, call[{rows}], block):
        rows, at = min(block, call[{rows}] - first), first * width * 4
        x, out, row = call[{x}] + at, call[{out}] + at, first // call[{group}] * width * 4
        if first % call[{group}] == 0:
            # Adding to -0 changes nothing.
            carray(pointer(weights + row), width, float32)[:] = float32(-0.0)
            carray(pointer(biases + row), width, float32)[:] = float32(-0.0)
        factors_of(call, x, rows)
        if call[{apart}] or first == 0 or rows < block:  # otherwise it is as before
            multiply(call, g, weight, inner, rows)
            for i in range(rows):
                of_rows[0, i] = of_rows[0, i] / count
        write_slopes((x, g, centers, factors, weights + row, biases + row, products), rows, width)
        multiply(call, products, weight, shares, rows)
        for i in range(rows):
            of_rows[1, i] = of_rows[1, i] / count
        write_normal_slopes((x, g, centers, factors, inner, shares, weight, out), rows, width)
        g += call[{apart}]


@kernel
def sums_of_products(call):
    width, block, g, products = call[{width}], call[{block}], call[{g}], call[{products}]
    for first in range(0, call[{rows}], block):
        rows, at = min(block, call[{rows}] - first), first * width * 4
        x, center = call[{x}] + at, call[{centers}] + first * 4
        if g:
            write_channel_products((x, g + at, center, products), rows, width)
        else:
            write_squares((x, center, products), rows, width)
        multiply(call, products, call[{ones}], call[{sums}] + first * 4, rows)


@kernel
def scaled_rows(call):
    rows, width, x, g, out = call[{rows}], call[{width}], call[{x}], call[{g}], call[{out}]
    center, factor, shift = call[{centers}], call[{factors}], call[{bias}]
    if g:
        write_channel_slopes((x, g, center, call[{weight}], shift, factor, out), rows, width)
    else:
        write_scaled((x, center, factor, shift, out), rows, width)

"""
