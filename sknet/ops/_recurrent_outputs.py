"""Recurrent networks for which no gradient is needed: sequences in, outputs out, and nothing is kept.

Rows are independent, so they are divided into shares, by sizes alone, and several threads take one share
after the other: the product with the input weights, and then all steps. What lies between the products is
shared as well, and no thread waits for another before the end.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.device import Namespace, backend
from sknet.ops._recurrent_cells import CELLS
from sknet.ops._recurrent_steps import run
from sknet.ops._rules import check_floating
from sknet.ops._shares import Shares
from sknet.ops._windows import shaped

__all__ = ["outputs_alone"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

GRAIN = 1 << 25  # multiplications that are worth a share
FEWEST = 32, 16  # rows of a share, since weights are copied, or read, in every step
MOST = 32  # rows at a time, if weights are read
WEIGHTS = 1 << 20  # bytes of recurrent weights that stay in a core's cache
SLAB = 256  # bytes of a row of weights that are multiplied at a time


class _Task(NamedTuple):
    """A recurrent network, and how its rows are divided.

    Attributes
    ----------
    cell : str
        One of `CELLS`.
    steps, features, size : int
        Of the inputs, and of the hidden state.
    n_slabs : int
        Into how many parts the columns of the recurrent weights are cut. BLAS copies weights for every
        product, unless that is so small that there is a kernel for small matrices.
    shares : Shares
        Which rows are computed at a time, and by which thread.
    """

    cell: str
    steps: int
    features: int
    size: int
    n_slabs: int
    shares: Shares

    @classmethod
    def of(cls, xp: Namespace, x: Any, w: Any, lengths: Any, cell: str) -> "_Task":
        """Divide the rows where native code makes all steps: between calls, Python lets one thread run."""
        (rows, steps, features), (size, columns), itemsize = x.shape, w.shape, w.dtype.itemsize
        n_bytes, slab = steps * columns * itemsize, SLAB // itemsize
        many = xp.may_be_native() and CELLS[cell].whole is not None and not getattr(lengths, "shape", ())
        wanted, most, n_slabs = 1, rows, 1
        if many and columns * size * itemsize <= WEIGHTS:
            fits = columns % slab == 0 and MOST * size * slab <= xp.small_products()
            wanted = min(rows // FEWEST[fits], rows * steps * (features + size) * columns // GRAIN)
            if wanted > 1 and fits:
                most, n_slabs = MOST, columns // slab
        shares = Shares.of(rows, n_bytes, most * n_bytes, wanted)
        return cls(cell, steps, features, size, n_slabs, shares)

    @property
    def columns(self) -> int:
        """Of the weights."""
        return CELLS[self.cell].gates * self.size

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays: the inputs' product, gates, states, and a product."""
        rooms, lengths = self.shares.n_rooms, [math.prod(shape) for shape in self._rooms(self.shares.part)]
        return [((rooms, length), dtype) for length in lengths]

    def _rooms(self, n: int) -> list[Shape]:
        """Return the shapes of these for so many rows."""
        kind, size, columns = CELLS[self.cell], self.size, self.columns
        states = (2 * (kind.states - 1), n, size), (2, n, size)
        return [(n, self.steps, columns), (1, n, kind.saved * size), *states, (n, columns)]

    def outputs(
        self, xp: Namespace, x: Any, w_ih: Any, w: Any, more: Any, reverse: bool, out: Any, scratch: Any
    ) -> None:
        """Write the outputs; `more` are bias, first state and lengths."""
        b, state, lengths = more
        weights = self._cut(xp, w)

        def compute(share: int, rooms: Any) -> None:
            for rows in self.shares.parts(share):
                n = len(x[rows])
                z, *memory = [shaped(room, shape) for room, shape in zip(rooms, self._rooms(n), strict=True)]
                flat = x[rows].reshape(n * self.steps, self.features)
                xp.matmul(flat, w_ih, out=z.reshape(n * self.steps, self.columns))
                ends = lengths[rows] if getattr(lengths, "shape", ()) else lengths
                given = z, weights, b, state[:, rows], ends
                run(xp, self.cell, *given, reverse, (out[rows], *memory))

        rooms = self.shares.rooms(scratch)
        if self.shares.n_shares == 1:
            compute(0, rooms[0])
        else:
            xp.in_threads(compute, self.shares.n_shares, rooms)

    def _cut(self, xp: Namespace, w: Any) -> Any:
        if self.n_slabs == 1:
            return w
        slabs = xp.empty((self.n_slabs, self.size, self.columns // self.n_slabs), dtype=w.dtype)
        slabs[...] = w.reshape(self.size, self.n_slabs, -1).transpose(1, 0, 2)
        return slabs


def _forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    check_floating("recurrence_outputs", x)
    task = _Task.of(xp, x, w, lengths, cell)
    if scratch is None:
        scratch = [xp.empty(shape, dtype=dtype) for shape, dtype in task.scratch(w.dtype)]
    if out is None:
        out = xp.empty(_shape(x, w_ih, w, b, state, lengths, cell, reverse)[0], dtype=w.dtype)
    task.outputs(xp, x, w_ih, w, (b, state, lengths), reverse, out, scratch)
    return out


def _shape(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    check_floating("recurrence_outputs", x)
    return (x.shape[0], x.shape[1] + CELLS[cell].states - 1, w.shape[0]), w.dtype


def _scratch(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, *, cell: str, reverse: bool
) -> Arrays:
    """Plans for devices have memory of their own for it."""
    return _Task.of(backend("cpu").xp, x, w, lengths, cell).scratch(w.dtype)


_outputs = Primitive("recurrence_outputs").define(forward=_forward, shape=_shape, vjp=None, scratch=_scratch)


def outputs_alone(
    x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one.

    Parameters
    ----------
    x : Tensor of shape (n, steps, features)
        The sequences.
    w_ih : Tensor of shape (features, columns)
        From input to hidden state, of the dtype of the other operands.
    w, b, state, lengths, cell, reverse
        As for `with_tape`.
    """
    return bind(_outputs, (x, w_ih, w, b, state, lengths), {"cell": cell, "reverse": reverse})
