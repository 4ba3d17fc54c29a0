"""Instructions: rows of integers that the C extension carries out; and several that are fused into one."""

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from sknet._native import needed

# -- addresses: of arrays, and of the C functions that do the work of NumPy's plan -----------------


# The addresses of an inner loop of a ufunc, which needs no interpreter, and of its data:
# ``loop(arguments, lengths, strides, data)``.
Loop = tuple[int, int]


class _UFunc(ctypes.Structure):
    """The fields of a PyUFuncObject after its header (numpy/ufuncobject.h), as far as needed."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
    )


@cache
def loop_of(function: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    """Return the loop of one of NumPy's ufuncs for operands and result of these dtypes, if it has one."""
    if not isinstance(function, np.ufunc) or getattr(np, function.__name__, None) is not function:
        return None
    return _loop(function, dtypes)


@cache
def loop_of_products(dtype: np.dtype[Any]) -> Loop | None:
    """Return the loop of NumPy's matrix product for operands and result of a dtype."""
    return loop_of(np.matmul, (dtype, dtype, dtype)) if dtype.isnative else None


HEADER = object.__basicsize__  # bytes of an array before the address of its first element


def address_of(x: Any) -> int:
    """Return the address of an array's first element, or 0 for None."""
    return 0 if x is None else ctypes.c_size_t.from_address(id(x) + HEADER).value


def _loop(ufunc: Any, dtypes: tuple[np.dtype[Any], ...]) -> Loop | None:
    kinds, chars = ufunc.types, "".join([x.char if x.isnative else " " for x in dtypes])
    wanted = f"{chars[:-1]}->{chars[-1]}"
    found = _UFunc.from_address(id(ufunc) + object.__basicsize__)
    known = (found.nin, found.nout, found.nargs, found.ntypes, found.name)
    if known != (ufunc.nin, 1, ufunc.nargs, len(kinds), ufunc.__name__.encode()) or wanted not in kinds:
        return None
    first = kinds.index(wanted)
    address = found.functions[first]
    return None if not address else (address, found.data[first] or 0)


def level_1(function: Callable[..., Any]) -> tuple[str, np.dtype[Any], int] | None:
    """Return name, dtype and address if a function is one of SciPy's level-1 BLAS routines, else None."""
    found = _vectors().get(id(function))
    return None if found is None else found[1:]


@cache
def _vectors() -> dict[int, tuple[Any, str, np.dtype[Any], int]]:
    """Return the functions by their identity, each with what `level_1` returns."""
    from scipy.linalg import blas  # long to load, and forward passes do without

    found = {}
    for name in ("scal", "axpy"):
        for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
            function = blas.get_blas_funcs(name, dtype=dtype)
            if (address := _address_in(function)) is not None:
                found[id(function)] = function, name, dtype, address
    return found


def _address_in(function: Any) -> int | None:
    capsule = getattr(function, "_cpointer", None)  # public: SciPy's manual describes it
    if capsule is None:
        return None
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, None)


# -- instructions: a function of the runner and its arguments, mostly addresses ---------------------

WIDTH = 32  # integers per instruction
TURN = 6  # integers per turn, see `turn` of native.h
MEANING = 31  # field of a loop that only fusion reads: see `Meaning`
OPERANDS = 30  # field of a loop that may be carried out in parts: number of addresses, or 0
AXIS, SHARES = 30, 31  # fields of a product: the axis that is divided, and into how many shares
FREEDOM = 6  # field of a product: 0, or one of the two that follow
ANY_SHARES, OWN_SUMS = 1, 2  # fewer shares, or none, have the same bits; so have sums without BLAS
GIVEN = ("int8", "uint8", "int16", "int32", "int64", "float32", "float64")
# Pairs of dtypes between which elements are converted; NumPy converts all others.
CONVERTED = tuple((a, b) for a in GIVEN for b in ("float32", "float64") if a != b)


def _numbered(names: str) -> SimpleNamespace:  # enumerations take a process a millisecond
    return SimpleNamespace(**{name: i for i, name in enumerate(names.split())})


# The first field; the others follow, in this order. `b` is the number of the step in a run.
Kind = _numbered(
    "LOOP BLAS SPREAD COPY CONVERT MASK REPLACE FILL PUT ADD_ROWS ADD_MULTIPLE BOUNDS TABLE HOST "
    "FINITE COUNTER NOTHING ADD_ROW_RELU MASK_POSITIVE DROPOUT CHAIN MOMENTS SQUARES QUOTIENTS "
    "STANDARDIZE CODED PRODUCT PAIRED"
)


# Operations of a matrix and a row or column that is broadcast to it.
Spread = _numbered("ADD_ROW SUBTRACT_COLUMN MULTIPLY_COLUMN DIVIDE_COLUMN")


# Loops that may be fused with a neighbouring instruction.
Meaning = _numbered("OTHER RELU IS_POSITIVE SQUARE ROOT SUM QUOTIENT PRODUCT")


Row = list[int]


def _row(kind: int, *fields: int) -> Row:
    return [kind, *fields, *[0] * (WIDTH - 1 - len(fields))]


class Tape:
    """Collects instructions, and keeps alive what they point to."""

    def __init__(self, shared: float = math.inf) -> None:
        self.shared = shared  # from so many multiplications on, shares of a product have one thread of BLAS
        self.rows: list[Row] = []
        self._alive: list[np.ndarray] = []
        self._numbers: dict[tuple[np.dtype, bytes], int] = {}

    def address(self, array: np.ndarray) -> int:
        """Return the address of an array, which is kept alive."""
        self._alive.append(array)
        return address_of(array)

    def number(self, value: float, dtype: np.dtype) -> int:
        """Return the address of a constant, the same for the same."""
        constant = np.array(value, dtype)
        key = constant.dtype, constant.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self.address(constant)
        return self._numbers[key]

    def add(self, kind: int, *fields: int) -> int:
        """Append an instruction; return its position."""
        self.rows.append(_row(kind, *map(int, fields)))
        return len(self.rows) - 1

    def has_shares(self) -> bool:
        """Tell whether threads share a product."""
        return any(row[0] == Kind.PRODUCT and row[SHARES] > 1 for row in self.rows)

    def finished(self) -> np.ndarray:
        """Return all instructions: ndarray of shape (n, WIDTH), dtype=int64."""
        return np.array(self.rows, np.int64).reshape(-1, WIDTH)


# -- passes over arrays: fields that `sknet/_native/native.h` describes ------------------------------


# Kinds of passes over arrays.
Work = _numbered(
    "CONVOLVED WEIGHT ERFC LSTM_FORWARD LSTM_BACKWARD NORM NORM_GRADIENT LSTM_STEPS BY_TILES "
    "SUMS_OF_ROWS SCALED_ROWS LSTM_BACK_STEPS LARGEST PUT_LARGEST PIECE SHARE_OF_PRODUCT RIGHT"
)


# Images and their tiles.
Tile = _numbered(
    "X X_SAMPLE X_CHANNEL X_ROW X_COLUMN TILES STEP ROOM BIAS SAMPLES CHANNELS ROWS COLUMNS TOP "
    "LEFT TILE_ROWS TILE_COLUMNS"
)


# Products of tiles: SHAPE is the first of four lengths, STRIDES of nine steps in bytes.
Product = SimpleNamespace(
    MATMUL=0, MATMUL_DATA=1, LEFT=2, RIGHT=3, OUT=4, SHAPE=5, STRIDES=9, SUMS=18, SAMPLES=19, PART=20,
    GROUPS=21, APART=22,
)  # fmt: skip


# -- rows of tables: arguments are the address of a number for each `Field`, how many rows, the addresses of
# -- their indices among the chosen rows and in the table, of their outputs, and of memory for a row's numbers


# Fields that describe a table and its encoding: numbers, and addresses of arrays.
Field = _numbered(
    "NUMBERS STRIDE N_NUMBERS CENTERS N_VALUES KEPT MIDDLES SCALES IS_PHASE N_BINS BIN_NUMBERS LOW "
    "INVERSE SMALLEST LARGEST N_FLAGS FLAGS N_COLUMNS COLUMNS WIDTH STEP N_STEPS STEPS"
)


# Source of the codes of a column of levels.
Codes = _numbered("OF_TABLE OF_CHOSEN OF_NUMBER")


# -- layouts of arrays --------------------------------------------------------------------------

Array = np.ndarray[Any, Any]


def is_plain(*arrays: Any) -> bool:
    """Tell whether these are C-contiguous, aligned arrays."""
    for x in arrays:
        if type(x) is not np.ndarray or not x.dtype.isnative:
            return False
        flags = x.flags
        if not (flags.c_contiguous and flags.aligned):
            return False
    return True


def is_apart(out: Array, *operands: Array) -> bool:
    """Tell whether each operand has exactly the memory of the result, or none of it."""
    place = address_of(out), out.strides
    others = [x for x in operands if (address_of(x), x.strides) != place]
    return not any(np.may_share_memory(x, out) for x in others)


def merged(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Return lengths, and strides of each array, after merging axes that are contiguous in all of them."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    inner: list[int] = []
    for n, here in zip(shape, zip(*strides, strict=True), strict=True):
        if n == 1:
            continue
        if lengths and inner == [n * step for step in here]:
            lengths[-1] *= n
            for own, step in zip(steps, here, strict=True):
                own[-1] = step
        else:
            lengths.append(n)
            for own, step in zip(steps, here, strict=True):
                own.append(step)
        inner = [*here]
    return (lengths, steps) if lengths else ([1], [[0] for _ in strides])


def offset(place: tuple[int, ...], steps: Sequence[int]) -> int:
    return sum(i * step for i, step in zip(place, steps, strict=False))


def strides_over(x: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array that is broadcast; any for axes of length 1."""
    if x.shape == shape:
        return x.strides
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
    meaning: int = Meaning.OTHER,
    in_parts: bool = False,
    core: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> bool:
    """Append an inner loop over the last of up to three axes and a `core`, called for each other position."""
    if len(lengths) > 3:
        return False
    third, second, inner = [*[1] * (3 - len(lengths)), *lengths]
    missing = [0] * (3 - len(lengths))
    of_third, of_second, of_inner = zip(*[[*missing, *each] for each in strides], strict=True)
    sizes, steps = (inner, *core[0]), (*of_inner, *core[1])
    loop(
        tape, function, list(map(tape.address, arrays)), (second, of_second), sizes, steps, (third, of_third)
    )
    if len(lengths) == 1:
        tape.rows[-1][MEANING] = meaning
        tape.rows[-1][OPERANDS] = len(arrays) if in_parts else 0
    return True


def loop(
    tape: Tape, function: Loop, addresses: Sequence[int], often: tuple[int, Sequence[int]],
    lengths: Sequence[int], strides: Sequence[int], again: tuple[int, Sequence[int]] = (1, ()),
) -> None:  # fmt: skip
    row = _row(Kind.LOOP, *function)
    row[7], row[25] = often[0], again[0]
    for first, values in ((3, addresses), (8, often[1]), (12, lengths), (16, strides), (26, again[1])):
        row[first : first + len(values)] = values
    tape.rows.append(row)


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


# -- chains: neighbours whose arrays stay in the nearest cache ---------------------------------------


CHUNK = 1 << 10  # elements at a time: a multiple of what vectors and unrolled loops take at once
MOST = 64  # instructions of a chain
ALONE = 1 << 13  # elements that BLAS does not share among threads; a multiple of what `contracted_body` finds
NUMBER = 8  # bytes of a number that all elements use, at most
# An array that is used: address, bytes from element to element, its end, and whether it is written.
Use = tuple[int, int, int, bool]


def chained(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield instructions with the same results, neighbours in chains where their arrays are large."""
    chain: list[Row] = []
    uses: dict[Use, None] = {}
    arrays: set[tuple[int, int]] = set()
    length = 0
    known = [(row, *uses_of(row, CHUNK + 1)) for row in rows]
    for i, (row, n, own) in enumerate(known):
        if chain and not (
            n == length
            and len(chain) < MOST
            and _is_near(known[i : i + 2], arrays, n)
            and are_apart(own, uses)
        ):
            yield from _finished(chain, length)
            chain, uses, arrays, length = [], {}, set(), 0
        if not n:
            yield row
            continue
        chain.append(row)
        uses.update(dict.fromkeys(own))
        arrays.update([(x, stride) for x, stride, _, _ in own if stride])
        length = n
    yield from _finished(chain, length)


def _is_near(known: list[tuple[Row, int, list[Use]]], arrays: set[tuple[int, int]], length: int) -> bool:
    """Tell whether an instruction, or the next one, reads what is in the cache."""
    return any(
        (x, stride) in arrays and not is_written
        for _, n, uses in known
        if n == length
        for x, stride, _, is_written in uses
    )


def _finished(chain: list[Row], length: int) -> Iterator[Row]:
    if len(chain) > 1 or (length > ALONE and chain[0][0] in (Kind.BLAS, Kind.ADD_MULTIPLE)):
        yield _row(Kind.CHAIN, len(chain), length, CHUNK)
    yield from chain


def are_apart(uses: Iterable[Use], others: Iterable[Use]) -> bool:
    """Tell whether what is written is the same array as another, or has no memory in common with it."""
    for x, x_stride, x_end, x_is_written in uses:
        for y, y_stride, y_end, y_is_written in others:
            is_other = x != y or x_stride != y_stride
            if is_other and x < y_end and y < x_end and (x_is_written or y_is_written):
                return False
    return True


def uses_of(row: Row, least: int = 1) -> tuple[int, list[Use]]:
    """Return the length of an elementwise instruction, and what it uses; 0 and nothing for others."""
    rule = USES.get(row[0])
    n, read, written = NO_USES if rule is None else rule(row)
    if n < least:
        return 0, []
    uses = [(x, stride, x + (stride * n or NUMBER), False) for x, stride in read]
    uses += [(x, stride, x + stride * n, True) for x, stride in written]
    return (n, uses) if are_apart(uses, uses) else (0, [])


# Length; addresses and strides of what is read, and of what is written.
Found = tuple[int, list[tuple[int, int]], list[tuple[int, int]]]
NO_USES: Found = 0, [], []


def _uses_of_loop(row: Row) -> Found:
    count = row[OPERANDS]
    *read, written = list(zip(row[3:7], row[16:20], strict=True))[:count] or [(0, 0)]
    return (row[12], read, [written]) if count and written[1] > 0 else NO_USES


def _uses_of_level_1(given: Row, length: int, size: int) -> Found:
    _, factor, x, _, y, _ = given
    return length, [(factor, 0), (x, size), *([(y, size)] if y else [])], [(y or x, size)]


def _uses_of_mask(row: Row) -> Found:
    size, source, mask, target, length = row[1:6]
    return length, [(source, size), (mask, 1)], [(target, size)]


def _uses_of_mask_positive(row: Row) -> Found:
    size, x, source, mask, target, length = row[1:7]
    return length, [(x, size), (source, size)], [*([(mask, 1)] if mask else []), (target, size)]


def _uses_of_moments(row: Row) -> Found:
    size, length, _, a, x, b, y = row[1:8]
    return length, [(a, 0), (b, 0), (y, size), (x, size)], [(x, size)]


def _uses_of_squares(row: Row) -> Found:
    size, length, _, g, squares, a, x, b = row[1:9]
    written = [(x, size) for x in (squares, x) if x]
    return length, [(a, 0), (b, 0), (g, size), (x, size)], written


def _uses_of_quotients(row: Row) -> Found:
    size, length, _, v, more, m, quotients, factor, w, rate, factors = row[1:12]
    read = [(number, 0) for number in (factor, more, rate) if number]
    read += [(x, size) for x in (v, m, w, factors) if x]
    return length, read, [(x, size) for x in (quotients, w) if x]


USES: dict[int, Callable[[Row], Found]] = {
    Kind.LOOP: _uses_of_loop,
    Kind.BLAS: lambda row: _uses_of_level_1(row[2:8], row[8], row[9]),
    Kind.ADD_MULTIPLE: lambda row: _uses_of_level_1(row[3:9], row[9], row[1]),
    Kind.MASK: _uses_of_mask,
    Kind.MASK_POSITIVE: _uses_of_mask_positive,
    Kind.MOMENTS: _uses_of_moments,
    Kind.SQUARES: _uses_of_squares,
    Kind.QUOTIENTS: _uses_of_quotients,
}


def fused(rows: Iterable[Row], is_loop: bool) -> list[Row]:
    """Return instructions, some fused, with the same results but what a loop leaves in its blocks alone."""
    whole = list(_without_parts(list(_pairs(rows)), is_loop))  # of functions of vectors, as in updates
    return list(_without_parts(list(_updates(whole)), is_loop))


def _pairs(rows: Iterable[Row]) -> Iterator[Row]:
    before: Row | None = None
    for row in rows:
        found = None if before is None else _add_row_relu(before, row) or _mask_positive(before, row)
        if found is None and before is not None:
            yield before
        before = row if found is None else found
    if before is not None:
        yield before


def _add_row_relu(first: Row, second: Row) -> Row | None:
    """Return one instruction for the addition of a row and the ReLU of the sum, if these two are that."""
    if first[0] != Kind.SPREAD or first[2] != 0 or second[0] != Kind.LOOP or second[MEANING] != Meaning.RELU:
        return None
    size, _, x, row, sums, n_rows, n_columns = first[1:8]
    out = second[5]
    if second[3] != sums or second[12] != n_rows * n_columns or not _keeps_no_sign():
        return None
    found = _row(Kind.ADD_ROW_RELU, size, x, row, out, n_rows, n_columns, 0 if sums == out else sums)
    return found if are_apart(_uses_of_relu(found), _uses_of_relu(found)) else None


def _uses_of_relu(row: Row) -> list[Use]:
    size, x, shift, out, n_rows, n_columns, sums = row[1:8]
    length = n_rows * n_columns * size
    written = [(each, size, each + length, True) for each in (out, sums) if each]
    return [(x, size, x + length, False), (shift, 0, shift + n_columns * size, False), *written]


@cache
def _keeps_no_sign() -> bool:
    """Tell whether NumPy's maximum of -0.0 and 0.0 is 0.0, wherever they are in an array."""
    for dtype in (np.float32, np.float64):
        negative = np.full(131, -0.0, dtype)
        for zero in (np.zeros(131, dtype), dtype(0)):
            if np.signbit(np.maximum(negative, zero)).any():
                return False
    return True


def _mask_positive(first: Row, second: Row) -> Row | None:
    """Return one instruction for a mask of positive elements and its product with a vector, likewise."""
    if first[0] != Kind.LOOP or first[MEANING] != Meaning.IS_POSITIVE or second[0] != Kind.MASK:
        return None
    size, source, mask, target, length = second[1:6]
    same = first[5] == mask and first[12] == length and first[16] == size
    return _row(Kind.MASK_POSITIVE, size, first[3], source, mask, target, length) if same else None


# -- parts: plans go over large arrays in parts that stay in the cache, as chains do by themselves ---------

MOST_TOGETHER = 4  # instructions of a part


def _parts(
    counts: tuple[int, ...], addresses: tuple[int, ...], *, overwritten: int = 0, row: int = 0,
    has_mask: bool = False, size: int = 1, same: int = 0, multiple: int = 1,
) -> SimpleNamespace:  # fmt: skip
    """Return the fields of an instruction that may have parts."""
    # Of numbers of elements and of addresses, which differ from part to part; of a result that every part
    # overwrites, with a byte for each element if it is a mask; of the length of the rows that are counted; of
    # the bytes of other elements; of what may differ, too. All parts but the last one have a multiple of some
    # elements.
    return SimpleNamespace(**locals())


PARTS = {
    Kind.BLAS: _parts((8,), (4, 6), size=9, same=2, multiple=ALONE),
    Kind.ADD_MULTIPLE: _parts((9,), (5, 7), same=3, multiple=ALONE),
    Kind.MOMENTS: _parts((2, 3), (5, 7)),
    Kind.SQUARES: _parts((2, 3), (4, 7), overwritten=5),
    Kind.QUOTIENTS: _parts((2, 3), (4, 6, 9, 11), overwritten=7),
    Kind.MASK_POSITIVE: _parts((6,), (2, 3, 5), overwritten=4, has_mask=True),
    Kind.ADD_ROW_RELU: _parts((5,), (2, 4), overwritten=7, row=6),
}


def _without_parts(rows: list[Row], is_loop: bool) -> Iterator[Row]:
    """Yield instructions, each of which goes over whole arrays where several went over their parts."""
    i = 0
    while i < len(rows):
        whole: list[Row] = []
        for n in range(1, MOST_TOGETHER + 1):
            if len(rows) < i + 2 * n or rows[i + n - 1][0] not in PARTS:
                break
            end = i + n
            while len(rows) >= end + n and all(map(_is_behind, rows[end - n : end], rows[end : end + n])):
                end += n
            if end > i + n:
                whole = _whole([rows[first:end:n] for first in range(i, i + n)], is_loop)
                break
        yield from whole or [rows[i]]
        i = end if whole else i + 1


def _is_behind(before: Row, after: Row) -> bool:
    """Tell whether an instruction continues another one: it is the same for the elements that follow."""
    fields = PARTS.get(before[0])
    if fields is None or before[0] != after[0] or len({before[each] for each in fields.counts}) > 1:
        return False
    if before[fields.counts[0]] % fields.multiple:
        return False
    following = list(before)
    for each in fields.addresses:
        following[each] += _length(before) * before[fields.size] if before[each] else 0
    for each in (*fields.counts, fields.same):
        following[each] = after[each]
    return following == after


def _length(row: Row) -> int:
    """Return the number of elements of an instruction that parts may have."""
    fields = PARTS[row[0]]
    return row[fields.counts[0]] * (row[fields.row] if fields.row else 1)


def _whole(parts: list[list[Row]], is_loop: bool) -> list[Row]:
    """Return instructions for whole arrays, given those of all parts; none if they would not be the same.

    What every part of a loop overwrites, nothing reads after it: it is not written any more.
    """
    found, overwritten = [], []
    for rows in parts:
        fields, row = PARTS[rows[0][0]], list(rows[0])
        for each in fields.counts:
            row[each] = sum(part[each] for part in rows)
        if fields.overwritten and (start := row[fields.overwritten]):
            size = 1 if fields.has_mask else row[fields.size]
            overwritten.append((start, start + max(map(_length, rows)) * size))
            row[fields.overwritten] = 0
        found.append(row)
    of_each = [_uses_of_relu(row) if row[0] == Kind.ADD_ROW_RELU else uses_of(row)[1] for row in found]
    uses = [use for each in of_each for use in each]
    is_read = any(x < end and start < x_end for x, _, x_end, _ in uses for start, end in overwritten)
    is_known = all(of_each)  # an instruction whose own arrays overlap tells no uses
    is_kept = overwritten and not is_loop
    same = is_known and len(set(map(_length, found))) == 1 and not is_read and not is_kept
    same = same and are_apart(uses, uses)
    return found if same else []


# -- updates ------------------------------------------------------------------------------------


def _updates(rows: list[Row]) -> Iterator[Row]:
    """Yield instructions, of which sequences that updates have are one, with the bits of them all."""
    i = 0
    while i < len(rows):
        count, row = _update(rows[i : i + 6]) if rows[i][0] in (Kind.LOOP, Kind.BLAS) else (1, rows[i])
        yield row
        i += count


def _update(rows: list[Row]) -> tuple[int, Row]:
    """Return how many of these instructions are one that is faster, and that one."""
    for count, rule in RULES_OF_UPDATES.get(rows[0][MEANING], ()):
        found = rule(rows[:count]) if len(rows) >= count else None
        if found is not None and _is_element_by_element(rows[:count]):
            body = contracted_body(found[1])
            if body is not None:
                found[3] = found[2] // body * body if body else 0
                return count, found
    return 1, rows[0]


def _is_element_by_element(rows: list[Row]) -> bool:
    """Tell whether instructions may be carried out for one element after the other."""
    lengths, uses = zip(*map(uses_of, rows), strict=True)
    every = [use for each in uses for use in each]
    return lengths[0] > 0 and len(set(lengths)) == 1 and are_apart(every, every)


def _moments(rows: list[Row]) -> Row | None:
    """Match x *= a; x += b * y."""
    scal, axpy = rows
    if not (_is_scal(scal) and _is_axpy(axpy, scal[4]) and axpy[4] != scal[4]):
        return None
    return _row(Kind.MOMENTS, scal[9], scal[8], 0, scal[3], scal[4], axpy[3], axpy[4])


def _squares(rows: list[Row]) -> Row | None:
    """Match squares = g * g; x *= a; x += b * squares."""
    square, scal, axpy = rows
    if not (_is_scal(scal) and _is_axpy(axpy, scal[4])):
        return None
    g, out = square[3], square[6 if square[6] else 5] if square[5] else square[4]
    if axpy[4] != out or len({g, out, scal[4]}) < 3 or not _is_dense(square, scal[9]):
        return None
    return _row(Kind.SQUARES, scal[9], scal[8], 0, g, out, scal[3], scal[4], axpy[3])


def _quotients(rows: list[Row]) -> Row | None:
    """Match q = sqrt(v); q += more; q = m / q; q *= rate; q *= factors; w += factor * q, or fewer of them."""
    root, *rest = rows
    v, q, size = root[3], root[4], root[16]
    more = rate = factors = factor = w = 0
    if _is(rest[0], Meaning.SUM) and rest[0][3] == rest[0][5] == q and rest[0][16:19] == [size, 0, size]:
        more = rest.pop(0)[4]
    quotient, *rest = rest
    m = quotient[3]
    if not (_is(quotient, Meaning.QUOTIENT) and quotient[4] == quotient[5] == q):
        return None
    if not (size and _is_dense(root, size) and _is_dense(quotient, size)):
        return None  # of a single element, the stride is 0
    if rest and rest[0][0] == Kind.BLAS and rest[0][4] == q and not rest[0][6] and zeroes_by_product(size):
        rate = rest.pop(0)[3]
    if rest and _is_dense(rest[0], size) and _is(rest[0], Meaning.PRODUCT) and rest[0][3] == rest[0][5] == q:
        factors = rest.pop(0)[4]
    if rest and rest[0][0] == Kind.ADD_MULTIPLE and rest[0][5] == q:
        factor, w = rest[0][4], rest.pop(0)[7]
    elif rest and _is_dense(rest[0], size) and _is(rest[0], Meaning.SUM):
        w = rest[0][5]
        rest = rest[1:] if {q, w} == {*rest[0][3:5]} else rest
    known = [v, q, *[x for x in (w, factors) if x], *([m] if m != v else [])]
    if rest or len(set(known)) < len(known):
        return None
    return _row(Kind.QUOTIENTS, size, root[12], 0, v, more, m, q, factor, w, rate, factors)


def _is(row: Row, meaning: int) -> bool:
    return row[0] == Kind.LOOP and row[MEANING] == meaning


def _is_dense(row: Row, size: int) -> bool:
    """Tell whether the elements of all operands of a loop are next to each other."""
    return all(stride == size for stride in row[16 : 16 + row[OPERANDS]])


def _is_scal(row: Row) -> bool:
    return row[0] == Kind.BLAS and row[6] == 0 and row[10] == 1


def _is_axpy(row: Row, target: int) -> bool:
    return row[0] == Kind.BLAS and row[6] == target and row[10] == 1


# By the meaning of the first loop; functions of BLAS have none. The longest come first.
RULES_OF_UPDATES: dict[int, tuple[tuple[int, Callable[[list[Row]], Row | None]], ...]] = {
    Meaning.OTHER: ((2, _moments),),
    Meaning.SQUARE: ((3, _squares),),
    Meaning.ROOT: tuple((count, _quotients) for count in (6, 5, 4, 3)),
}


@cache
def zeroes_by_product(size: int) -> bool:
    """Tell whether this BLAS multiplies a vector by 0, which leaves NaN, instead of filling it with 0."""
    from scipy.linalg import blas

    x = np.array([np.nan, -1.0], f"f{size}")
    found = blas.get_blas_funcs("scal", dtype=x.dtype)(0.0, x)
    return bool(np.isnan(found[0]) and np.signbit(found[1]))


def carry_out(program: np.ndarray) -> None:
    """Carry out a table of instructions once."""
    turn = np.array([address_of(program), len(program), 1, 0, 0, 0], np.int64)  # lives as long as the call
    needed().steps(address_of(turn), 1)


@cache
def contracted_body(size: int) -> int | None:
    """Return a number of elements of which this BLAS rounds x + a * y once, and what is left over twice."""
    from scipy.linalg import blas  # which predictions do without

    dtype = np.dtype(f"f{size}")
    axpy = blas.get_blas_funcs("axpy", dtype=dtype)
    one, factor = np.array(1, dtype), np.array(0.7, dtype)
    numbers = np.cos(np.arange(2122)).astype(dtype).reshape(2, -1)
    vectors = [numbers[:, :n] for n in (1061, 127, 61, 31, 7)]
    expected = [axpy(x, y.copy(), y.size, factor[()]) for x, y in vectors]
    for body in (1, 32, 16, 64, 8, 4, 128, 0):
        for (x, given), y in zip(vectors, expected, strict=True):
            rounded, found = y.size // body * body if body else 0, given.copy()
            fields = size, y.size, rounded, *map(address_of, (one, found, factor, x))
            program = np.array([_row(Kind.MOMENTS, *fields)], np.int64)
            carry_out(program)
            if found.tobytes() != y.tobytes():
                break
        else:
            return body
    return None
