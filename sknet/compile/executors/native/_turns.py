"""Runs that take turns in one call of native code: those of full batches and of a shorter last one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sknet._native import needed
from sknet.compile.executors.native._addresses import place_of
from sknet.compile.executors.native._run import Memory, NativeRun

__all__ = ["Turns", "run_turns"]


class Turns(NamedTuple):
    """The turns of a run: each is some of its steps, before those of the next run."""

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
    """Train on some batches, one after the other, in one call."""
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
