"""The rows of a recurrent network in shares, which several threads take one after the other.

Rows are independent, so a share goes through all its steps alone, forward or back: the products with the
input weights, and those of the steps. What lies between products is shared as well, and no thread waits for
another before the end. How rows are divided depends on sizes alone.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from sknet.device import Namespace
from sknet.ops._recurrent_cells import CELLS, tape_shapes
from sknet.ops._recurrent_steps import Weights, back, run
from sknet.ops._shares import Shares
from sknet.ops._windows import shaped

__all__ = ["Arrays", "Divided", "Shape", "rooms_of"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

GRAIN = 1 << 25  # multiplications that are worth a share
FEWEST = 32, 16  # rows of a share, since weights are copied, or read, in every step
MOST = 32  # rows at a time, if weights are read
WEIGHTS = 1 << 20  # bytes of recurrent weights that stay in a core's cache
SLAB = 256  # bytes of a row of weights that are multiplied at a time


class Divided(NamedTuple):
    """A recurrent network whose rows are divided."""

    cell: str
    rows: int
    steps: int
    features: int
    size: int
    slabs: tuple[int, int]
    shares: Shares

    @classmethod
    def of(cls, xp: Namespace, x: Any, w: Any, lengths: Any, cell: str) -> "Divided":
        """Divide the rows where native code makes all steps: between calls, Python lets one thread run."""
        (rows, steps, features), (size, columns), itemsize = x.shape, w.shape, w.dtype.itemsize
        n_bytes, slab = steps * columns * itemsize, SLAB // itemsize
        at_once = CELLS[cell].whole is not None and not getattr(lengths, "shape", ()) and w.dtype.char in "fd"
        wanted, most, slabs = 1, rows, (1, 1)
        if xp.may_be_native() and at_once and columns * size * itemsize <= WEIGHTS:
            fits = columns % slab == 0 and MOST * size * slab <= xp.small_products()
            wanted = min(rows // FEWEST[fits], rows * steps * (features + size) * columns // GRAIN)
            if wanted > 1 and fits:
                most = MOST
                fits = size % slab == 0 and MOST * columns * (slab // 2) <= xp.small_products()
                slabs = columns // slab, 2 * size // slab if fits else 1
        shares = Shares.of(rows, n_bytes, most * max(n_bytes, 1), wanted)
        return cls(cell, rows, steps, features, size, slabs, shares)

    @property
    def columns(self) -> int:
        """Of the weights."""
        return CELLS[self.cell].gates * self.size

    @property
    def differ(self) -> bool:
        """Tell whether the gradients of the two products differ; for most cells they are the same."""
        return CELLS[self.cell].biases > CELLS[self.cell].gates

    # -- forward ------------------------------------------------------------------------------

    def scratch(self, dtype: Any, kept: bool = False) -> Arrays:
        """Shape and dtype of the temporary arrays: the inputs' product, gates, states, and a product."""
        return self._arrays(self._rooms(self.shares.part, kept), dtype)

    def _rooms(self, n: int, kept: bool) -> list[Shape]:
        """Return the shapes of these for so many rows; of what a tape keeps, there is nothing."""
        kind, size, columns, alone = CELLS[self.cell], self.size, self.columns, int(not kept)
        states = (2 * alone * (kind.states - 1), n, size), (2, n, size)
        return [(n, self.steps, columns), (alone, n, kind.saved * size), *states, (n, columns)]

    @property
    def tape(self) -> list[Shape]:
        """Shapes of outputs, with a step more for the last cell state, and of gates and cell states."""
        return tape_shapes(self.cell, self.rows, self.steps, self.size)

    def forward(
        self, xp: Namespace, x: Any, w_ih: Any, w: Any, more: Any, reverse: bool, kept: Any, scratch: Any
    ) -> None:
        """Write the outputs, or the arrays of a tape; `more` are bias, first state and lengths."""
        (b, state, lengths), (outputs, *tape) = more, kept
        weights = Weights(_cut(xp, w, self.slabs[0]), self.shares.part)

        def compute(rows: slice, rooms: Any) -> None:
            n, columns = rows.stop - rows.start, self.columns
            z, *states, hidden, product = map(shaped, rooms, self._rooms(n, bool(tape)))
            if tape:
                states = [array[:, rows] for array in tape]
            for part in self._parts(rows):
                place = z[part.start - rows.start : part.stop - rows.start]
                xp.matmul(_flat(x[part]), w_ih, out=place.reshape(len(place) * self.steps, columns))
            given = z, weights, b, state[:, rows], _of_rows(lengths, rows)
            run(xp, self.cell, *given, reverse, (outputs[rows], *states, hidden, product))

        self._in_shares(xp, w.dtype, compute, scratch, lambda n: self._rooms(n, bool(tape)))

    # -- back ---------------------------------------------------------------------------------

    def scratch_of_gradient(self, dtype: Any) -> Arrays:
        """Shape and dtype of those of `backward`, see `back`."""
        return self._arrays(self._rooms_of_gradient(self.shares.part), dtype)

    def _rooms_of_gradient(self, n: int) -> list[Shape]:
        size, columns, differ = self.size, self.columns, int(self.differ)
        gates = (n, self.steps, columns), (n, differ * self.steps, columns)
        totals = (n, columns), (differ * n, columns)
        return [*gates, (n, self.steps, size), *totals, *totals, (n, size), (n, size)]

    def backward(
        self, xp: Namespace, g: Any, x: Any, w_ih: Any, w: Any, more: Any, reverse: bool, kept: Any,
        results: Any, scratch: Any,
    ) -> None:  # fmt: skip
        """Write the gradients of inputs (if there is an array for them), weights, bias and first state."""
        (b, state, lengths), (dx, dw_ih, dw, db, slopes) = more, results
        columns, (outputs, *tape) = self.columns, kept
        # Native code reads contiguous weights.
        turned = w.T.copy() if self.slabs[1] == 1 < self.shares.n_shares else w.T
        weights = Weights(_cut(xp, turned, self.slabs[1]), self.shares.part)
        found: dict[int, list[Any]] = {}  # by share

        def compute(rows: slice, rooms: Any) -> None:
            dz, dr, hidden, *others = map(shaped, rooms, self._rooms_of_gradient(rows.stop - rows.start))
            dr = dr if self.differ else dz
            _fill_before(hidden, outputs[rows, : self.steps], state[0][rows], reverse)
            given = g[rows], weights, _of_rows(lengths, rows), reverse, slopes[:, rows]
            parts = outputs[rows], *[array[:, rows] for array in tape]
            of_z, of_product = back(xp, self.cell, *given, parts, (dz, dr, hidden, *others))
            for part in self._parts(rows):
                at = slice(part.start - rows.start, part.stop - rows.start)
                flat = _flat(dz[at])
                if dx is not None:
                    xp.matmul(flat, w_ih.T, out=_flat(dx[part]))
                sums = [
                    xp.matmul(_flat(x[part]).T, flat),
                    xp.matmul(_flat(hidden[at]).T, _flat(dr[at])),
                    of_z[at].sum(axis=0),
                ]
                if self.differ:
                    sums.append(of_product[at, 2 * columns - b.shape[0] :].sum(axis=0))
                _add(found, self._share_of(part), sums)

        self._in_shares(xp, w.dtype, compute, scratch, self._rooms_of_gradient)
        for share in range(1, len(found)):
            _add(found, 0, found[share])
        first = found[0]
        dw_ih[...], dw[...], db[:columns] = first[:3]
        if self.differ:
            db[columns:] = first[3]

    # -- shares -------------------------------------------------------------------------------

    def _arrays(self, rooms: list[Shape], dtype: Any) -> Arrays:
        return [((self.shares.n_rooms, math.prod(shape)), dtype) for shape in rooms]

    def _parts(self, rows: slice) -> list[slice]:
        """Return the rows that are multiplied at a time; one part of no rows."""
        starts = range(rows.start, max(rows.stop, rows.start + 1), self.shares.part)
        return [slice(start, min(start + self.shares.part, rows.stop)) for start in starts]

    def _share_of(self, part: slice) -> int:
        shares = range(self.shares.n_shares)
        return next(i for i in reversed(shares) if part.start >= self.shares.samples(i).start)

    def _in_shares(
        self, xp: Namespace, dtype: Any, compute: Callable[[slice, Any], None], scratch: Any,
        rooms: Callable[[int], list[Shape]],
    ) -> None:  # fmt: skip
        """Compute all rows: part by part in threads, or at once if Python makes the steps."""
        every = slice(0, self.rows)
        native = xp.native_passes()
        if self.shares.n_shares == 1:
            compute(every, self.shares.rooms(scratch)[0])
        elif native is None or not native.has_steps(dtype):
            large = [xp.empty(math.prod(shape), dtype=dtype) for shape in rooms(self.rows)]
            xp.in_threads(lambda _, room: compute(every, room), 1, [large])
        else:

            def work(share: int, room: Any) -> None:
                for rows in self.shares.parts(share):
                    compute(rows, room)

            xp.in_threads(work, self.shares.n_shares, self.shares.rooms(scratch))


def _add(sums: dict[int, list[Any]], place: int, more: list[Any]) -> None:
    if place not in sums:
        sums[place] = more
    else:
        for total, each in zip(sums[place], more, strict=True):
            total += each


def _flat(x: Any) -> Any:
    """Return sequences as a matrix."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def rooms_of(xp: Namespace, given: Any, arrays: Arrays) -> Any:
    """Return temporary arrays: those that are given, unless they are for the shares of another device."""
    if given is not None and all(x.shape == shape for x, (shape, _) in zip(given, arrays, strict=True)):
        return given
    return [xp.empty(shape, dtype=dtype) for shape, dtype in arrays]


def _of_rows(lengths: Any, rows: slice) -> Any:
    return lengths[rows] if getattr(lengths, "shape", ()) else lengths


def _cut(xp: Namespace, w: Any, count: int) -> Any:
    """Return a matrix, or slabs of its columns, each contiguous."""
    if count == 1:
        return w
    slabs = xp.empty((count, w.shape[0], w.shape[1] // count), dtype=w.dtype)
    slabs[...] = w.reshape(w.shape[0], count, -1).transpose(1, 0, 2)
    return slabs


def _fill_before(hidden: Any, outputs: Any, first: Any, reverse: bool) -> None:
    """Write the hidden state before every step, from those after."""
    if reverse:
        hidden[:, :-1], hidden[:, -1] = outputs[:, 1:], first
    else:
        hidden[:, 1:], hidden[:, 0] = outputs[:, :-1], first
