"""Random numbers: a counter-based stream for draws inside a step, the same on every device."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._random import twin_of

__all__ = ["philox_uniform", "stream_key"]

Key = tuple[int, int]


def stream_key(random_state: np.random.RandomState) -> Key:
    """Derive a Philox key from a RandomState without advancing it.

    The state decides initial weights and permutations in scikit-learn's order, so in-step draws
    must not consume from it; a copy is drawn from instead.
    """
    low, high = twin_of(random_state).randint(0, 2**63, size=2, dtype=np.int64)
    return int(low), int(high)


def philox_uniform(
    key: Key,
    step: int,
    site: int,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    out: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Draw uniform numbers in [0, 1) that depend only on the arguments.

    Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) with
    the counter (block, 0, site, step): a resumed or repeated step draws the same numbers.
    """
    bits = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([0, 0, site, step], np.uint64))
    kind: Any = np.dtype(dtype)
    draws: np.ndarray[Any, Any]
    if out is None:
        draws = np.random.Generator(bits).random(math.prod(shape), dtype=kind)
        return draws.reshape(shape)
    np.random.Generator(bits).random(dtype=kind, out=out)
    return out
