"""Targets for encoders: what trees predict, and numbers for target encoding."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import Arrays

__all__ = ["Target", "target_of"]

# With more classes, means would be of too few rows, and columns too many.
MOST_CLASSES = 16
# Beyond these, squares of numbers overflow, are what trees take for 0, or are the same for most of them.
LEAST_DIGITS, MOST_DIGITS, MOST_DEVIATIONS = -16, 256, 1e4


@dataclass(frozen=True)
class Target:
    """Targets, as trees and means use them."""

    is_classification: bool
    y: np.ndarray
    numbers: np.ndarray
    names: tuple[str, ...]
    _stored_fields = {
        "y": [Arrays("biuf", "n_samples"), Arrays("biuf", "n_samples", "n_outputs")],
        "numbers": Arrays("f", "n_samples", "n_numbers"),
    }

    def take(self, rows: Any) -> "Target":
        """Return the targets of some rows."""
        return Target(self.is_classification, self.y[rows], self.numbers[rows], self.names)


def target_of(y: Any, target_type: str) -> Target:
    """Return checked targets."""
    y = np.asarray(y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("Input y contains NaN or infinity.")
    if target_type == "auto":
        from sklearn.utils.multiclass import type_of_target  # encoding does without it

        found = type_of_target(y, input_name="y")
        if found == "unknown":
            raise ValueError(f"Unknown label type: y holds neither labels nor numbers, got dtype {y.dtype}")
        target_type = "regression" if found.startswith("continuous") else "classification"
    if target_type == "regression":
        numbers = y.astype(np.float64)
        if not np.isfinite(numbers).all():
            raise ValueError("Input y contains NaN or infinity.")
        columns = _in_range(numbers.reshape(len(y), -1))
        return Target(False, columns.reshape(numbers.shape), columns, _named(columns.shape[1]))
    return _classes(y)


def _in_range(numbers: np.ndarray) -> np.ndarray:
    """Return columns whose squares keep their digits: shifted and scaled where those of these would not."""
    _, digits = np.frexp(np.abs(numbers).max(axis=0))
    scaled = np.ldexp(numbers, -digits)
    mean, deviation = scaled.mean(axis=0), scaled.std(axis=0)
    is_far = (digits < LEAST_DIGITS) | (digits > MOST_DIGITS) | (np.abs(mean) > MOST_DEVIATIONS * deviation)
    deviation[deviation == 0] = 1.0
    found: np.ndarray = np.where(is_far, (scaled - mean) / deviation, numbers)
    return found


def _classes(y: np.ndarray) -> Target:
    columns = y.reshape(len(y), -1)
    coded, indicators, names = [], [], []
    for i in range(columns.shape[1]):
        classes, codes, counts = np.unique(columns[:, i], return_inverse=True, return_counts=True)
        coded.append(codes)
        most = np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
        shown = most[1:] if len(classes) == 2 else most
        before = f"{i}_" if columns.shape[1] > 1 else ""
        names += [f"{before}{classes[c]}" for c in shown]
        indicators += [codes == c for c in shown]
    numbers = np.stack(indicators, axis=1).astype(np.float64) if indicators else np.empty((len(y), 0))
    own = np.stack(coded, axis=1) if y.ndim == 2 else coded[0]
    return Target(True, own, numbers, tuple(names) if len(names) > 1 else ("",) * len(names))


def _named(count: int) -> tuple[str, ...]:
    return ("",) if count == 1 else tuple(map(str, range(count)))
