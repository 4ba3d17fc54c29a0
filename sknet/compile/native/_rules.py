"""Translate calls of NumPy to instructions with the same bits; others are left to NumPy."""

import math
import operator
import sys
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import cache, partial
from typing import Any

import numpy as np

from sknet._parallel import SMALL, architectures
from sknet.compile._calls import Call
from sknet.compile.native._instructions import (
    ANY_SHARES,
    AXIS,
    FREEDOM,
    OWN_SUMS,
    SHARES,
    Array,
    Kind,
    Meaning,
    Spread,
    Tape,
    address_of,
    carry_out,
    code,
    copy,
    fill,
    is_apart,
    is_plain,
    level_1,
    loop,
    loop_of,
    looped,
    merged,
    offset,
    strides_over,
)
from sknet.compile.numpy import add_multiple, check_indices, fill_mask, write_largest
from sknet.device._backend import broadcast_shapes

SPREADS: dict[Any, int] = {
    np.add: Spread.ADD_ROW,
    np.subtract: Spread.SUBTRACT_COLUMN,
    np.multiply: Spread.MULTIPLY_COLUMN,
    np.divide: Spread.DIVIDE_COLUMN,
}
# Ufuncs whose result depends on the operands alone, not on where in memory an element is.
EXACT = frozenset(
    {
        np.absolute, np.add, np.copysign, np.ceil, np.divide, np.equal, np.floor, np.greater,
        np.greater_equal, np.isfinite, np.isinf, np.isnan, np.less, np.less_equal, np.logical_and,
        np.logical_not, np.logical_or, np.maximum, np.minimum, np.multiply, np.negative, np.not_equal,
        np.positive, np.rint, np.sign, np.signbit, np.sqrt, np.square, np.subtract, np.trunc,
    }
)  # fmt: skip


# Ufuncs whose loops round an element by its position among some, a power of 2: those of parts are the same.
EVEN = frozenset({np.exp, np.expm1, np.log, np.log1p, np.tanh})
MEANINGS: dict[Any, int] = {
    np.maximum: Meaning.RELU,
    np.greater: Meaning.IS_POSITIVE,
    np.square: Meaning.SQUARE,
    np.multiply: Meaning.PRODUCT,  # SQUARE if both operands are the same
    np.sqrt: Meaning.ROOT,
    np.add: Meaning.SUM,
    np.divide: Meaning.QUOTIENT,
}


# -- elementwise --------------------------------------------------------------------------------


def ufunc(tape: Tape, call: Call) -> bool:
    function: Any = call.function
    named = dict(call.named)
    given = [*call.args, named.pop("out")] if "out" in named else list(call.args)
    if named or len(given) != function.nin + 1 or function.nout != 1 or len(given) > 4:
        return False
    out = given[-1]
    operands = _as_arrays(given[:-1])
    if type(out) is not np.ndarray or operands is None:
        return False
    arrays = [*operands, out]
    if not _are_forward(arrays) or broadcast_shapes(*[x.shape for x in arrays]) != out.shape:
        return False
    if not out.size:
        return True
    if not is_apart(out, *operands):
        return False
    if function is np.multiply and _masked(tape, *arrays):
        return True
    inner = loop_of(function, tuple(x.dtype for x in arrays))
    if inner is None:
        return False
    if function in SPREADS and _spread(tape, function, *arrays):
        return True
    lengths, strides = merged(out.shape, [strides_over(x, out.shape) for x in arrays])
    if len(lengths) > 1 and function not in EXACT:
        return False
    in_parts = function in EXACT or function in EVEN
    return looped(tape, inner, arrays, lengths, strides, _meaning(function, arrays), in_parts)


def _are_forward(arrays: Sequence[Array]) -> bool:
    """Tell whether arrays are aligned, and their elements none before the first."""
    for x in arrays:
        if not x.flags.aligned or not x.dtype.isnative or min(x.strides, default=0) < 0:
            return False
    return True


def _meaning(function: Any, arrays: Sequence[Array]) -> int:
    other: int = Meaning.OTHER
    found = MEANINGS.get(function, other)
    if found in (Meaning.RELU, Meaning.IS_POSITIVE):
        # Only constants of a plan are read-only.
        return other if arrays[1].flags.writeable or arrays[1].any() else found
    if any(x.dtype.char not in "fd" for x in arrays):
        return other
    is_square = function is np.multiply and address_of(arrays[0]) == address_of(arrays[1])
    return int(Meaning.SQUARE) if is_square else found


def _as_arrays(operands: Sequence[Any]) -> list[Array] | None:
    """Return operands as arrays; numbers get the dtype of the arrays."""
    kinds, dtypes = set(map(type, operands)), {x.dtype for x in operands if type(x) is np.ndarray}
    if kinds == {np.ndarray}:
        return list(operands)
    if len(dtypes) != 1 or not kinds <= {np.ndarray, int, float}:
        return None
    return [np.asarray(x, *dtypes) for x in operands]


def _spread(tape: Tape, function: Any, x: Array, y: Array, out: Array) -> bool:
    """Append an operation of a matrix and a row or column that is broadcast to it."""
    if function in (np.add, np.multiply) and x.shape != out.shape:
        x, y = y, x
    if x.shape != out.shape or out.dtype.char not in "fd" or not is_plain(x, y, out):
        return False
    lengths, [_, of_y] = merged(out.shape, [strides_over(a, out.shape) for a in (x, y)])
    size = out.itemsize
    if len(lengths) != 2 or of_y != ([0, size] if function is np.add else [size, 0]):
        return False
    tape.add(Kind.SPREAD, size, SPREADS[function], *map(tape.address, (x, y, out)), *lengths)
    return True


def _masked(tape: Tape, x: Array, mask: Array, out: Array) -> bool:
    """Append the product of an array, read as integers, and a mask."""
    is_mask = mask.dtype.kind == "b" and x.dtype.kind == "i" and x.dtype == out.dtype and x.itemsize in (4, 8)
    if not is_mask or not x.shape == mask.shape == out.shape or not is_plain(x, mask, out):
        return False
    tape.add(Kind.MASK, x.itemsize, *map(tape.address, (x, mask, out)), x.size)
    return True


# -- reductions ---------------------------------------------------------------------------------


def reduce(tape: Tape, call: Call) -> bool:
    function: Any = getattr(call.function, "__self__", None)
    if function not in (np.add, np.maximum, np.minimum) or call.named or len(call.args) not in (4, 5):
        return False
    x, axis, _, out = call.args[:4]
    axes = sorted(a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,)))
    inner = loop_of(function, (out.dtype, x.dtype, out.dtype)) if type(out) is np.ndarray else None
    if inner is None or not is_plain(x, out) or not x.size or x.dtype.char not in "fd":
        return False
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return False
    before, n, behind = (math.prod(x.shape[part]) for part in _parts(axes))
    size, begin = x.itemsize, 0
    if function is np.add:
        fill(tape, out, 0)
    else:  # begins with the first
        begin = 1
        steps = [n * behind * size, size, behind * size, size]
        copy(tape, size, tape.address(x), steps[:2], tape.address(out), steps[2:], (before, behind))
    first, target = tape.address(x) + begin * behind * size, tape.address(out)
    if n == begin:
        return True
    each = n * behind * size
    if behind == 1:
        loop(tape, inner, [target, first, target], (before, [size, each, size]), [n - begin], [0, size, 0])
    else:
        whole = behind * size
        loop(
            tape, inner, [target, first, target], (n - begin, [0, whole, 0]), [behind], [size] * 3,
            (before, [whole, each, whole]),
        )  # fmt: skip
    return True


def largest(tape: Tape, call: Call) -> bool:
    number, x = call.args
    return reduce(tape, Call(np.maximum.reduce, (x.reshape(-1), 0, None, number)))


def _parts(axes: list[int]) -> tuple[slice, slice, slice]:
    return slice(axes[0]), slice(axes[0], axes[-1] + 1), slice(axes[-1] + 1, None)


# -- products -----------------------------------------------------------------------------------


def dot(tape: Tape, call: Call) -> bool:
    if call.named or len(call.args) != 3:
        return False
    a, b, out = call.args
    if {*map(type, call.args)} != {np.ndarray} or min(a.ndim, b.ndim) < 1 or max(a.ndim, b.ndim) > 2:
        return False
    if not (a.flags.forc and b.flags.forc and out.flags.c_contiguous):
        return False  # it would copy
    first, second = a[np.newaxis] if a.ndim == 1 else a, b[:, np.newaxis] if b.ndim == 1 else b
    result = out.reshape(first.shape[0], second.shape[1])
    if first.shape[1] < 2 and result.size > 1:
        return False  # a column times a row: other functions of BLAS
    return _multiplied(tape, first, second, result)


def matmul(tape: Tape, call: Call) -> bool:
    named = dict(call.named)
    given = [*call.args, named.pop("out")] if "out" in named else list(call.args)
    if named or len(given) != 3 or {*map(type, given)} != {np.ndarray} or min([x.ndim for x in given]) < 2:
        return False
    return _multiplied(tape, *given)


def _multiplied(tape: Tape, a: Array, b: Array, out: Array) -> bool:
    inner = loop_of(np.matmul, (a.dtype, b.dtype, out.dtype))
    arrays = a, b, out
    are_aligned = a.flags.aligned and b.flags.aligned and out.flags.aligned
    if inner is None or out.dtype.char not in "fd" or not are_aligned:
        return False
    if np.may_share_memory(a, out) or np.may_share_memory(b, out):
        return False
    if not out.size:
        return True
    batch = out.shape[:-2]
    if broadcast_shapes(a.shape[:-2], b.shape[:-2]) != batch:
        return False
    lengths, strides = merged(batch, [_strides_over_batch(x, batch) for x in arrays])
    core = (*a.shape[-2:], b.shape[-1]), [s for x in arrays for s in x.strides[-2:]]
    if not looped(tape, inner, arrays, lengths, strides, core=core):
        return False
    _divide(tape, tape.rows[-1])
    return True


GRAINS = {0: 1, 1: 32, 3: 32}  # the least length of a share on each axis: batch, rows and columns
MOST_SHARES, LONG = 8, 256  # more than two shares, if each is as long and worth waking a thread
STEP = 16  # rows and columns of a share are multiples of it, or of a part of it
SINGLE = 4  # bytes of a number
WORTH, WORTH_A_THREAD = 1 << 20, 1 << 22  # multiplications of one of two shares, and of one of more


@cache
def _has_even_products() -> bool:
    """Tell whether parts of a product of single precision are known to have the bits of the whole."""
    # Those kernels add up numbers in an order that rows and columns do not change, but for small products.
    # Versions that have others up to 28 * 512**2 multiplications differ here.
    if architectures() != {"SkylakeX"}:
        return False
    x, y = (np.cos(k * np.arange(1 << 16, dtype=np.float32)).reshape(128, 512) for k in (1, 2))
    whole = x @ y.T
    return np.array_equal(whole[:64], x[:64] @ y.T) and np.array_equal(whole[:, :64], x @ y[:64].T)


MOST_OWN, LONGEST = 1 << 23, 384  # multiplications, and numbers of a sum, of products without BLAS
WIDEST, MOST_TURNED = 64, 128  # columns of a tile, and rows of one that is turned; see products.inc.c


def _is_for_blas(lengths: Sequence[int], strides: Sequence[int]) -> bool:
    """Tell whether BLAS takes a matrix as it is; some versions of NumPy multiply others on their own."""
    return any(strides[i] == SINGLE and strides[1 - i] >= SINGLE * lengths[i] for i in (0, 1))


def _may_do_without_blas(row: list[int]) -> bool:
    rows, inner, columns = row[13:16]
    length = columns // row[SHARES] // STEP * STEP if row[AXIS] == 3 else columns
    matrices = ((rows, inner), row[19:21]), ((inner, columns), row[21:23]), ((rows, columns), row[23:25])
    if not all(_is_for_blas(*each) for each in matrices):
        return False
    most = LONGEST if row[22] == SINGLE else MOST_TURNED if row[21] == SINGLE else 0
    return length >= WIDEST and inner <= most and rows * inner * columns <= MOST_OWN


def write_product(a: Array, b: Array, out: Array) -> None:
    """Write a product of two matrices of single precision without BLAS."""
    tape, core = Tape(), ((*a.shape, b.shape[1]), (*a.strides, *b.strides, *out.strides))
    looped(tape, (0, 0), (a, b, out), [1], [[0]] * 3, core=core)
    row = tape.rows[0]
    row[0], row[FREEDOM], row[SHARES] = Kind.PRODUCT, OWN_SUMS, 1
    carry_out(tape.finished())


@cache
def _adds_up_as_blas() -> bool:
    """Tell whether products without BLAS have its bits, for each layout."""
    # Of the longest sums: BLAS has blocks of them, each with a sum of its own.
    size = 130
    x, y = (np.cos(k * np.arange(size * LONGEST, dtype=np.float32)).reshape(size, -1) for k in (1, 2))
    turned = y.reshape(-1, size)
    short = slice(MOST_TURNED)
    for a, b in ((x, turned), (x.reshape(-1, size).T, turned), (x[:, short], y[:, short].T)):
        out = np.empty((size, size), np.float32)
        write_product(a, b, out)
        if out.tobytes() != np.matmul(a, b).tobytes():
            return False
    return True


def _divide(tape: Tape, row: list[int]) -> None:
    """Let threads share a large product, by sizes alone where its bits depend on the shares."""
    # The inner length is never divided: BLAS's own threads do that in another order than one.
    batch, rows, inner, columns = row[12:16]
    count = math.prod((row[7], row[25], batch, rows, inner, columns))
    if count < tape.shared:
        return
    axis = 0 if batch > 1 else 1 if rows >= columns else 3
    length, shares = row[12 + axis], 1
    if count >= 2 * WORTH and length >= 2 * GRAINS[axis]:
        shares, least = 2, 1 if axis == 0 else LONG
        while (
            shares < MOST_SHARES
            and count // (2 * shares) >= WORTH_A_THREAD
            and length // (2 * shares) >= least
        ):
            shares *= 2
    row[0], row[AXIS], row[SHARES] = Kind.PRODUCT, axis, shares
    # A vector and a square of a matrix have functions of their own in BLAS.
    if axis and min(rows, columns) >= GRAINS[axis] and row[3] != row[4] and row[24] == SINGLE:
        least = count // length * (length // shares // STEP * STEP)
        if least > SMALL and _has_even_products():
            own = _may_do_without_blas(row) and _adds_up_as_blas()
            row[FREEDOM] = OWN_SUMS if own else ANY_SHARES


def _strides_over_batch(x: Array, batch: tuple[int, ...]) -> tuple[int, ...]:
    own = [0 if n == 1 else s for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)]
    return (*[0] * (len(batch) - len(own)), *own)


def vectors(tape: Tape, call: Call) -> bool:
    found = level_1(call.function)
    if found is None or call.named:
        return False
    name, dtype, address = found
    if name == "scal":
        factor, x = call.args
        vectors, size = [x], x.size
    else:
        x, y, *more = call.args
        size, factor = more if more else (x.size, 1.0)
        vectors = [x, y]
    return _blas(tape, Kind.BLAS, dtype, address, vectors, size, factor)


def _blas(
    tape: Tape, kind: int, dtype: Any, address: int, vectors: list[Array], size: int, factor: Any
) -> bool:
    if not is_plain(*vectors) or any(x.dtype != dtype for x in vectors):
        return False
    if isinstance(factor, np.ndarray):
        if factor.dtype != dtype:
            return False
        scale = tape.address(factor)
    else:
        scale = tape.number(factor, dtype)
    one, whole = tape.number(1, np.dtype(np.int64)), np.dtype(np.int64)
    places = [place for x in vectors for place in (tape.address(x), one)]
    fields = [tape.number(size, whole), scale, *places, *[0] * (4 - len(places))]
    if kind == Kind.ADD_MULTIPLE:
        tape.add(kind, dtype.itemsize, address, *fields, size)
    else:
        is_known = not isinstance(factor, np.ndarray) and dtype.type(factor) != 0
        tape.add(kind, address, *fields, size, dtype.itemsize, is_known)
    return True


def add_multiple_rule(tape: Tape, call: Call) -> bool:
    axpy, source, target, size, factor = call.args
    found = level_1(axpy)
    if found is None:
        return False
    return _blas(tape, Kind.ADD_MULTIPLE, found[1], found[2], [source, target], size, factor)


def check_finite(tape: Tape, x: Array, *terms: Array) -> None:
    """End a run unless the sum of squares of an array, and the sum of up to two numbers, are finite."""
    squares, zero = np.zeros((1, 1), x.dtype), tape.number(0, x.dtype)
    _multiplied(tape, x.reshape(1, -1), x.reshape(-1, 1), squares)
    numbers = [*map(tape.address, terms), zero, zero]
    tape.add(Kind.FINITE, x.itemsize, *numbers[:2], tape.address(squares))


MOST_LOOPS = 64  # most instructions for one call


def copyto(tape: Tape, call: Call) -> bool:
    out, source, *_ = call.args
    named = dict(call.named)
    mask = named.pop("where", None)
    if named or type(out) is not np.ndarray:
        return False
    if type(source) in (int, float, bool):
        source = np.array(source, out.dtype)
        if mask is None and fill(tape, out, source.item()):
            return True
    if type(source) is not np.ndarray:
        return False
    if mask is not None:
        return _replace(tape, source, mask, out)
    if source.ndim > out.ndim or broadcast_shapes(source.shape, out.shape) != out.shape:
        return False
    return is_apart(out, source) and copied(tape, source, out)


def copied(tape: Tape, source: Array, out: Array, by: tuple[int, int, int] = (0, 0, 0)) -> bool:
    """Append copies of an array into another; `by` are steps in bytes between the training steps of a run."""
    kind = code(source.dtype, out.dtype)
    readable = all(x.flags.aligned and x.dtype.isnative for x in (source, out))
    if kind is None or not readable or (kind < 0 and any(by)):
        return False
    lengths, (a, b) = merged(out.shape, [strides_over(x, out.shape) for x in (source, out)])
    if not out.size:
        return True
    if math.prod(lengths[:-2]) > MOST_LOOPS:
        return False
    inner = (*[1] * (2 - len(lengths)), *lengths)[-2:]
    for place in np.ndindex(*lengths[:-2]):
        from_, to = (tape.address(x) + offset(place, steps) for x, steps in ((source, a), (out, b)))
        two = [(*[0] * (2 - len(steps)), *steps)[-2:] for steps in (a, b)]
        copy(tape, kind, from_, two[0], to, two[1], (inner[0], inner[1]), 0, by)
    return True


def gathered(tape: Tape, source: Array, slot: Array) -> bool:
    """Append copies of rows of an array into a batch; their addresses are filled in before a run."""
    kind = code(source.dtype, slot.dtype)
    if kind is None or not (source.flags.aligned and source.dtype.isnative) or not slot.size:
        return False
    shape = slot.shape[1:]
    lengths, (a, b) = merged(shape, [source.strides[1:], slot.strides[1:]])
    if math.prod(lengths[:-1]) > MOST_LOOPS:
        return False
    for place in np.ndindex(*lengths[:-1]):
        from_, to = (tape.address(x) + offset(place, steps) for x, steps in ((source, a), (slot, b)))
        copy(
            tape, kind, from_, (source.strides[0], a[-1]), to, (slot.strides[0], b[-1]),
            (slot.shape[0], lengths[-1]), 0, (8 * slot.shape[0], 0, 0),
        )  # fmt: skip
    return True


def _replace(tape: Tape, source: Array, mask: Any, out: Array) -> bool:
    if type(mask) is not np.ndarray or mask.shape != out.shape or mask.dtype.kind != "b" or not out.size:
        return False
    if source.dtype != out.dtype or source.shape not in (out.shape, ()) or not is_plain(source, mask, out):
        return False
    if out.itemsize not in (4, 8) or not is_apart(out, source):
        return False
    stride = out.itemsize if source.shape else 0
    places = tape.address(source), stride, tape.address(mask), tape.address(out)
    tape.add(Kind.REPLACE, out.itemsize, *places, out.size)
    return True


# -- indices ------------------------------------------------------------------------------------


def _is_index(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == np.int64 and is_plain(x)


def take(tape: Tape, call: Call) -> bool:
    if call.named or len(call.args) not in (4, 5):
        return False
    x, rows, axis, out, *mode = call.args
    if not _is_index(rows) or not is_plain(x, out) or x.dtype != out.dtype or np.may_share_memory(x, out):
        return False
    if not mode:
        if x.ndim != 1 or axis is not None or x.dtype != np.int64:
            return False
        tape.add(Kind.TABLE, 0, tape.address(x), x.size, *map(tape.address, (rows, out)), rows.size)
        return True
    kind, length = code(x.dtype, x.dtype), math.prod(x.shape[1:]) if axis == 0 else 1
    if mode != ["clip"] or kind is None or axis not in (0, None):
        return False
    size = x.itemsize
    strides = [length * size, size]
    copy(
        tape, kind, tape.address(x), strides, tape.address(out), strides, (rows.size, length),
        tape.address(rows),
    )  # fmt: skip
    return True


def put(tape: Tape, call: Call) -> bool:
    out, places, values = call.args
    if not _is_index(places) or not is_plain(out, values) or out.ndim != 1 or out.dtype != values.dtype:
        return False
    if values.size != places.size or out.itemsize not in (4, 8):
        return False
    tape.add(Kind.PUT, out.itemsize, *map(tape.address, (out, places, values)), places.size)
    return True


def check_indices_rule(tape: Tape, call: Call) -> bool:
    indices, length, *_ = call.args
    if not is_plain(indices) or indices.dtype.kind not in "iu":
        return False
    # Read as unsigned integers, negative numbers exceed all that a signed integer can be.
    bound = min(length, int(np.iinfo(indices.dtype).max) + 1) if indices.dtype.kind == "i" else length
    tape.add(Kind.BOUNDS, indices.itemsize, tape.address(indices), indices.size, bound)
    return True


def add_rows(tape: Tape, call: Call) -> bool:
    _, count, length, starts, rows, ones, values, out = call.args
    fits = _is_index(rows) and is_plain(values, out) and values.dtype == out.dtype
    if not fits or out.dtype.char not in "fd" or not np.array_equal(starts, np.arange(count + 1)):
        return False
    if not (ones == 1).all():
        return False
    tape.add(
        Kind.ADD_ROWS, out.itemsize, tape.address(out), length, *map(tape.address, (rows, values)), count
    )
    return True


# -- encoded rows -------------------------------------------------------------------------------

BLOCKS_AT_A_TIME = 8  # at most; see `group` in sknet/_native/codes.inc.c
MOST_COLUMNS = 64  # of a tile
LINE = 16  # numbers in a line of the cache
MOST_BINS = 2**23  # beyond that, numbers of single precision skip some


def coded(tape: Tape, call: Call) -> bool:
    codes, given = call.args
    named = {**call.function.keywords, **call.named}
    out, blocks = named["out"], np.array(named["blocks"], np.int64)
    if not is_plain(codes, given, out) or any(x.dtype != np.float32 for x in (codes, given, out)):
        return False
    if not (codes.size and out.size):
        return False
    counts = blocks[:, 0]
    several, most = counts[counts > 1], counts.max()
    if most >= MOST_BINS:
        return False
    of_tiles = (len(codes) + BLOCKS_AT_A_TIME * most) * MOST_COLUMNS
    room = np.empty(max(of_tiles, 2 * counts.sum()) + LINE, np.float32)
    room = room[-address_of(room) // room.itemsize % LINE :]  # no vector lies in two lines of the cache
    sorting = [0, 0, 0]
    if named.get("transposed"):
        of_rows = (len(several), len(codes))
        arrays = (
            np.empty(of_rows, np.int32),
            np.empty(of_rows, np.float32),
            np.empty(several.sum(), np.int32),
        )
        sorting = [tape.address(x) for x in arrays]
    places = tape.address(given), tape.address(out), out.shape[1], tape.address(room)
    tape.add(
        Kind.CODED if "transposed" in named else Kind.PAIRED,
        tape.address(codes),
        len(codes),
        tape.address(blocks),
        len(blocks),
        most,
        *places,
        *sorting,
    )
    return True


# -- random numbers -----------------------------------------------------------------------------


def dropped(tape: Tape, call: Call) -> bool:
    (key, site, shape), limit, scale = call.function.args
    step, _, _, out = call.args
    if not is_plain(out) or out.dtype.char not in "fd" or out.shape != shape or step.dtype != np.int64:
        return False
    halves = np.array(key, np.uint64).view(np.int64).tolist()
    drawn = out.itemsize, tape.address(out), out.size, *halves, site, tape.address(step)
    tape.add(Kind.DROPOUT, *drawn, math.ceil(limit * 2.0**16), tape.number(scale, out.dtype))
    return True


Rule = Callable[[Tape, Call], bool]  # appends instructions, or returns False


def translated(tape: Tape, call: Call) -> bool:
    rule = _rule_of(call.function)
    return rule is not None and rule(tape, call)


def _rule_of(function: Any) -> Rule | None:
    if isinstance(function, np.ufunc):
        return matmul if function is np.matmul else ufunc
    if isinstance(getattr(function, "__self__", None), Context):  # as `silently` calls a function
        return _silenced
    if isinstance(function, partial):
        return dropped if function.func is fill_mask else coded if _is_coded(function.func) else None
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return reduce if function.__name__ == "reduce" else None
    try:
        return _rules().get(function) or _rule_of_scipy(function)
    except TypeError:  # not hashable
        return None


def _rule_of_scipy(function: Any) -> Rule | None:
    """Return the rule of a function of SciPy, which is loaded only where a program needs it."""
    sparsetools: Any = sys.modules.get("scipy.sparse._sparsetools")
    if sparsetools is not None and function is sparsetools.csc_matvecs:
        return add_rows
    is_loaded = "scipy.linalg" in sys.modules
    return vectors if is_loaded and level_1(function) else None


def _silenced(tape: Tape, call: Call) -> bool:
    function, *args = call.args
    return translated(tape, Call(function, tuple(args), call.named))


def _is_coded(function: Any) -> bool:
    """Tell whether a function multiplies codes, which few programs do."""
    codes = sys.modules.get("sknet.ops._codes")
    return codes is not None and function in (codes.coded_forward, codes.paired_forward)


@cache
def _rules() -> dict[Any, Rule]:
    return {
        np.dot: dot,
        np.copyto: copyto,
        np.ndarray.take: take,
        np.ndarray.fill: lambda tape, call: fill(tape, call.args[0], call.args[1]),
        operator.setitem: put,
        add_multiple: add_multiple_rule,
        check_indices: check_indices_rule,
        write_largest: largest,
    }
