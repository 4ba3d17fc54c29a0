"""Fuses instructions that are faster together: those of a ReLU, forward and backward."""

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np

from sknet.compile.executors.native._instructions import MEANING, WIDTH, Kind, Meaning

__all__ = ["joined"]

Row = list[int]


def joined(rows: Iterable[Row]) -> list[Row]:
    """Return instructions with the same results, some of them fused.

    Parameters
    ----------
    rows : iterable of list of int
        Instructions in order.

    Returns
    -------
    list of list of int
        In order.
    """
    return list(_joined(rows))


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


def _row(kind: Kind, *fields: int) -> Row:
    return [int(kind), *fields, *[0] * (WIDTH - 1 - len(fields))]
