"""The steps of a recurrent network forward, on arrays of any namespace."""

from typing import Any

import numpy as np

from sknet.device import Namespace
from sknet.ops._recurrent_cells import CELLS

__all__ = ["order", "padding_of", "run"]


def order(steps: int, reverse: bool) -> range:
    """Return the numbers of the steps, one after the other."""
    return range(steps - 1, -1, -1) if reverse else range(steps)


def padding_of(xp: Namespace, lengths: Any, steps: int) -> Any:
    """Return for every step a column that is true where a row has ended; None if no row ends early."""
    if not getattr(lengths, "ndim", 0):
        return None
    return xp.arange(steps).reshape(steps, 1, 1) >= lengths.reshape(1, -1, 1)


def run(
    xp: Namespace, cell: str, z: Any, w: Any, b: Any, state: Any, lengths: Any, reverse: bool,
    memory: tuple[Any, ...],
) -> None:  # fmt: skip
    """Run a cell over sequences.

    Parameters
    ----------
    xp : Namespace
        The arrays' functions.
    cell : str
        One of `CELLS`.
    z : array of shape (n, steps, columns)
        The product of the inputs with their weights.
    w : array of shape (size, columns) or (slabs, size, columns / slabs)
        From hidden state to hidden state, as a whole or cut into columns, which are multiplied one after the
        other.
    b : array of shape (biases,)
        The bias.
    state : array of shape (states, n, size)
        Before the first step.
    lengths : int or array of shape (n,)
        How many steps of each row are valid.
    reverse : bool
        Whether the last step is the first.
    memory : tuple of array
        Outputs, of shape (n, steps, size), with a step more for the last cell state if there is one; gates,
        of shape (1 or steps, n, saved); cell states, of shape (2 or steps + 1, n, size) or none; and room
        for two hidden states and for a product. All are overwritten.
    """
    kind, steps = CELLS[cell], z.shape[1]
    outputs, saved, cells, hidden, product = memory
    padding = padding_of(xp, lengths, steps)
    before, after = [state[0]], [hidden[0]]
    if kind.states > 1:
        cells[0] = state[1]
    at_once = outputs[:, :steps], saved, cells, hidden, product
    if padding is None and kind.whole is not None and kind.whole(xp, z, w, b, state[0], reverse, at_once):
        outputs[:, steps:] = cells[steps % len(cells), :, np.newaxis]
        return
    target = product if w.ndim == 2 else product.reshape(len(product), len(w), -1).transpose(1, 0, 2)
    for i, k in enumerate(order(steps, reverse)):
        after = [hidden[i % 2]]
        if kind.states > 1:
            before.append(cells[i % cells.shape[0]])
            after.append(cells[(i + 1) % cells.shape[0]])
        xp.matmul(before[0], w, out=target)
        kind.forward(xp, z[:, k], product, b, saved[i % saved.shape[0]], before, after)
        if padding is not None:
            for new, old in zip(after, before, strict=True):
                xp.copyto(new, old, where=padding[k])
        outputs[:, k] = after[0]
        before = after[:1]
    if kind.states > 1:
        outputs[:, steps] = after[1]
