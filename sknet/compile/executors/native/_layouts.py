"""Layouts of arrays, and the instructions for most calls: loops of ufuncs, and copies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.compile.executors.native._addresses import Loop
from sknet.compile.executors.native._instructions import CONVERTED, MEANING, OPERANDS, Kind, Meaning, Tape

__all__ = [
    "Array", "code", "copy", "fill", "is_apart", "is_plain", "loop", "looped", "merged", "offset", "padded",
    "strides_over",
]  # fmt: skip

Array = np.ndarray[Any, Any]


def is_plain(*arrays: Any) -> bool:
    """Tell whether these are C-contiguous, aligned arrays."""
    return all(
        type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative
        for x in arrays
    )


def is_apart(out: Array, *operands: Array) -> bool:
    """Tell whether each operand has exactly the memory of the result, or none of it."""
    place = out.__array_interface__["data"][0], out.strides
    return all(
        (x.__array_interface__["data"][0], x.strides) == place or not np.may_share_memory(x, out)
        for x in operands
    )


def merged(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Return lengths, and strides of each array, after merging axes that are contiguous in all of them."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for i, n in enumerate(shape):
        if n == 1:
            continue
        here = [each[i] for each in strides]
        if lengths and all(own[-1] == n * step for own, step in zip(steps, here, strict=True)):
            lengths[-1] *= n
            for own, step in zip(steps, here, strict=True):
                own[-1] = step
        else:
            lengths.append(n)
            for own, step in zip(steps, here, strict=True):
                own.append(step)
    return (lengths, steps) if lengths else ([1], [[0] for _ in strides])


def offset(place: tuple[int, ...], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(place, steps, strict=False))


def strides_over(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array that is broadcast to a shape."""
    return (
        *[0] * (len(shape) - x.ndim),
        *[0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)],
    )


# -- loops --------------------------------------------------------------------------------------


def looped(
    tape: Tape,
    function: Loop,
    arrays: Sequence[Array],
    lengths: list[int],
    strides: list[list[int]],
    meaning: Meaning = Meaning.OTHER,
    in_parts: bool = False,
) -> bool:
    """Append an inner loop over the last of up to three axes, called for each position along the others."""
    *outer, inner = lengths
    if len(outer) > 2:
        return False
    outer = [*[1] * (2 - len(outer)), *outer]
    steps = [[*[0] * (3 - len(each)), *each] for each in strides]
    loop(
        tape, function, [tape.address(x) for x in arrays],
        (outer[1], [each[1] for each in steps]), [inner], [each[2] for each in steps],
        (outer[0], [each[0] for each in steps]),
    )  # fmt: skip
    if len(lengths) == 1:
        tape.rows[-1][MEANING] = meaning
        tape.rows[-1][OPERANDS] = len(arrays) if in_parts else 0
    return True


def loop(
    tape: Tape, function: Loop, addresses: Sequence[int], often: tuple[int, Sequence[int]],
    lengths: Sequence[int], strides: Sequence[int], again: tuple[int, Sequence[int]] = (1, ()),
) -> None:  # fmt: skip
    tape.add(
        Kind.LOOP, function.address, function.data, *padded(addresses, 4), often[0], *padded(often[1], 4),
        *padded(lengths, 4), *padded(strides, 9), again[0], *padded(again[1], 4),
    )  # fmt: skip


def padded(values: Sequence[int], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]


# -- copies -------------------------------------------------------------------------------------


def fill(tape: Tape, out: Any, value: Any) -> bool:
    if not is_plain(out) or out.itemsize not in (1, 2, 4, 8) or type(value) not in (int, float, bool):
        return False
    bits = np.array(value, out.dtype).view(f"i{out.itemsize}").item()
    tape.add(Kind.FILL, out.itemsize, tape.address(out), bits, out.size)
    return True


def code(source: np.dtype[Any], target: np.dtype[Any]) -> int | None:
    """Return the size of the elements if they are copied, a negative number for a conversion, or None."""
    if source == target:
        return source.itemsize if source.itemsize in (1, 2, 4, 8) and source.kind in "biuf" else None
    pair = ("uint8" if source.kind == "b" else source.name), target.name
    return -1 - CONVERTED.index(pair) if pair in CONVERTED else None


def copy(
    tape: Tape, code: int, source: int, strides: Sequence[int], target: int, to: Sequence[int],
    lengths: tuple[int, int], rows: int = 0, by: tuple[int, int, int] = (0, 0, 0),
) -> int:  # fmt: skip
    """Append a copy of rows, converted if necessary; return its position."""
    kind, number = (Kind.COPY, code) if code > 0 else (Kind.CONVERT, -1 - code)
    return tape.add(kind, number, source, *strides, rows, target, *to, *lengths, *by)
