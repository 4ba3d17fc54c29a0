"""The steps of a recurrent network, forward and back, on arrays of any namespace."""

from typing import Any, NamedTuple

import numpy as np

from sknet.device import Namespace
from sknet.ops._recurrent_cells import CELLS

__all__ = ["Weights", "back", "order", "run"]


class Weights(NamedTuple):
    """What states are multiplied with."""

    matrix: Any
    part: int

    def multiply(self, xp: Namespace, x: Any, out: Any) -> None:
        """Write the product of contiguous rows with the weights."""
        n = len(x)
        if n <= self.part and self.matrix.ndim == 2:
            xp.matmul(x, self.matrix, out=out)
            return
        w = self.matrix if self.matrix.ndim == 3 else self.matrix[np.newaxis]
        whole = n - n % self.part
        for rows, length in ((slice(whole), self.part), (slice(whole, n), n - whole)):
            given = x[rows]
            if len(given):
                target = out[rows].reshape(-1, length, len(w), w.shape[2]).transpose(0, 2, 1, 3)
                xp.matmul(given.reshape(-1, 1, length, x.shape[1]), w, out=target)


def order(steps: int, reverse: bool) -> range:
    """Return the numbers of the steps, one after the other."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _padding(xp: Namespace, lengths: Any, steps: int) -> Any:
    """Return for every step a column that is true where a row has ended; None if no row ends early."""
    if not getattr(lengths, "ndim", 0):
        return None
    return xp.arange(steps).reshape(steps, 1, 1) >= lengths.reshape(1, -1, 1)


def run(
    xp: Namespace, cell: str, z: Any, w: Any, b: Any, state: Any, lengths: Any, reverse: bool,
    memory: tuple[Any, ...],
) -> None:  # fmt: skip
    """Run a cell over sequences."""
    kind, steps = CELLS[cell], z.shape[1]
    outputs, saved, cells, hidden, product = memory
    padding = _padding(xp, lengths, steps)
    before, after = [state[0]], [hidden[0]]
    if kind.states > 1:
        cells[0] = state[1]
    at_once = outputs[:, :steps], saved, cells, hidden, product
    whole = kind.whole if padding is None and len(z) <= w.part else None
    if whole is not None and whole(xp, z, w.matrix, b, state[0], reverse, at_once):
        outputs[:, steps:] = cells[steps % len(cells), :, np.newaxis]
        return
    for i, k in enumerate(order(steps, reverse)):
        after = [hidden[i % 2]]
        if kind.states > 1:
            before.append(cells[i % cells.shape[0]])
            after.append(cells[(i + 1) % cells.shape[0]])
        w.multiply(xp, before[0], product)
        kind.forward(xp, z[:, k], product, b, saved[i % saved.shape[0]], before, after)
        if padding is not None:
            for new, old in zip(after, before, strict=True):
                xp.copyto(new, old, where=padding[k])
        outputs[:, k] = after[0]
        before = after[:1]
    if kind.states > 1:
        outputs[:, steps] = after[1]


def back(
    xp: Namespace, cell: str, g: Any, w: Any, lengths: Any, reverse: bool, slopes: Any,
    kept: tuple[Any, ...], memory: tuple[Any, ...],
) -> tuple[Any, Any]:  # fmt: skip
    """Go back from the last step to the first."""
    kind, steps = CELLS[cell], memory[0].shape[1]
    outputs, saved, cells = kept
    dz, dr, hidden, d, r, total, total_r, product, room = memory
    differ = dr is not dz
    padding = _padding(xp, lengths, steps)
    total[...], slopes[0] = 0, 0
    if differ:
        total_r[...] = 0
    else:
        r, total_r = d, total
    if kind.states > 1:
        slopes[1] = g[:, steps]
    whole = kind.whole_back if padding is None and len(dz) <= w.part else None
    given = g[:, :steps], w.matrix, reverse, slopes, (saved, cells), (dz, total, d, room)
    if whole is None or not whole(xp, *given):
        of_step = d, r, product, [slopes[i] for i in range(kind.states)]
        for i, k in reversed(list(enumerate(order(steps, reverse)))):
            states = [[hidden[:, k]], [outputs[:, k]]]
            if kind.states > 1:
                states[0].append(cells[i])
                states[1].append(cells[i + 1])
            of_step[-1][0] += g[:, k]
            ended = None if padding is None else padding[k]
            _step_back(xp, cell, w, saved[i], states, slopes, ended, of_step)
            dz[:, k] = d
            total += d
            if differ:
                dr[:, k] = r
                total_r += r
    return total, total_r


def _step_back(
    xp: Namespace, cell: str, w: Any, saved: Any, states: Any, slopes: Any, ended: Any, memory: Any
) -> None:
    """Go back by a step; `ended` tells of which rows it is none."""
    kind, (d, r, product, slope) = CELLS[cell], memory
    passing = None if ended is None else slopes.copy()
    kind.backward(xp, saved, *states, slope, d, r)
    if ended is not None:
        for x in (d, r):
            xp.copyto(x, 0, where=ended)
    w.multiply(xp, r, product)
    if kind.keeps:
        slope[0] += product
    else:
        slope[0][...] = product
    if ended is not None:
        xp.copyto(slopes, passing, where=ended)
