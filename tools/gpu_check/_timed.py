"""Time of training steps in whole fits: what more epochs take, per step."""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet.device import Device

__all__ = ["epochs_of", "per_call", "per_step", "quiet"]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warning of a fit that reaches the limit of epochs, as all of these do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def epochs_of(
    kind: Callable[..., Any],
    hidden: Sequence[int],
    batch: int,
    epochs: int,
    device: Device,
    dtype: str = "float32",
) -> Any:
    """Return an estimator that trains for exactly so many epochs."""
    return kind(
        hidden_layer_sizes=tuple(hidden),
        batch_size=batch,
        max_iter=epochs,
        n_iter_no_change=np.inf,
        dtype=dtype,
        device=str(device),
        random_state=0,
    )


def per_step(fit: Callable[[int], int], few: int, many: int, rounds: int) -> float:
    """Return the seconds of a step: the median difference of a long and a short fit."""
    seconds = []
    with quiet():
        fit(few)
        for _ in range(rounds):
            started = time.perf_counter()
            short = fit(few)
            between = time.perf_counter()
            long = fit(many)
            ended = time.perf_counter()
            seconds.append(((ended - between) - (between - started)) / (long - short))
    return statistics.median(seconds)


def per_call(function: Callable[[], Any], wait: Callable[[], Any], calls: int, rounds: int = 5) -> float:
    """Return the seconds of a call, in the fastest of some rounds; a first call does not count."""
    function()
    best = np.inf
    for _ in range(rounds):
        wait()
        started = time.perf_counter()
        for _ in range(calls):
            function()
        wait()
        best = min(best, (time.perf_counter() - started) / calls)
    return best
