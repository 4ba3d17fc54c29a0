"""Labels of rows or of positions, for networks with an output for every class, also if there are two."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet._fields import ABSENT, POSITIVE
from sknet.engine import Accuracy, Score
from sknet.estimators._targets._base import ClassEncoder
from sknet.estimators._targets._classes import numbers_of
from sknet.estimators._targets._label_losses import IGNORED, by_labels, counted_labels
from sknet.estimators._targets._labels import LABELS, check_classes, unique_labels
from sknet.losses import Loss

__all__ = ["PositionTargets"]


class PositionTargets(ClassEncoder):
    """One label a row, or one for each position of a sequence, and an output for each class."""

    task = "multiclass"
    have_positions = True
    ignored: int | None = None
    _stored_fields = {
        "classes": LABELS,
        "n_outputs": POSITIVE,
        "ignored": [int, None, ABSENT],
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        if self.n_outputs != len(self.classes):
            raise ValueError(f"{len(self.classes)} classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None, ignored: int | None = None) -> None:
        if ignored is not None:
            self.ignored = int(ignored)
        self.classes = self.found_in(y if classes is None else classes)
        self.n_outputs = len(self.classes)

    def encode(self, y: Any) -> Any:
        flat = np.ravel(y)
        counted = counted_labels(flat, self.ignored)
        if counted.all():
            return numbers_of(flat, self.classes).reshape(np.shape(y))
        found = np.full(flat.shape, IGNORED, np.int64)
        found[counted] = numbers_of(flat[counted], self.classes)
        return found.reshape(np.shape(y))

    def trained(self, loss: Loss) -> Loss:
        return by_labels(super().trained(loss), self.classes, None if self.ignored is None else IGNORED)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        return decision.argmax(axis=-1)

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Accuracy(loss.threshold, getattr(loss, "ignore_index", None))

    def unlike(self, classes: Any) -> bool:
        return not np.array_equal(self.classes, self.found_in(classes))

    def found_in(self, y: Any) -> Any:
        flat = np.ravel(y)
        return unique_labels(flat[counted_labels(flat, self.ignored)])
