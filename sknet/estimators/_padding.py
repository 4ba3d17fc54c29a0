"""Padding of sequences: steps after the length of a row, which count nothing in a loss or a score."""

from typing import Any

import numpy as np

from sknet.estimators._namespace import on_host
from sknet.estimators._reading import Sequences

__all__ = ["lengths_of", "step_weights", "without_padding"]


def lengths_of(X: Any) -> Any:
    """Return the lengths of sequences that are given with X, or None."""
    if isinstance(X, Sequences):
        return np.asarray(on_host(X.lengths))
    return np.asarray(on_host(X["lengths"])) if isinstance(X, dict) and "lengths" in X else None


def step_weights(lengths: Any, n_steps: int, weight: Any, dtype: Any) -> Any:
    """Return a weight for each step: that of its row, or 0 where it is padding."""
    counts = (np.arange(n_steps) < np.asarray(lengths)[:, None]).astype(dtype)
    return counts if weight is None else counts * np.asarray(weight, dtype).reshape(len(counts), -1)


def without_padding(targets: Any, X: Any, y: Any, weight: Any, dtype: Any) -> Any:
    """Return weights with which the padding of sequences counts nothing, where outputs are by step."""
    lengths = lengths_of(X)
    if lengths is None or y.ndim < 2 or not getattr(targets, "have_positions", False):
        return weight
    return step_weights(lengths, y.shape[1], weight, dtype)
