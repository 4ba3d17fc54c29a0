"""The source of functions that go over arrays once where NumPy makes many passes, with the bits of its calls.

Each takes the address of numbers: convolutions of images, channel by channel, one for each `Field`, `erfc`
one for each `Operand`, steps of recurrent networks one for each `Step`, norms one for each `Norm`, and
convolutions by tiles of images two for each `Tile` and one for each `Product`. Shared work is one `Job`.
"""

from enum import IntEnum

from sknet.compile.executors.native._gates import CALLED, FIELDS, GATES, Step
from sknet.compile.executors.native._jobs import JOBS, LOOKS, Job
from sknet.compile.executors.native._kernels import HEAD
from sknet.compile.executors.native._norms import NORMS, Norm
from sknet.compile.executors.native._planes import IMAGES, THREE, Field
from sknet.compile.executors.native._row_maps import MEMORY, ROW_MAPS
from sknet.compile.executors.native._sums import NINE, NINE_SUMS, ROW
from sknet.compile.executors.native._tiles import WEAVES, Product, Tile, source_of_tiles
from sknet.compile.executors.numpy import COEFFICIENTS

__all__ = ["ARGUMENTS", "PASSES", "Operand", "Work"]

ARGUMENTS = 3


class Work(IntEnum):
    """What is computed."""

    CONVOLVED = 0
    WEIGHT = 1
    ERFC = 2
    LSTM_FORWARD = 3
    LSTM_BACKWARD = 4
    NORM = 5
    NORM_GRADIENT = 6
    LSTM_STEPS = 7
    BY_TILES = 8
    SUMS_OF_PRODUCTS = 9
    SCALED_ROWS = 10
    SERVE = 11
    LEAD = 12
    LSTM_BACK_STEPS = 13


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

SHARE = f"""
@kernel
def images_and_products(place, size):
    images = carray(pointer(place), {len(Tile)}, int64)
    results = carray(pointer(place + 8 * {len(Tile)}), {len(Tile)}, int64)
    call = carray(pointer(place + 16 * {len(Tile)}), {Product.APART + 1}, int64)
    if size == 4:
        share_float32(images, results, call)
    else:
        share_float64(images, results, call)

"""

TAIL = f"""
@kernel
def steps(place, size, work):
    if work == {Work.ERFC}:
        erfc(place)
        return 0
    if work == {Work.LSTM_STEPS}:
        call = carray(pointer(place), {FIELDS}, int64)
        if size == 4:
            lstm_steps_float32(call)
        else:
            lstm_steps_float64(call)
        return 0
    if work == {Work.LSTM_BACK_STEPS}:
        call = carray(pointer(place), {FIELDS}, int64)
        if size == 4:
            lstm_back_steps_float32(call)
        else:
            lstm_back_steps_float64(call)
        return 0
    if work == {Work.LSTM_FORWARD} or work == {Work.LSTM_BACKWARD}:
        call = carray(pointer(place), {FIELDS}, int64)
        if size == 4:
            if work == {Work.LSTM_FORWARD}:
                lstm_forward_float32(call)
            else:
                lstm_backward_float32(call)
        elif work == {Work.LSTM_FORWARD}:
            lstm_forward_float64(call)
        else:
            lstm_backward_float64(call)
        return 0
    if work == {Work.NORM}:
        norm(carray(pointer(place), {Norm.STEPS + 9}, int64))
        return 0
    if work == {Work.NORM_GRADIENT}:
        norm_gradient(carray(pointer(place), {Norm.STEPS + 9}, int64))
        return 0
    if work == {Work.SUMS_OF_PRODUCTS}:
        sums_of_products(carray(pointer(place), {Norm.STEPS + 9}, int64))
        return 0
    if work == {Work.SCALED_ROWS}:
        scaled_rows(carray(pointer(place), {Norm.STEPS + 9}, int64))
        return 0
    if work == {Work.BY_TILES}:
        images_and_products(place, size)
        return 0
    if work == {Work.SERVE}:
        serve(place, size)
        return 0
    if work == {Work.LEAD}:
        return lead(place, size)
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
_NORM = {field.name.lower(): int(field) for field in Norm}
_STEP = {step.name.lower(): int(step) for step in Step}
_JOB = {field.name.lower(): int(field) for field in Job}
PASSES = (
    HEAD
    + ROW
    + NINE
    + NINE_SUMS
    + "".join(IMAGES.format(dtype=dtype, size=size) for dtype, size in REALS)
    + THREE
    + ERFC
    + CALLED.format(**_STEP)
    + "".join(GATES.format(dtype=dtype, size=size, **_STEP) for dtype, size in REALS)
    + MEMORY
    + ROW_MAPS
    + NORMS.format(**_NORM)
    + WEAVES
    + "".join(source_of_tiles(dtype, size) for dtype, size in REALS)
    + SHARE
    + JOBS.format(most_looks=LOOKS, **_JOB)
    + TAIL
)
