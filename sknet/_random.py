"""Random states, as scikit-learn reads them."""

from numbers import Integral
from typing import Any

import numpy as np

__all__ = ["check_random_state"]


def check_random_state(seed: Any) -> np.random.RandomState:
    """Return what draws random numbers.

    Parameters
    ----------
    seed : int, RandomState or None
        A seed, what draws them already, or None for what `numpy.random` draws with.

    Returns
    -------
    RandomState
        A new one for a seed.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    if seed is None or seed is np.random:
        return np.random.mtrand._rand
    if isinstance(seed, Integral):
        return np.random.RandomState(int(seed))
    if isinstance(seed, np.random.RandomState):
        return seed
    raise ValueError(f"{seed!r} cannot be used to seed a numpy.random.RandomState: give an int, one, or None")
