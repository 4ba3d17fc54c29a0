"""One label a row, or several that a row has or has not."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from sknet import ops
from sknet._fields import POSITIVE
from sknet._indexing import are_indices
from sknet.engine import Accuracy, Score
from sknet.engine.extend import Head
from sknet.estimators._targets._base import ClassEncoder
from sknet.estimators._targets._label_losses import by_labels
from sknet.estimators._targets._labels import (
    LABELS,
    check_classes,
    check_labels,
    kind_of_labels,
    unique_labels,
)
from sknet.losses import Loss

__all__ = ["ClassTargets", "both_classes", "labels_of_numbers"]


def both_classes(link: Head, threshold: float) -> Head:
    """Return a link with a column for each of two classes, for a network that has one output for both."""
    return lambda output: ops.concat([link(2.0 * threshold - output), link(output)], axis=1)


class ClassTargets(ClassEncoder):
    """The classes of a classification, and their numbers."""

    _stored_fields = {
        "classes": LABELS,
        "task": Literal["binary", "multiclass", "multilabel"],
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        expected = 1 if self.task == "binary" else len(self.classes)
        if self.n_outputs != expected or (len(self.classes) > 2) > (self.task != "binary"):
            raise ValueError(
                f"{len(self.classes)} classes of a {self.task} task have {self.n_outputs} outputs"
            )

    def __init__(self, y: Any, classes: Any = None) -> None:
        known = None if classes is not None else labels_of_numbers(y)
        if known is not None:
            self._of_labels(known)
            return
        check_labels(y)
        kind = kind_of_labels(y)
        if kind == "multiclass-multioutput":
            raise ValueError(
                "Multioutput target data is not supported: expected one label a row, or a 0/1 indicator "
                f"matrix of labels, got y of shape {np.shape(y)} with several classes a column"
            )
        if kind == "multilabel-indicator":
            self.task, self.classes = "multilabel", np.arange(y.shape[1])
        else:
            self._of_labels(unique_labels(y if classes is None else classes))
            return
        self.n_outputs = len(self.classes)

    def _of_labels(self, classes: Any) -> None:
        self.classes = classes
        self.task = "binary" if len(classes) <= 2 else "multiclass"
        self.n_outputs = 1 if self.task == "binary" else len(classes)

    def encode(self, y: Any) -> Any:
        if self.task == "multilabel":
            if np.ndim(y) != 2 or y.shape[1] != self.n_outputs:
                raise ValueError(
                    f"y must be an indicator of {self.n_outputs} labels a row, got shape {np.shape(y)}"
                )
            return np.asarray(y, dtype=np.float64)
        numbers = numbers_of(y, self.classes)
        return numbers.astype(np.float64).reshape(-1, 1) if self.task == "binary" else numbers

    def trained(self, loss: Loss) -> Loss:
        found = super().trained(loss)
        return found if self.task == "multilabel" else by_labels(found, self.classes)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        if self.task == "multilabel":
            return (decision > threshold).astype(np.int64)
        if self.task == "binary":
            positive = (decision[:, 0] > threshold).astype(np.int64)
            return positive * 0 if len(self.classes) == 1 else positive
        return decision.argmax(axis=1)

    @property
    def labels(self) -> Any:
        return None if self.task == "multilabel" else self.classes

    def decisions(self, decision: Any) -> Any:
        return decision[:, 0] if self.task == "binary" else decision

    def probable(self, link: Head, loss: Loss) -> Head:
        return both_classes(link, loss.threshold) if self.task == "binary" else link

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Accuracy(loss.threshold, getattr(loss, "ignore_index", None))


def _is_one_number_a_row(y: Any) -> bool:
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu" and len(y) > 0


def labels_of_numbers(y: Any) -> Any:
    """Return the sorted classes of integers, one a row; None for all else, and where there are very many."""
    if not _is_one_number_a_row(y):
        return None
    classes = np.unique(y)
    return classes if len(classes) <= max(2, len(y) // 4) else None


def numbers_of(y: Any, classes: Any, name: str = "`y`") -> Any:
    """Return the places of labels among sorted classes; raise a ValueError for a label that is none."""
    if _is_one_number_a_row(y) and _is_one_number_a_row(classes):
        if classes.item(0) == 0 and classes.item(-1) == len(classes) - 1 and are_indices(y, len(classes)):
            return y.astype(np.intp)  # the labels are numbers of classes
        places = classes.searchsorted(y)
        if (classes.take(places, mode="clip") == y).all():
            return places
    seen = unique_labels(y)
    if len(np.setdiff1d(seen, classes)):
        raise ValueError(
            f"{name} has classes not in `self.classes_`. `self.classes_` has {classes}. "
            f"{name.strip('`')!r} has {seen}. Name all classes in the first call: "
            "partial_fit(X, y, classes=...)."
        )
    return np.searchsorted(classes, y)
