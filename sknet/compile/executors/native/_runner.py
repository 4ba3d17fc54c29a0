"""The source of the function that carries out instructions: compiled once by Numba, whatever is trained.

It is given addresses, so it does not depend on dtypes or sizes. `_instructions` lists what the fields of an
instruction mean.
"""

from sknet.compile.executors.native._instructions import CONVERTED, WIDTH, Kind

__all__ = ["RUNNER"]

HEAD = '''"""Carries out instructions: written by sknet, compiled by Numba."""

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic
from numpy import float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

# Every operation is rounded by itself, as NumPy's are: no fast-math flags.
kernel = njit(nogil=True, error_model="numpy", boundscheck=False, fastmath=False)


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

REALS = (("float32", 4), ("float64", 8))
WORDS = (("uint32", 4), ("uint64", 8))
ALL = (("uint8", 1), ("uint16", 2), *WORDS)
# What a row or a column for the whole of a matrix is often used for, by number.
SPREADS = {
    "add_row": ("n1", "j", "+"), "subtract_column": ("n0", "i", "-"),
    "multiply_column": ("n0", "i", "*"), "divide_column": ("n0", "i", "/"),
}  # fmt: skip


def _spread() -> str:
    return "".join(
        SPREAD.format(name=name, dtype=dtype, size=size, index=index, sign=sign)
        for name, (size, index, sign) in SPREADS.items()
        for dtype, _ in REALS
    )


def _cases(name: str, dtypes: tuple[tuple[str, int], ...], given: str) -> str:
    """Return lines that call the function for the size of element that the second field says."""
    head = (f"{'if' if not i else 'elif'} one[1] == {size}:" for i, (_, size) in enumerate(dtypes))
    return "".join(
        f"                {line}\n                    {name}_{dtype}({given})\n"
        for line, (dtype, _) in zip(head, dtypes, strict=True)
    )


def _chosen(name: str, given: str, then: str) -> str:
    """Return lines that leave the step to NumPy unless the function for a dtype returns True."""
    calls = {size: f"{name}_{dtype}({given})" for dtype, size in REALS}
    return (
        f"                ok = {calls[4]} if one[1] == 4 else {calls[8]}\n"
        f"                if {then}:\n                    return b\n"
    )


def _spread_cases() -> str:
    text, given = "", "one[3], one[4], one[5], one[6], one[7]"
    for number, name in enumerate(SPREADS):
        text += f"                {'if' if not number else 'elif'} one[2] == {number}:\n"
        text += f"                    if one[1] == 4:\n                        {name}_float32({given})\n"
        text += f"                    else:\n                        {name}_float64({given})\n"
    return text


def _conversion_cases() -> str:
    given = "one[2], one[3], one[4], rows, one[6], one[7], one[8], one[9], one[10]"
    text = ""
    for number, (source, target) in enumerate(CONVERTED):
        text += f"                {'if' if not number else 'elif'} one[1] == {number}:\n"
        text += f"                    convert_{source}_{target}({given})\n"
    return text


def _body() -> str:
    moved = "one[2], one[3], one[4], rows, one[6], one[7], one[8], one[9], one[10]"
    rows = "                rows = one[5] + b * one[11]\n"
    step = "one[2] + b * one[12]"
    moved_there = moved.replace("one[6]", "one[6] + b * one[13]").replace("one[2]", step)
    bounds = "".join(
        f"                {'if' if not i else 'elif'} one[1] == {size}:\n"
        f"                    ok = are_below_{dtype}(one[2], one[3], one[4])\n"
        for i, (dtype, size) in enumerate(ALL)
    )
    return (
        f"            if kind == {Kind.LOOP}:\n"
        "                call_loops(one, base, scratch)\n"
        f"            elif kind == {Kind.BLAS}:\n"
        "                call_blas(one[1], (one[2], one[3], one[4], one[5], one[6], one[7]))\n"
        f"            elif kind == {Kind.SPREAD}:\n"
        + _spread_cases()
        + f"            elif kind == {Kind.COPY}:\n"
        + rows
        + _cases("copy_elements", ALL, moved_there)
        + f"            elif kind == {Kind.CONVERT}:\n"
        + rows
        + _conversion_cases()
        + f"            elif kind == {Kind.MASK}:\n"
        + _cases("mask", WORDS, "one[2], one[3], one[4], one[5]")
        + f"            elif kind == {Kind.REPLACE}:\n"
        + _cases("replace", WORDS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.FILL}:\n"
        + _cases("fill", ALL, "one[2], one[3], one[4]")
        + f"            elif kind == {Kind.PUT}:\n"
        + _cases("put", WORDS, "one[2], one[3], one[4], one[5]")
        + f"            elif kind == {Kind.ADD_ROWS}:\n"
        + _cases("add_at_rows", REALS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.ADD_MULTIPLE}:\n"
        "                zero = is_zero_float32(one[4]) if one[1] == 4 else is_zero_float64(one[4])\n"
        "                if not zero:\n"
        "                    call_blas(one[2], (one[3], one[4], one[5], one[6], one[7], one[8]))\n"
        "                elif one[1] == 4:\n"
        "                    add_zero_times_float32(one[5], one[7], one[9])\n"
        "                else:\n"
        "                    add_zero_times_float64(one[5], one[7], one[9])\n"
        f"            elif kind == {Kind.BOUNDS}:\n"
        "                ok = True\n" + bounds + "                if not ok:\n                    return b\n"
        f"            elif kind == {Kind.TABLE}:\n"
        "                if not look_up(one[2], one[3], one[4], one[5], one[6]):\n"
        "                    return b\n"
        f"            elif kind == {Kind.HOST}:\n"
        "                if call_host(one[1], (one[2],)) != 0:\n"
        "                    return b\n"
        f"            elif kind == {Kind.FINITE}:\n"
        + _chosen("is_finite", "one[2], one[3], one[4]", "not ok")
        + f"            elif kind == {Kind.ADD_ROW_RELU}:\n"
        + _cases("add_row_relu", REALS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.MASK_POSITIVE}:\n"
        + _cases("mask_positive", REALS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.COUNTER}:\n"
        "                carray(pointer(one[2]), 1, int64)[0] = counter + b\n"
    )


TAIL = f'''

@kernel
def steps(program, scratch, count, counter):
    start = program.ctypes.data
    for b in range(count):
        for i in range(program.shape[0]):
            one, base = program[i], start + i * {8 * WIDTH}
            kind = one[0]
{_body()}    return count


def compile_for(texts):
    """Compile for arguments of these types."""
    steps.compile(tuple(type_of(text) for text in texts.split(";")))


def type_of(text):
    if ":" not in text:
        return {{"int": types.int64}}[text]
    _, _, form = text.partition(":")
    return types.Array(types.int64, int(form[0]), form[1])
'''

RUNNER = (
    HEAD
    + "".join(text.format(dtype=dtype, size=size) for text in (COPIES, FILLS, BOUNDS) for dtype, size in ALL)
    + "".join(PUTS.format(dtype=dtype, size=size) for dtype, size in WORDS)
    + "".join(CONVERSIONS.format(given=given, wanted=wanted) for given, wanted in CONVERTED)
    + _spread()
    + "".join(SUMS.format(dtype=dtype, size=size) for dtype, size in REALS)
    + "".join(RELU.format(dtype=x, word=y) for (x, _), (y, _) in zip(REALS, WORDS, strict=True))
    + TABLE
    + TAIL
)
