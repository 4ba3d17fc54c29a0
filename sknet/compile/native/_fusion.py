"""Fuse instructions: ReLU, updates, and chains of neighbours whose arrays stay in the nearest cache."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from sknet._native import needed
from sknet.compile.native._instructions import MEANING, OPERANDS, WIDTH, Kind, Meaning, address_of

Row = list[int]
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
    if len(chain) > 1 or (length > ALONE and chain[0][0] in LENGTHS):
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
    rule = RULES.get(row[0])
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


RULES: dict[int, Callable[[Row], Found]] = {
    Kind.LOOP: _uses_of_loop,
    Kind.BLAS: lambda row: _uses_of_level_1(row[2:8], row[8], row[9]),
    Kind.ADD_MULTIPLE: lambda row: _uses_of_level_1(row[3:9], row[9], row[1]),
    Kind.MASK: _uses_of_mask,
    Kind.MASK_POSITIVE: _uses_of_mask_positive,
    Kind.MOMENTS: _uses_of_moments,
    Kind.SQUARES: _uses_of_squares,
    Kind.QUOTIENTS: _uses_of_quotients,
}


def joined(rows: Iterable[Row]) -> list[Row]:
    """Return instructions with the same results, some of them fused."""
    return list(chained(_without_parts(list(_updates(list(_joined(rows)))))))


def _joined(rows: Iterable[Row]) -> Iterator[Row]:
    before: Row | None = None
    for row in rows:
        found = None
        if before is not None:
            found = _add_row_relu(before, row) or _mask_positive(before, row) or _continued(before, row)
        if found is None and before is not None:
            yield before
        before = row if found is None else found
    if before is not None:
        yield before


LENGTHS = {Kind.BLAS: 8, Kind.ADD_MULTIPLE: 9}  # where functions of vectors have their length


def _continued(first: Row, second: Row) -> Row | None:
    """Return one instruction for a function of vectors and of those behind them in memory, likewise."""
    at = LENGTHS.get(first[0], 0)
    if not at or second[0] != first[0] or first[at] % ALONE:
        return None
    size = first[9] if first[0] == Kind.BLAS else first[1]
    following = list(first)  # before the length there are: its address, the factor, x, a step, y, a step
    for place in (at - 4, at - 2):
        following[place] += first[at] * size if first[place] else 0
    following[at - 6], following[at] = second[at - 6], second[at]
    both = [*first[:at], first[at] + second[at], *first[at + 1 :]]
    return both if following == second and uses_of(both)[0] else None


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


class Fields(NamedTuple):
    """Fields of an instruction that differ from part to part, and its result that every part overwrites."""

    counts: tuple[int, ...]
    addresses: tuple[int, ...]
    overwritten: int = 0
    row: int = 0  # the length of the rows that are counted


FIELDS = {
    Kind.MOMENTS: Fields((2, 3), (5, 7)),
    Kind.SQUARES: Fields((2, 3), (4, 7), 5),
    Kind.QUOTIENTS: Fields((2, 3), (4, 6, 9, 11), 7),
    Kind.MASK_POSITIVE: Fields((6,), (2, 3, 5), 4),
    Kind.ADD_ROW_RELU: Fields((5,), (2, 4), 7, 6),
}


def _without_parts(rows: list[Row]) -> Iterator[Row]:
    """Yield instructions, each of which goes over whole arrays where several went over their parts."""
    i = 0
    while i < len(rows):
        whole: list[Row] = []
        for n in range(1, MOST_TOGETHER + 1):
            if len(rows) < i + 2 * n or rows[i + n - 1][0] not in FIELDS:
                break
            end = i + n
            while _are_behind(rows[end - n : end], rows[end : end + n]):
                end += n
            if end > i + n:
                whole = _whole([rows[first:end:n] for first in range(i, i + n)])
                break
        yield from whole or [rows[i]]
        i = end if whole else i + 1


def _are_behind(before: list[Row], after: list[Row]) -> bool:
    """Tell whether instructions do to the elements behind others what those do."""
    return len(before) == len(after) and all(map(_is_behind, before, after))


def _is_behind(before: Row, after: Row) -> bool:
    fields = FIELDS.get(before[0])
    if fields is None or len({before[each] for each in fields.counts}) > 1:
        return False
    following = list(before)
    for each in fields.addresses:
        following[each] += _length(before) * before[1] if before[each] else 0
    for each in fields.counts:
        following[each] = after[each]
    return following == after


def _length(row: Row) -> int:
    """Return the number of elements of an instruction that parts may have."""
    fields = FIELDS[row[0]]
    return row[fields.counts[0]] * (row[fields.row] if fields.row else 1)


def _whole(parts: list[list[Row]]) -> list[Row]:
    """Return instructions for whole arrays, given those of all parts; none if they would not be the same.

    What every part overwrites, nothing reads after them: it is not written any more.
    """
    found, overwritten = [], []
    for rows in parts:
        fields, row = FIELDS[rows[0][0]], list(rows[0])
        for each in fields.counts:
            row[each] = sum(part[each] for part in rows)
        if fields.overwritten and (start := row[fields.overwritten]):
            overwritten.append((start, start + max(map(_length, rows)) * row[1]))
            row[fields.overwritten] = 0
        found.append(row)
    of_each = [_uses_of_relu(row) if row[0] == Kind.ADD_ROW_RELU else uses_of(row)[1] for row in found]
    uses = [use for each in of_each for use in each]
    is_read = any(x < end and start < x_end for x, _, x_end, _ in uses for start, end in overwritten)
    is_known = all(of_each)  # an instruction whose own arrays overlap tells no uses
    same = is_known and len(set(map(_length, found))) == 1 and not is_read and are_apart(uses, uses)
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
    for count, rule in RULES_OF_UPDATES:
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
    if not (_is(square, Meaning.SQUARE) and _is_scal(scal) and _is_axpy(axpy, scal[4])):
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
    if not (_is(root, Meaning.ROOT) and _is(quotient, Meaning.QUOTIENT) and quotient[4] == quotient[5] == q):
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


RULES_OF_UPDATES = ((2, _moments), (3, _squares), *[(count, _quotients) for count in (6, 5, 4, 3)])


@cache
def zeroes_by_product(size: int) -> bool:
    """Tell whether this BLAS multiplies a vector by 0, which leaves NaN, instead of filling it with 0."""
    from scipy.linalg import blas

    x = np.array([np.nan, -1.0], f"f{size}")
    found = blas.get_blas_funcs("scal", dtype=x.dtype)(0.0, x)
    return bool(np.isnan(found[0]) and np.signbit(found[1]))


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
    for body in (32, 16, 64, 8, 4, 128, 1, 0):
        for (x, given), y in zip(vectors, expected, strict=True):
            rounded, found = y.size // body * body if body else 0, given.copy()
            fields = size, y.size, rounded, *map(address_of, (one, found, factor, x))
            program = np.array([_row(Kind.MOMENTS, *fields)], np.int64)
            turn = np.array([address_of(program), 1, 1, 0, 0, 0], np.int64)
            needed().steps(address_of(turn), 1)
            if found.tobytes() != y.tobytes():
                break
        else:
            return body
    return None


def _row(kind: int, *fields: int) -> Row:
    return [kind, *fields, *[0] * (WIDTH - 1 - len(fields))]
