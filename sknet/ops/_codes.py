"""Products of encoded rows that are given by codes: a bin and a value for each block of columns.

In the columns of a block all elements of a row but one are known from the bin, so that a product needs only
sums of weights, and its gradient sums over the rows of each bin.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core import _primitive as kinds
from sknet.device import Namespace
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._rules import check_floating

Blocks = tuple[tuple[int, int], ...]
"""For each block how many columns it has, and 1 if they are steps: 1/2 before the bin and -1/2 behind it."""


AT_ONCE = 2**16  # elements that are computed together on the host


@lru_cache(maxsize=32)
def _columns(blocks: Blocks, dtype: str) -> tuple[Any, ...]:
    """Return the widths of blocks, and of each column its block, its place there and its step."""
    counts, is_steps = (np.array(each, np.int64) for each in zip(*blocks, strict=True))
    owner = np.repeat(np.arange(len(counts)), counts)
    place = (np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)).astype(dtype)
    return counts, owner, place, (0.5 * is_steps[owner]).astype(dtype)


def decoded(codes: Any, blocks: Blocks, xp: Any = np) -> Any:
    """Return the rows that codes stand for, of shape (n_rows, n_columns)."""
    counts, *columns = _columns(blocks, codes.dtype.name)
    owner, place, half = (xp.asarray(each) for each in columns)
    bins = codes[:, ::2]
    known = isinstance(bins, np.ndarray)  # a device would be waited for
    if known and not ((bins >= 0) & (bins < counts) & (bins == np.floor(bins))).all():
        raise IndexError(f"bins of encoded rows must be integers from 0 to {(counts - 1).tolist()}")

    def rows(part: Any) -> Any:
        bins = part[:, ::2][:, owner]
        return xp.where(place == bins, part[:, 1::2][:, owner], xp.where(place < bins, half, -half))

    if not known:
        return rows(codes)
    found, size = np.empty((len(codes), len(owner)), codes.dtype), max(1, AT_ONCE // len(owner))
    for start in range(0, len(codes), size):
        found[start : start + size] = rows(codes[start : start + size])
    return found


def codes_of(rows: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Return the codes of encoded rows, of shape (n_rows, 2 * n_blocks)."""
    found = np.zeros((len(rows), len(blocks), 2), rows.dtype)
    numbers, start = np.arange(len(rows)), 0
    for k, (count, is_steps) in enumerate(blocks):
        part = rows[:, start : start + count]
        start += count
        if count > 1:
            bins = np.maximum((part > -0.5).sum(axis=1) - 1, 0) if is_steps else (part != 0).argmax(axis=1)
            found[:, k, 0], part = bins, part[numbers, bins, np.newaxis]
        found[:, k, 1] = part[:, 0]
    return found.reshape(len(rows), -1)


def pairs_of(weights: np.ndarray, blocks: Blocks) -> np.ndarray:
    """Return `weights` for `paired_matmul`, with two rows for each one of steps.

    They are the sum around it, half of the rows before minus half of those behind, and itself.
    """
    found, start = [], 0
    for count, is_steps in blocks:
        own = weights[start : start + count]
        if count > 1 and is_steps:  # added up in the order, and so with the bits, of `coded_matmul`
            halves = own * own.dtype.type(0.5)
            rows = [-np.add.accumulate(halves, axis=0)[-1:], own[:-1]]
            around = np.add.accumulate(np.concatenate(rows), axis=0) + halves
            own = np.stack([around, own], axis=1).reshape(-1, own.shape[1])
        found.append(own)
        start += count
    return np.concatenate(found)


def _row_counts(blocks: Blocks) -> np.ndarray:
    """Return how many rows `pairs_of` has for each block."""
    return np.array([2 * count if count > 1 and is_steps else count for count, is_steps in blocks])


def coded_forward(
    xp: Namespace, codes: Any, y: Any, *, blocks: Blocks, transposed: bool, out: Any = None
) -> Any:
    rows = decoded(codes, blocks, xp)
    return xp.matmul(rows.T if transposed else rows, y, out=out)


def paired_forward(xp: Namespace, codes: Any, y: Any, *, blocks: Blocks, out: Any = None) -> Any:
    counts, *_ = _columns(blocks, codes.dtype.name)
    bins = codes[:, ::2].astype("int64")
    if isinstance(bins, np.ndarray) and not ((bins >= 0) & (bins < counts) & (bins == codes[:, ::2])).all():
        raise IndexError(f"bins of encoded rows must be integers from 0 to {(counts - 1).tolist()}")
    steps = (_row_counts(blocks) > counts).astype("int64")
    first = np.cumsum(_row_counts(blocks)) - _row_counts(blocks)
    own = bins * xp.asarray(1 + steps) + xp.asarray(first + steps)
    around = xp.where(xp.asarray(steps[:, np.newaxis] > 0), y[own - xp.asarray(steps)], 0)
    found = xp.sum(around + codes[:, 1::2, np.newaxis] * y[own], axis=1)
    if out is None:
        return found
    out[...] = found
    return out


def _shape(
    codes: Any, y: Any, blocks: Blocks, transposed: bool = False, paired: bool = False
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    counts = _row_counts(blocks) if paired else [count for count, _ in blocks]
    n_rows, n_columns = codes.shape[0], int(sum(counts))
    shape = (n_columns, n_rows) if transposed else (n_rows, n_columns)
    if len(codes.shape) != 2 or codes.shape[1] != 2 * len(blocks):
        raise ShapeError(
            f"coded_matmul: codes of {len(blocks)} blocks must have the shape (n_rows, {2 * len(blocks)}), "
            f"got {tuple(codes.shape)}"
        )
    if len(y.shape) != 2 or y.shape[0] != shape[1]:
        raise ShapeError(
            f"coded_matmul: rows of shape {shape} do not fit an operand of shape {tuple(y.shape)}: expected "
            f"({shape[1]}, m)"
        )
    if codes.dtype != y.dtype:
        raise DtypeError(
            f"coded_matmul: codes of {codes.dtype} do not fit an operand of {y.dtype}: both must have the "
            "same dtype"
        )
    return (shape[0], y.shape[1]), y.dtype


_coded = Primitive("coded_matmul").define(
    forward=coded_forward,
    shape=_shape,
    params={"blocks": kinds.PAIRS, "transposed": kinds.FLAG},
    vjp=(None, lambda g, _, codes, y, blocks, transposed: coded_matmul(codes, g, blocks, not transposed)),
)


_paired = Primitive("paired_matmul").define(
    forward=paired_forward, shape=partial(_shape, paired=True), params={"blocks": kinds.PAIRS}, vjp=None
)


def coded_matmul(codes: Any, y: Any, blocks: Sequence[tuple[int, int]], transposed: bool = False) -> Tensor:
    """Return the product of the rows that codes stand for (or their transpose) and a matrix.

    `codes` of shape (n_rows, 2 * n_blocks) have for each block the column of a row's value, counted from 0,
    and the value; they have no gradient. `blocks` tell for each block how many columns it has, and 1 if they
    are steps, whose elements are 1/2 before the column of the value and -1/2 behind it; 0 if these are 0. `y`
    has as many rows as there are columns or, if the codes are `transposed`, rows.

    Raises
    ------
    IndexError
        If a block has no such column.
    DtypeError
        If `y` is not floating.
    """
    pairs = tuple([(int(count), int(is_steps)) for count, is_steps in blocks])
    codes, y = as_tensor(codes), as_tensor(y)
    check_floating("coded_matmul", y)
    return bind(_coded, (codes, y), {"blocks": pairs, "transposed": bool(transposed)})


def paired_matmul(codes: Any, pairs: Any, blocks: Blocks) -> Tensor:
    """Return the product of the rows that codes stand for and weights that are given by `pairs_of` them.

    It has the bits of `coded_matmul` in native code, takes time for one bin of each block instead of all, and
    has no gradient.
    """
    codes, pairs = as_tensor(codes), as_tensor(pairs)
    check_floating("paired_matmul", pairs)
    return bind(_paired, (codes, pairs), {"blocks": blocks})
