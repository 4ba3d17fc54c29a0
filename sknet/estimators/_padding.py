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
    """Return a weight for each step: that of its row, or 0 where it is padding.

    Parameters
    ----------
    lengths : array of int of shape (n_samples,)
        Steps that count.
    n_steps : int
        Of all sequences, padding included.
    weight : array of shape (n_samples,) or (n_samples, n_steps), or None
        Weights of rows or of steps.
    dtype : dtype
        Of the result.

    Returns
    -------
    ndarray of shape (n_samples, n_steps)
        Weights.
    """
    counts = (np.arange(n_steps) < np.asarray(lengths)[:, None]).astype(dtype)
    return counts if weight is None else counts * np.asarray(weight, dtype).reshape(len(counts), -1)


def without_padding(targets: Any, X: Any, y: Any, weight: Any, dtype: Any) -> Any:
    """Return weights with which the padding of sequences counts nothing, where outputs are by step.

    Parameters
    ----------
    targets : encoder
        Of a fit.
    X : array, CSR matrix, or dict of those
        Checked inputs.
    y : array of shape (n_samples, ...)
        Encoded targets.
    weight : array of shape (n_samples, ...) or None
        Of the rows.
    dtype : dtype
        Of the weights.

    Returns
    -------
    ndarray of shape (n_samples, n_steps), or what `weight` is
        Weights.
    """
    lengths = lengths_of(X)
    if lengths is None or y.ndim < 2 or not getattr(targets, "have_positions", False):
        return weight
    return step_weights(lengths, y.shape[1], weight, dtype)
