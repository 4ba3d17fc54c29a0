"""Fuses instructions that are faster together: those of a ReLU, forward and backward, and of updates."""

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from sknet._native import needed
from sknet.compile.executors.native._addresses import place_of
from sknet.compile.executors.native._chains import are_apart, chained, uses_of
from sknet.compile.executors.native._instructions import MEANING, OPERANDS, WIDTH, Kind, Meaning

__all__ = ["joined"]

Row = list[int]


def joined(rows: Iterable[Row]) -> list[Row]:
    """Return instructions with the same results, some of them fused."""
    return list(chained(_updates(list(_joined(rows)))))


def _joined(rows: Iterable[Row]) -> Iterator[Row]:
    before: Row | None = None
    for row in rows:
        found = None if before is None else (_add_row_relu(before, row) or _mask_positive(before, row))
        if found is None and before is not None:
            yield before
        before = row if found is None else found
    if before is not None:
        yield before


def _add_row_relu(first: Row, second: Row) -> Row | None:
    """Return one instruction for the addition of a row and the ReLU of the sum, if these two are that."""
    if first[0] != Kind.SPREAD or first[2] != 0 or second[0] != Kind.LOOP or second[MEANING] != Meaning.RELU:
        return None
    size, _, x, row, out, n_rows, n_columns = first[1:8]
    if not second[3] == second[5] == out or second[12] != n_rows * n_columns or not _keeps_no_sign():
        return None
    return _row(Kind.ADD_ROW_RELU, size, x, row, out, n_rows, n_columns)


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


# -- updates ------------------------------------------------------------------------------------


def _updates(rows: list[Row]) -> Iterator[Row]:
    """Yield instructions, of which sequences that updates have are one, with the bits of them all."""
    i = 0
    while i < len(rows):
        count, row = _update(rows[i : i + 4]) if rows[i][0] in (Kind.LOOP, Kind.BLAS) else (1, rows[i])
        yield row
        i += count


def _update(rows: list[Row]) -> tuple[int, Row]:
    """Return how many of these instructions are one that is faster, and that one."""
    for count, rule in ((2, _moments), (3, _squares), (4, _quotients), (3, _quotients)):
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
    """Match q = sqrt(v); q += more; q = m / q; w += factor * q, with the second or without."""
    (root, *sums, quotient, add), more = rows, 0
    q = root[4]
    if not (_is(root, Meaning.ROOT) and _is(quotient, Meaning.QUOTIENT) and add[0] == Kind.ADD_MULTIPLE):
        return None
    size = add[1]
    for each in sums:
        if not (_is(each, Meaning.SUM) and each[3] == each[5] == q and each[16:19] == [size, 0, size]):
            return None
        more = each[4]
    m, v, w = quotient[3], root[3], add[7]
    if not quotient[4] == quotient[5] == add[5] == q or len({m, v, w, q}) < 4 - (m == v):
        return None
    if not (_is_dense(root, size) and _is_dense(quotient, size)):
        return None
    return _row(Kind.QUOTIENTS, size, add[9], 0, v, more, m, q, add[4], w)


def _is(row: Row, meaning: Meaning) -> bool:
    return row[0] == Kind.LOOP and row[MEANING] == meaning


def _is_dense(row: Row, size: int) -> bool:
    """Tell whether the elements of all operands of a loop are next to each other."""
    return all(stride == size for stride in row[16 : 16 + row[OPERANDS]])


def _is_scal(row: Row) -> bool:
    return row[0] == Kind.BLAS and row[6] == 0 and row[10] == 1


def _is_axpy(row: Row, target: int) -> bool:
    return row[0] == Kind.BLAS and row[6] == target and row[10] == 1


@cache
def contracted_body(size: int) -> int | None:
    """Return a number of elements of which this BLAS rounds x + a * y once, and what is left over twice."""
    from scipy.linalg import blas  # which predictions do without

    dtype = np.dtype(f"f{size}")
    axpy = blas.get_blas_funcs("axpy", dtype=dtype)
    one, factor = np.array(1, dtype), np.array(0.7, dtype)
    numbers = np.random.default_rng(0).standard_normal((2, 1061)).astype(dtype)
    vectors = [numbers[:, :n] for n in (1061, 127, 61, 31, 7)]
    expected = [axpy(x, y.copy(), y.size, factor[()]) for x, y in vectors]
    for body in (32, 16, 64, 8, 4, 128, 1, 0):
        for (x, given), y in zip(vectors, expected, strict=True):
            rounded, found = y.size // body * body if body else 0, given.copy()
            fields = size, y.size, rounded, *map(place_of, (one, found, factor, x))
            program = np.array([_row(Kind.MOMENTS, *fields)], np.int64)
            turn = np.array([place_of(program), 1, 1, 0], np.int64)
            needed().steps(place_of(turn), 1)
            if found.tobytes() != y.tobytes():
                break
        else:
            return body
    return None


def _row(kind: Kind, *fields: int) -> Row:
    return [int(kind), *fields, *[0] * (WIDTH - 1 - len(fields))]
