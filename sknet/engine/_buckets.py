"""Buckets: batches of rows of similar lengths, whose padding is not computed."""

from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet.engine._inputs import arguments, each_input
from sknet.engine._model_type import ModelLike
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import BatchNorm
from sknet.nn._lazy import copy_for_shapes, shadows, shape_pass

__all__ = ["Buckets", "buckets_of"]


MOST_WIDTHS, RATIO = 8, 1.5  # of the numbers of steps that batches may have, each with a program
POOL = 64  # batches whose rows are sorted by length
LEAST_BATCHES, LEAST_PADDING = 4, 2.0  # of an epoch; steps divided by those that are no padding


class Buckets:
    """The widths of batches, and orders of rows in which those of a batch have similar lengths."""

    def __init__(self, lengths: np.ndarray, n_steps: int) -> None:
        self._lengths = np.minimum(lengths, n_steps)
        self.n_steps = n_steps
        widths = np.ceil(n_steps / RATIO ** np.arange(MOST_WIDTHS)).astype(int)
        self._widths = np.unique(widths)

    def width_of(self, chosen: Any) -> int:
        """Return how many steps a batch of the chosen rows has."""
        return int(self._widths[self._widths.searchsorted(self._lengths[chosen].max())])

    def narrowed(self, X: Any, width: int) -> Any:
        """Return all inputs, of which sequences have their first steps."""
        return each_input(lambda x: x[:, :width] if x.shape[1:2] == (self.n_steps,) else x, X)

    def arranged(self, order: np.ndarray, size: int, n_batches: int, source: RandomState) -> np.ndarray:
        """Return a drawn order, sorted by length within pools of batches, whose batches are in a new order.

        The last batch, which may have another number of rows, stays the last one and has short rows.
        """
        last = (n_batches - 1) * size
        found = np.empty_like(order)
        for start in range(0, n_batches, POOL):
            part = slice(start * size, len(order) if start + POOL >= n_batches else (start + POOL) * size)
            rows = order[part]
            found[part] = rows[np.argsort(-self._lengths[rows], kind="stable")]
        turns = source.permutation(n_batches - 1)
        found[:last] = found[:last].reshape(n_batches - 1, size)[turns].reshape(-1)
        return found


def buckets_of(model: ModelLike, batches: Any) -> Buckets | None:
    """Return the buckets of batches of sequences; None if they would save little or change the results."""
    X, y = batches.X, batches.y
    if batches.device.kind != "cpu" or not isinstance(X, dict) or "lengths" not in X:
        return None
    sequences = [x for name, x in X.items() if name != "lengths" and type(x) is np.ndarray and x.ndim > 1]
    if len(sequences) != 1 or len(X) != 2 or batches.n_batches < LEAST_BATCHES:
        return None
    lengths, n_steps = np.asarray(X["lengths"]), sequences[0].shape[1]
    lengths = lengths if batches.chosen is None else lengths[batches.chosen]
    if lengths.sum() * LEAST_PADDING > len(lengths) * n_steps or n_steps in y.shape[1:]:
        return None
    if any(isinstance(each, BatchNorm) for each in model.module.modules()):  # whose statistics see padding
        return None
    found = Buckets(lengths, n_steps)
    shapes = [_output_shape(model, batches, found, width) for width in (n_steps, int(found._widths[0]))]
    return found if shapes[0] is not None and shapes[0] == shapes[1] else None


def _output_shape(model: ModelLike, batches: Any, buckets: Buckets, width: int) -> Any:
    """Return the shape of the output for two rows of some steps; None if it is unknown."""
    inputs = buckets.narrowed(batches.X, width)
    shapes = each_input(lambda x, dtype: shadows((2, *x.shape[1:]), dtype), inputs, batches.input_dtype)
    try:
        return shape_pass(copy_for_shapes(model.module), arguments(shapes), training=True).shape
    except (ShapeError, DeviceError):
        return None
