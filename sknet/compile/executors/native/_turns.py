"""Runs that take turns in one call of native code: those of full batches and of a shorter last one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sknet._native import needed
from sknet.compile.executors.native._addresses import place_of
from sknet.compile.executors.native._run import Memory, NativeRun

__all__ = ["Turns", "run_turns"]


class Turns(NamedTuple):
    """The turns of a run: each is some of its steps, before those of the next run.

    Attributes
    ----------
    run : NativeRun
        The run.
    firsts, starts : ndarray of shape (n_turns,), dtype=int64
        The first step of each turn among those of the call, and the position of its first row in the orders.
    steps : int
        Steps of each turn.
    """

    run: NativeRun
    firsts: np.ndarray
    starts: np.ndarray
    steps: int


def run_turns(
    runs: Sequence[Turns],
    orders: tuple[np.ndarray, np.ndarray],
    hyper: np.ndarray,
    counter: int,
    outputs: np.ndarray | None = None,
) -> np.ndarray:
    """Train on some batches, one after the other, in one call.

    Parameters
    ----------
    runs : sequence of Turns
        The first turn of each run, in this order, then the second of each, and so on; all have as many.
    orders : tuple of two ndarray of int64
        The order of the rows of X, and of those of y and weight; C-contiguous.
    hyper : ndarray of shape (n_steps, n_numbers), dtype=float64
        The update's numbers, for each step.
    counter : int
        Number of steps before the first of these.
    outputs : ndarray of shape (n_rows, ...), default=None
        Overwritten with the raw outputs of all rows, before the updates; None to skip them.

    Returns
    -------
    ndarray of shape (n_done, 2)
        Loss and penalty of the steps done: all, or those before the first that NumPy has to repeat.
    """
    losses, numbers = runs[0].run.tables(len(hyper))
    numbers[...] = hyper
    memory = Memory(orders, numbers, losses, outputs)
    tables, programs = zip(*[each.run.turns(*each[1:], memory, counter) for each in runs], strict=True)
    table = np.stack(tables, axis=1).reshape(-1, tables[0].shape[1])
    done = needed().steps(place_of(table), len(table))
    del programs  # which the table points to
    for each in runs:
        each.run.check()
    return losses[:done]
