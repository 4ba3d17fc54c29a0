"""Which rows of which partition are in which batch: the same whatever the workers are."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Order", "batch_rows", "held_out_rows", "order_of"]

BEFORE = 0  # the place of epochs, which count from 1, in the seed of held-out rows

Rows = np.ndarray[Any, np.dtype[np.int64]]


class Order:
    """The order of one partition's rows in an epoch, and where it is cut."""

    def __init__(self, rows: Rows, cuts: Rows) -> None:
        self.rows, self.cuts = rows, cuts

    def of_batch(self, number: int) -> Rows:
        """Return the rows that a batch takes from this partition."""
        return self.rows[self.cuts[number] : self.cuts[number + 1]]


def order_of(n_rows: int, n_batches: int, *, seed: int, epoch: int, partition: int, shuffle: bool) -> Order:
    """Return the order of a partition's rows in an epoch."""
    draws = np.random.default_rng([seed, epoch, partition])
    # Without an offset of its own, many small partitions would all skip the same batches.
    offset = draws.random()
    cuts = np.floor(np.arange(n_batches + 1) * (n_rows / n_batches) + offset).astype(np.int64)
    cuts[-1] = n_rows
    return Order(draws.permutation(n_rows) if shuffle else np.arange(n_rows), np.minimum(cuts, n_rows))


def held_out_rows(n_rows: int, fraction: float, *, seed: int, partition: int) -> Rows:
    """Return the rows of a partition that are held out of the training."""
    draws = np.random.default_rng([seed, BEFORE, partition])
    # Rounded up or down at random, so that small partitions give their share on average.
    count = math.floor(n_rows * fraction + draws.random())
    return np.sort(draws.permutation(n_rows)[:count])


def batch_rows(
    sizes: Sequence[int], batch_size: int, *, seed: int, epoch: int, shuffle: bool = True
) -> list[Rows]:
    """Return the rows of every batch of an epoch of a fit over workers, as places in the joined partitions.

    Each batch takes from each partition the share of its rows that is due by then, in an order that only
    `seed`, `epoch` and the partition decide. So batches do not depend on who has which partition, and
    a local model that is trained on these rows, one batch after the other, gets the same parameters up to
    rounding.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each partition that has any.
    batch_size : int
        Rows of a batch, about; an epoch has ``ceil(sum(sizes) / batch_size)`` batches of nearly one size.
    seed : int
        Of the fit: what ``model_.random_state`` draws by ``randint(2**31)`` once the weights are drawn.
    epoch : int
        From 1.
    shuffle : bool, default=True
        As the estimators' parameter.

    Returns
    -------
    list of ndarray of int
        Row numbers, for each batch.

    Examples
    --------
    >>> from sknet.dask import batch_rows
    >>> batch_rows([4, 2], 3, seed=0, epoch=1, shuffle=False)
    [array([0, 1, 4]), array([2, 3, 5])]
    """
    n_batches = -(-sum(sizes) // batch_size)
    starts = np.cumsum([0, *sizes])
    orders = [
        order_of(size, n_batches, seed=seed, epoch=epoch, partition=number, shuffle=shuffle)
        for number, size in enumerate(sizes)
    ]
    return [
        np.concatenate([start + order.of_batch(k) for start, order in zip(starts[:-1], orders, strict=True)])
        for k in range(n_batches)
    ]
