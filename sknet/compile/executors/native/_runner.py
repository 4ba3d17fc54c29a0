"""The source of the function that executes instructions: compiled once by Numba, whatever is trained.

It is given addresses, so it does not depend on dtypes or sizes. `_instructions` lists what the fields of an
instruction mean.
"""

from collections.abc import Mapping

from sknet.compile.executors.native._instructions import CONVERTED, TURN, WIDTH, Kind, Spread
from sknet.compile.executors.native._kernels import (
    BOUNDS,
    CONVERSIONS,
    COPIES,
    DRAWS,
    FILLS,
    HEAD,
    PUTS,
    RELU,
    SPREAD,
    SUMS,
    TABLE,
)

__all__ = ["ARGUMENTS", "RUNNER"]

ARGUMENTS = 2  # address and number of turns: rows of integers, see `TURN`

REALS = (("float32", 4), ("float64", 8))
WORDS = (("uint32", 4), ("uint64", 8))
ALL = (("uint8", 1), ("uint16", 2), *WORDS)
# For each `Spread`: the length of what is broadcast, its index, and the operator.
SPREADS = {
    Spread.ADD_ROW: ("n1", "j", "+"), Spread.SUBTRACT_COLUMN: ("n0", "i", "-"),
    Spread.MULTIPLY_COLUMN: ("n0", "i", "*"), Spread.DIVIDE_COLUMN: ("n0", "i", "/"),
}  # fmt: skip


def _spread() -> str:
    return "".join(
        SPREAD.format(name=spread.name.lower(), dtype=dtype, size=size, index=index, sign=sign)
        for spread, (size, index, sign) in SPREADS.items()
        for dtype, _ in REALS
    )


def _branches(field: int, lines: Mapping[int, str]) -> str:
    """Return lines of which one is executed: that for the number in a field of the instruction."""
    return "".join(
        f"                {'elif' if i else 'if'} one[{field}] == {number}:\n                    {line}\n"
        for i, (number, line) in enumerate(lines.items())
    )


def _cases(name: str, dtypes: tuple[tuple[str, int], ...], given: str, result: str = "") -> str:
    """Return lines that call the function for the element size in the second field."""
    return _branches(1, {size: f"{result}{name}_{dtype}({given})" for dtype, size in dtypes})


def _spread_cases() -> str:
    given = "one[3], one[4], one[5], one[6], one[7]"
    return _branches(2, {spread: _by_size(spread.name.lower(), given) for spread in SPREADS})


def _by_size(name: str, given: str) -> str:
    indent = "\n" + 20 * " "
    first, second = (f"{indent}    {name}_{dtype}({given})" for dtype, _ in REALS)
    return f"if one[1] == 4:{first}{indent}else:{second}"


def _conversion_cases() -> str:
    given = "one[2], one[3], one[4], rows, one[6], one[7], one[8], one[9], one[10]"
    calls = {i: f"convert_{source}_{target}({given})" for i, (source, target) in enumerate(CONVERTED)}
    return _branches(1, calls)


def _body() -> str:
    moved = "one[2], one[3], one[4], rows, one[6], one[7], one[8], one[9], one[10]"
    rows = "                rows = one[5] + b * one[11]\n"
    step, sums = "one[2] + b * one[12]", "one[2], one[3], one[4]"
    moved_there = moved.replace("one[6]", "one[6] + b * one[13]").replace("one[2]", step)
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
        "                ok = True\n"
        + _cases("are_below", ALL, "one[2], one[3], one[4]", "ok = ")
        + "                if not ok:\n                    return b\n"
        f"            elif kind == {Kind.TABLE}:\n"
        "                if not look_up(one[2], one[3], one[4], one[5], one[6]):\n"
        "                    return b\n"
        f"            elif kind == {Kind.HOST}:\n"
        "                if call_host(one[1], (one[2],)) != 0:\n"
        "                    return b\n"
        f"            elif kind == {Kind.FINITE}:\n"
        f"                ok = is_finite_float32({sums}) if one[1] == 4 else is_finite_float64({sums})\n"
        "                if not ok:\n                    return b\n"
        f"            elif kind == {Kind.ADD_ROW_RELU}:\n"
        + _cases("add_row_relu", REALS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.MASK_POSITIVE}:\n"
        + _cases("mask_positive", REALS, "one[2], one[3], one[4], one[5], one[6]")
        + f"            elif kind == {Kind.UNIFORM}:\n"
        "                step = carray(pointer(one[7]), 1, int64)[0]\n"
        "                draw(one[2], one[3], one[4], one[5], one[6], step)\n"
        f"            elif kind == {Kind.COUNTER}:\n"
        "                carray(pointer(one[2]), 1, int64)[0] = counter + b\n"
    )


TAIL = f"""

@kernel
def turn(start, length, room, count, counter):
    program, scratch = carray(pointer(start), (length, {WIDTH}), int64), carray(pointer(room), 8, int64)
    for b in range(count):
        for i in range(length):
            one, base = program[i], start + i * {8 * WIDTH}
            kind = one[0]
{_body()}    return count


@kernel
def steps(start, length):  # up to the first step that fails; returns their number
    turns, done = carray(pointer(start), (length, {TURN}), int64), 0
    for i in range(length):
        count = turns[i, 3]
        reached = turn(turns[i, 0], turns[i, 1], turns[i, 2], count, turns[i, 4])
        done += reached
        if reached < count:
            break
    return done

"""

RUNNER = (
    HEAD
    + "".join(text.format(dtype=dtype, size=size) for text in (COPIES, FILLS, BOUNDS) for dtype, size in ALL)
    + "".join(PUTS.format(dtype=dtype, size=size) for dtype, size in WORDS)
    + "".join(CONVERSIONS.format(given=given, wanted=wanted) for given, wanted in CONVERTED)
    + _spread()
    + "".join(SUMS.format(dtype=dtype, size=size) for dtype, size in REALS)
    + "".join(RELU.format(dtype=x, word=y) for (x, _), (y, _) in zip(REALS, WORDS, strict=True))
    + DRAWS
    + TABLE
    + TAIL
)
