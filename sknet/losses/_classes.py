"""Targets that are classes, and their weights."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import NUMBERS, shown
from sknet._indexing import are_indices
from sknet.core import Tensor
from sknet.device import to_device
from sknet.exceptions import DtypeError
from sknet.losses._base import Loss, finite_numbers, numbers, reject, shape_error

__all__ = [
    "check_classes",
    "class_counts",
    "class_values",
    "class_weights",
    "not_ignored",
    "numbers_for",
    "of_class",
]


def class_values(loss: Loss, values: Callable[[Tensor, Tensor], Tensor], z: Tensor, y: Tensor) -> Tensor:
    """Return `values` of rows z and their classes, a column; for several positions per sample, the mean."""
    _check_class_target(loss, z, y)
    ignored: int | None = getattr(loss, "ignore_index", None)
    rows = z if z.ndim == 2 else ops.reshape(z, (y.size, z.shape[-1]))
    column = ops.expand_dims(y, axis=-1) if z.ndim == 2 else ops.reshape(y, (y.size, 1))
    if ignored is None:
        each = values(rows, column)
    else:
        counted = ops.not_equal(column, ignored)
        each = values(rows, ops.where(counted, column, 0))
        each = ops.where(ops.squeeze(counted, -1), each, 0.0)
    return _over_positions(each, y.shape)


def class_counts(loss: Loss, z: Tensor, y: Tensor) -> Tensor | None:
    """Return how much each sample counts by its class: the mean over its positions, or None for 1 each."""
    ignored: int | None = getattr(loss, "ignore_index", None)
    weights = class_weights(loss, z)
    if ignored is None:
        if weights is None:
            return None
        return _over_positions(ops.take(weights, ops.reshape(y, (-1,)), from_end=False), y.shape)
    flat = ops.reshape(y, (-1,))
    counted = ops.not_equal(flat, ignored)
    if weights is None:
        return _over_positions(ops.astype(counted, z.dtype), y.shape)
    of_each = ops.take(weights, ops.where(counted, flat, 0), from_end=False)
    return _over_positions(ops.where(counted, of_each, 0.0), y.shape)


def _over_positions(each: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the mean over a sample's positions, of which `each` has the values in one axis."""
    return (
        each if len(shape) == 1 else ops.mean(ops.reshape(each, shape), axis=tuple(range(1 - len(shape), 0)))
    )


def class_weights(loss: Loss, z: Tensor) -> Tensor | None:
    """Return the loss's `class_weight` as one number for each class of the logits z, or None."""
    given: Any = getattr(loss, "class_weight", None)
    return None if given is None else numbers_for(loss, "class_weight", given, z.shape[-1], z)


def numbers_for(loss: Loss, name: str, given: Any, count: int, z: Tensor) -> Tensor:
    """Return a parameter as `count` numbers in the dtype and on the device of z."""
    if isinstance(given, Mapping):
        unknown = [key for key in given if key not in range(count)]
        if unknown:
            raise ValueError(
                f"{type(loss).__name__}: {name} has {unknown[0]!r}, which is not a class "
                f"from 0 to {count - 1}"
            )
        given = [given.get(k, 1.0) for k in range(count)]
    where, got = f"{type(loss).__name__}: {name}", f"got {shown(getattr(loss, name))}"
    if isinstance(given, (list, tuple)) and not all(isinstance(each, NUMBERS) for each in given):
        raise ValueError(f"{where} must hold numbers, one for each of {count} classes or labels, {got}")
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where} must hold finite numbers of 0 or more, {got}") from error
    if values.shape != (count,):
        raise ValueError(f"{where} must have one number for each of {count} classes or labels, {got}")
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"{where} must hold finite numbers of 0 or more, {got}")
    return Tensor(to_device(values.astype(z.dtype), z.device))


def _check_class_target(loss: Loss, z: Tensor, y: Tensor) -> None:
    if z.ndim < 2:
        raise shape_error(
            loss, z.shape, y.shape, expected="(n_samples,), and the output (n_samples, n_classes)"
        )
    if y.shape != z.shape[:-1]:
        what = "a row" if z.ndim == 2 else "a position"
        raise shape_error(loss, z.shape, y.shape, expected=f"{z.shape[:-1]}, one class number {what}")
    if np.dtype(y.dtype).kind not in "iu":
        name = type(loss).__name__
        labels = f"{name}(multilabel=True)" if hasattr(loss, "multilabel") else "BinaryCrossEntropy()"
        raise DtypeError(
            f"{name} got targets of dtype {y.dtype} for {z.shape[-1]} classes; they must be integers. "
            f"Cast class numbers with astype; use {labels} for 0/1 labels."
        )
    # As an index, a negative class number would count from the end, and one that is too large is an error
    # that knows neither loss nor target. A captured pass has no values to look at.
    if isinstance(y.data, np.ndarray) and not are_indices(y.data, z.shape[-1]):
        loss.check_target(y.data, n_outputs=z.shape[-1])


def check_classes(y: Any, name: str, n_outputs: int | None, ignore_index: int | None = None) -> None:
    """Raise a ValueError unless all targets are numbers of classes, or the one that is ignored."""
    y = numbers(y, name)
    if n_outputs is not None and type(y) is np.ndarray and y.dtype.kind in "iu" and are_indices(y, n_outputs):
        return  # the rest takes longer than the check
    y = finite_numbers(y, name)
    bad = y < 0
    if n_outputs is not None:
        bad |= y >= n_outputs
    if y.dtype.kind == "f":
        bad |= y != np.floor(y)
    expected = "a class, an integer from 0" + ("" if n_outputs is None else f" to {n_outputs - 1}")
    if ignore_index is not None:
        expected += f", or {ignore_index} to be ignored"
    reject(not_ignored(bad, y, ignore_index), y, name, expected)


def not_ignored(bad: Any, y: Any, ignore_index: int | None) -> Any:
    """Return `bad` without the targets that are ignored."""
    return bad if ignore_index is None else bad & (y != ignore_index)


def of_class(x: Tensor, y: Tensor) -> Tensor:
    """Return the element of each row of x that belongs to its class, of shape (n_samples,)."""
    return ops.reshape(ops.take_along_axis(x, y, axis=-1, from_end=False), x.shape[:1])
