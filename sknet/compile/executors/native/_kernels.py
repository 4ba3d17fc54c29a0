"""The source of the functions that instructions call, as templates for any dtype."""

__all__ = [
    "BOUNDS",
    "CONVERSIONS",
    "COPIES",
    "DRAWS",
    "FILLS",
    "HEAD",
    "PUTS",
    "RELU",
    "SPREAD",
    "SUMS",
    "TABLE",
]

HEAD = '''"""Carries out instructions: written by sknet, compiled by Numba."""

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic
from numpy import float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

# Every operation is rounded by itself, as NumPy's are: no fast-math flags.
# The machine code is called by itself, so it has no wrappers for Python.
kernel = njit(
    error_model="numpy", boundscheck=False, fastmath=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)


@intrinsic
def pointer(typing, address):
    """Return an address as a pointer."""

    def generate(context, builder, signature, values):
        return builder.inttoptr(values[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


def caller(count, result):
    """Return a function that calls the C function at an address, with `count` addresses or integers."""

    @intrinsic
    def call(typing, function, arguments):
        def generate(context, builder, signature, values):
            word = ir.IntType(64)
            given = [builder.extract_value(values[1], i) for i in range(count)]
            returned = word if result else ir.VoidType()
            kind = ir.FunctionType(returned, [word] * count).as_pointer()
            found = builder.call(builder.inttoptr(values[0], kind), given)
            return found if result else context.get_dummy_value()

        kind = types.int64 if result else types.void
        return kind(types.int64, types.UniTuple(types.int64, count)), generate

    return call


call_loop = caller(4, False)
call_blas = caller(6, False)
call_host = caller(1, True)

'''

COPIES = """
@kernel
def copy_elements_{dtype}(source, s0, s1, rows, target, t0, t1, n0, n1):
    for i in range(n0):
        row = carray(pointer(rows), n0, int64)[i] if rows else i
        x, y = source + row * s0, target + i * t0
        if s1 == {size} and t1 == {size}:
            a, b = carray(pointer(x), n1, {dtype}), carray(pointer(y), n1, {dtype})
            for j in range(n1):
                b[j] = a[j]
        else:
            for j in range(n1):
                carray(pointer(y + j * t1), 1, {dtype})[0] = carray(pointer(x + j * s1), 1, {dtype})[0]


"""

FILLS = """
@kernel
def fill_{dtype}(target, bits, count):
    out = carray(pointer(target), count, {dtype})
    for i in range(count):
        out[i] = {dtype}(bits)

"""

PUTS = """
@kernel
def put_{dtype}(target, positions, values, count):
    at, given = carray(pointer(positions), count, int64), carray(pointer(values), count, {dtype})
    for i in range(count):
        carray(pointer(target + at[i] * {size}), 1, {dtype})[0] = given[i]


@kernel
def mask_{dtype}(source, mask, target, count):
    out, keep = carray(pointer(target), count, {dtype}), carray(pointer(mask), count, uint8)
    if source == target:  # said twice, so that the compiler knows that they are the same
        for i in range(count):
            out[i] *= {dtype}(keep[i])  # 0 or 1
        return
    x = carray(pointer(source), count, {dtype})
    for i in range(count):
        out[i] = x[i] * {dtype}(keep[i])


@kernel
def replace_{dtype}(source, stride, mask, target, count):
    out, changed = carray(pointer(target), count, {dtype}), carray(pointer(mask), count, uint8)
    if stride:
        x = carray(pointer(source), count, {dtype})
        for i in range(count):
            out[i] = x[i] if changed[i] else out[i]
    else:
        value = carray(pointer(source), 1, {dtype})[0]
        for i in range(count):
            out[i] = value if changed[i] else out[i]

"""

BOUNDS = """
@kernel
def are_below_{dtype}(indices, count, bound):
    given, wrong = carray(pointer(indices), count, {dtype}), 0
    for i in range(count):
        wrong += 1 if uint64(given[i]) >= uint64(bound) else 0
    return wrong == 0

"""

CONVERSIONS = """
@kernel
def convert_{given}_{wanted}(source, s0, s1, rows, target, t0, t1, n0, n1):
    for i in range(n0):
        row = carray(pointer(rows), n0, int64)[i] if rows else i
        x, y = source + row * s0, target + i * t0
        for j in range(n1):
            value = {wanted}(carray(pointer(x + j * s1), 1, {given})[0])
            carray(pointer(y + j * t1), 1, {wanted})[0] = value

"""

SPREAD = """
@kernel
def {name}_{dtype}(first, second, target, n0, n1):
    out, y = carray(pointer(target), (n0, n1), {dtype}), carray(pointer(second), {size}, {dtype})
    if first == target:
        for i in range(n0):
            for j in range(n1):
                out[i, j] {sign}= y[{index}]
        return
    x = carray(pointer(first), (n0, n1), {dtype})
    for i in range(n0):
        for j in range(n1):
            out[i, j] = x[i, j] {sign} y[{index}]

"""

RELU = """
@kernel
def add_row_relu_{dtype}(first, second, target, n0, n1):
    out, y = carray(pointer(target), (n0, n1), {dtype}), carray(pointer(second), n1, {dtype})
    zero = {dtype}(0)
    if first == target:
        for i in range(n0):
            for j in range(n1):
                total = out[i, j] + y[j]
                out[i, j] = zero if total <= zero else total
        return
    x = carray(pointer(first), (n0, n1), {dtype})
    for i in range(n0):
        for j in range(n1):
            total = x[i, j] + y[j]
            out[i, j] = zero if total <= zero else total


@kernel
def mask_positive_{dtype}(first, second, mask, target, count):
    x, keep = carray(pointer(first), count, {dtype}), carray(pointer(mask), count, uint8)
    out, zero = carray(pointer(target), count, {word}), {dtype}(0)
    if second == target:
        for i in range(count):
            keep[i] = x[i] > zero
            out[i] *= {word}(x[i] > zero)
        return
    given = carray(pointer(second), count, {word})
    for i in range(count):
        keep[i] = x[i] > zero
        out[i] = given[i] * {word}(x[i] > zero)

"""

DRAWS = """
@kernel
def product_high(a, b):
    low, half = uint64(0xFFFFFFFF), uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    carry = (middle & low) + a0 * b1
    return a1 * b1 + (middle >> half) + (carry >> half)


@kernel
def draw(target, count, key0, key1, site, step):
    # Philox4x64-10 with the counter (block, 0, site, step), as numpy.random.Philox counts.
    out, block = carray(pointer(target), count, float32), uint64(0)
    for start in range(0, count, 8):
        block += uint64(1)
        x0, x1, x2, x3 = block, uint64(0), uint64(site), uint64(step)
        k0, k1 = uint64(key0), uint64(key1)
        for _ in range(10):
            m0, m1 = uint64(0xD2E7470EE14C6C93), uint64(0xCA5A826395121157)
            y0, y2 = product_high(m1, x2) ^ x1 ^ k0, product_high(m0, x0) ^ x3 ^ k1
            x0, x1, x2, x3 = y0, m1 * x2, y2, m0 * x0
            k0 += uint64(0x9E3779B97F4A7C15)
            k1 += uint64(0xBB67AE8584CAA73B)
        for i in range(start, min(start + 8, count)):
            word = (i - start) >> 1
            bits = x0 if word == 0 else x1 if word == 1 else x2 if word == 2 else x3
            half = uint32((bits >> uint64(32)) if i & 1 else (bits & uint64(0xFFFFFFFF)))
            out[i] = float32(half >> uint32(8)) * float32(1.0 / 16777216.0)

"""

SUMS = """
@kernel
def add_at_rows_{dtype}(target, length, rows, values, count):
    at = carray(pointer(rows), count, int64)
    for i in range(count):
        out = carray(pointer(target + at[i] * length * {size}), length, {dtype})
        x = carray(pointer(values + i * length * {size}), length, {dtype})
        for j in range(length):
            out[j] += x[j]


@kernel
def add_zero_times_{dtype}(source, target, count):
    x, out = carray(pointer(source), count, {dtype}), carray(pointer(target), count, {dtype})
    for i in range(count):
        out[i] += x[i] * {dtype}(0)


@kernel
def is_zero_{dtype}(number):
    return carray(pointer(number), 1, {dtype})[0] == 0


@kernel
def is_finite_{dtype}(loss, penalty, squares):
    total = carray(pointer(loss), 1, {dtype})[0] + carray(pointer(penalty), 1, {dtype})[0]
    return abs(total) < np.inf and carray(pointer(squares), 1, {dtype})[0] < np.inf

"""

TABLE = """
@kernel
def look_up(table, length, indices, target, count):
    values, given = carray(pointer(table), length, int64), carray(pointer(indices), count, int64)
    out = carray(pointer(target), count, int64)
    for i in range(count):
        index = given[i] + length if given[i] < 0 else given[i]
        if index < 0 or index >= length:
            return False
        out[i] = values[index]
    return True


@kernel
def call_loops(one, base, scratch):
    arguments = scratch.ctypes.data
    for outer in range(one[25]):
        for i in range(4):
            scratch[4 + i] = one[3 + i] + outer * one[26 + i]
        for _ in range(one[7]):
            for i in range(4):  # some loops move on the addresses that they are given
                scratch[i] = scratch[4 + i]
            call_loop(one[1], (arguments, base + 8 * 12, base + 8 * 16, one[2]))
            for i in range(4):
                scratch[4 + i] += one[8 + i]

"""
