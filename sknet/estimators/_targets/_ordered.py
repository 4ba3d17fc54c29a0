"""One label a row, of classes that have an order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet import ops
from sknet._fields import POSITIVE
from sknet.core import Tensor, as_tensor, no_grad
from sknet.engine import Score
from sknet.engine.extend import Head
from sknet.estimators._targets._base import Agreement, ClassEncoder
from sknet.estimators._targets._classes import numbers_of
from sknet.estimators._targets._labels import (
    LABELS,
    check_classes,
    check_labels,
    kind_of_labels,
    unique_labels,
)
from sknet.estimators._targets._tempered import tempered
from sknet.losses.extend import Averaged

__all__ = ["OrderedTargets"]


class OrderedTargets(ClassEncoder):
    """Classes from the lowest to the highest, and their numbers in this order."""

    task = "ordinal"
    _stored_fields = {
        "order": LABELS,
        "classes": LABELS,
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        is_same = len(self.order) == len(self.classes) and bool((np.unique(self.order) == self.classes).all())
        if not is_same or self.n_outputs != max(len(self.order) - 1, 1):
            raise ValueError(f"{len(self.order)} ordered classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None, order: Any = None) -> None:
        check_labels(y)
        if kind_of_labels(y) not in ("binary", "multiclass"):
            raise ValueError(f"loss='ordinal' needs one label a row, got y of shape {np.shape(y)}")
        labels = unique_labels(y if classes is None else classes)
        self.order = labels if order is None else np.asarray(order)
        self.classes = np.unique(self.order)
        missing = [label for label in labels.tolist() if label not in self.order.tolist()]
        if self.order.ndim != 1 or len(self.classes) < len(self.order) or missing:
            raise ValueError(
                f"Ordinal(order={self.order.tolist()!r}) must name every class once, from the lowest to the "
                f"highest; the labels of y are {labels.tolist()}"
            )
        self.n_outputs = max(len(self.order) - 1, 1)

    @property
    def _places(self) -> Any:
        """For each of the sorted classes its number in the order."""
        return np.argsort(np.searchsorted(self.classes, self.order))

    def encode(self, y: Any) -> Any:
        return self._places[numbers_of(y, self.classes)]

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        if decision.shape[1] == 1:
            return (decision[:, 0] > threshold).astype(np.int64)
        return decision.argmax(axis=1)

    def deciding(self, loss: Any, temperature: Any = None) -> Head | None:
        is_averaged = isinstance(loss, Averaged)
        if len(self.classes) > 2:
            head = self.probable(loss.log_predict, loss)
            return tempered(head, loss, temperature) if is_averaged else head
        if is_averaged:
            return tempered(_Odds(self.probable(loss.log_predict, loss)), loss, temperature)
        return None if self._is_sorted else ops.negative

    def decisions(self, decision: Any) -> Any:
        return decision[:, 0] if len(self.classes) == 2 else decision

    def probable(self, link: Head, loss: Any) -> Head:
        places = tuple(self._places.tolist())
        return link if self._is_sorted else lambda output: _columns(link(output), places)

    @property
    def _is_sorted(self) -> bool:
        return bool((self.order == self.classes).all())

    def new_score(self, loss: Any) -> Callable[[], Score]:
        def decide(output: Any) -> Any:
            with no_grad():
                found = loss.log_predict(Tensor(output)).data
            return found.argmax(axis=1)

        return lambda: Agreement(decide)

    def unlike(self, classes: Any) -> bool:
        return bool(len(np.setdiff1d(unique_labels(classes), self.classes)))

    def found_in(self, y: Any) -> Any:
        """Return all classes: an order may have some that do not occur."""
        return self.classes if not self.unlike(y) else unique_labels(y)


@dataclass(frozen=True)
class _Odds:
    """The log odds of the second of two classes, from their log probabilities."""

    log_probable: Head

    def __call__(self, output: Tensor) -> Tensor:
        found = self.log_probable(output)
        return found[:, 1:] - found[:, :1]


def _columns(x: Tensor, places: tuple[int, ...]) -> Tensor:
    return ops.stack([as_tensor(x)[..., place] for place in places], axis=-1)
