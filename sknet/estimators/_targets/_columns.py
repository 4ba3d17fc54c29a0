"""Several columns of labels, each with classes of its own."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from sknet import ops
from sknet._fields import POSITIVE, Each
from sknet.core import Tensor
from sknet.engine import Score
from sknet.estimators._targets._base import Agreement, ClassEncoder
from sknet.estimators._targets._classes import numbers_of
from sknet.estimators._targets._labels import LABELS, check_classes, check_labels, unique_labels
from sknet.losses import Loss
from sknet.losses.extend import Columns

__all__ = ["ColumnTargets"]


class ColumnTargets(ClassEncoder):
    """The classes of each column of labels, and their numbers."""

    task = "multiclass"
    _stored_fields = {
        "classes": Each(list, LABELS),
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        for column in self.classes:
            check_classes(column)
        if self.n_outputs != sum(map(len, self.classes)):
            raise ValueError(f"columns of {[*map(len, self.classes)]} classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None) -> None:
        check_labels(y)
        if classes is not None and len(classes) != y.shape[1]:
            raise ValueError(
                f"classes must be a list of the classes of each of {y.shape[1]} columns of y, got "
                f"{len(classes)} of them"
            )
        given = y.T if classes is None else classes
        self.classes = [unique_labels(column) for column in given]
        self.n_outputs = sum(self.n_classes)

    @property
    def n_classes(self) -> tuple[int, ...]:
        """Of each column."""
        return tuple(len(classes) for classes in self.classes)

    def encode(self, y: Any) -> Any:
        if np.ndim(y) != 2 or y.shape[1] != len(self.classes):
            raise ValueError(f"y must have {len(self.classes)} columns of labels, got shape {np.shape(y)}")
        columns = [numbers_of(y[:, k], known, f"`y[:, {k}]`") for k, known in enumerate(self.classes)]
        return np.stack(columns, axis=1)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        # A column's numbers go on where those of the column before have ended.
        return self._places(decision) + self._ends[:-1]

    @property
    def labels(self) -> Any:
        return np.concatenate(self.classes)

    def _places(self, decision: Any) -> Any:
        stack = ops.stack if isinstance(decision, Tensor) else np.stack
        return stack([part.argmax(axis=1) for part in self.per_column(decision)], axis=1)

    @property
    def _ends(self) -> Any:
        return np.cumsum([0, *self.n_classes])

    def trained(self, loss: Loss) -> Loss:
        return Columns(loss.for_task(self.task), self.n_classes)

    def per_column(self, result: Any) -> Any:
        return [result[:, start:stop] for start, stop in pairwise(self._ends.tolist())]

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Agreement(self._places)

    def unlike(self, classes: Any) -> bool:
        return len(classes) != len(self.classes) or not all(
            np.array_equal(unique_labels(new), known)
            for new, known in zip(classes, self.classes, strict=True)
        )

    def found_in(self, y: Any) -> Any:
        return [unique_labels(column) for column in y.T]

    def single(self) -> Any:
        """Return a class that is the only one of its column, or None."""
        return next((classes.tolist()[0] for classes in self.classes if len(classes) == 1), None)
