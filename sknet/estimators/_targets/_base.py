"""What every encoder of classes can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet._finite import all_finite
from sknet.device import to_host
from sknet.engine import Score
from sknet.engine.extend import Head
from sknet.estimators._targets._labels import unique_labels
from sknet.estimators._targets._tempered import tempered
from sknet.losses import Loss
from sknet.losses.extend import Averaged

__all__ = ["Agreement", "ClassEncoder"]


class ClassEncoder(ABC):
    """Abstract base: labels as numbers for a loss and labels and probabilities from a network's output."""

    task: str
    classes: Any
    n_outputs: int

    @abstractmethod
    def encode(self, y: Any) -> Any:
        """Encode labels as the loss expects them."""

    @abstractmethod
    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        """Return where in `labels` the labels are that decisions mean."""

    @property
    def labels(self) -> Any:
        """What `numbers` count: the classes, of one column after the other; None if numbers are labels."""
        return self.classes

    def decode(self, decision: Any, threshold: float = 0.0) -> Any:
        """Return the labels that decisions mean."""
        numbers, labels = self.numbers(decision, threshold), self.labels
        return numbers if labels is None else labels[numbers]

    def trained(self, loss: Loss) -> Loss:
        """Return the loss to train with, for these targets."""
        return loss.for_task(self.task)

    def deciding(self, loss: Loss, temperature: Any = None) -> Head | None:
        """Return what turns outputs into decisions, for a `loss`; None where they are those already."""
        return tempered(loss.deciding(self.task), loss, temperature) if isinstance(loss, Averaged) else None

    def probable(self, link: Head, loss: Loss) -> Head:
        """Return a link of the loss, such as its `predict`, with a column for each class."""
        return link

    def decisions(self, decision: Any) -> Any:
        """Return a `decision` as `decision_function` does."""
        return self.per_column(decision)

    def per_column(self, result: Any) -> Any:
        """Return a `result`, decisions or probabilities, as users get it: a list for several columns."""
        return result

    @abstractmethod
    def new_score(self, loss: Loss) -> Callable[[], Score]:
        """Return a function that creates an empty score of training rows, for a `loss`."""

    def unlike(self, classes: Any) -> bool:
        """Tell whether some classes are others than these."""
        return not np.array_equal(self.classes, unique_labels(classes))

    def found_in(self, y: Any) -> Any:
        """Return the classes that occur in the labels `y`, as `classes` has them."""
        return unique_labels(y)

    def single(self) -> Any:
        """Return a class beside which there is no other, or None."""
        return self.classes.tolist()[0] if len(self.classes) == 1 else None

    def check_several(self, name: str) -> None:
        """Raise a ValueError that names the estimator if there is a class beside which there is no other."""
        single = self.single()
        if single is not None:
            raise ValueError(
                f"{name} needs samples of at least 2 classes in the data, but the data contains only one "
                f"class: {single!r}"
            )


class Agreement(Score):
    """Share of rows for which all predicted classes are the true ones."""

    may_wait = True

    def __init__(self, decide: Callable[[Any], Any]) -> None:
        self._decide = decide
        self._right = self._all = 0.0
        self._finite = True

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        output, target = to_host(output), to_host(target)
        self._finite = self._finite and all_finite(output)
        right = (self._decide(output) == target).reshape(len(target), -1).all(axis=1)
        weight = np.ones(len(right)) if weight is None else to_host(weight)
        self._right += float(weight[right].sum())
        self._all += float(weight.sum())

    def result(self) -> float:
        return self._right / self._all if self._finite and self._all else float("nan")

    def state(self) -> dict[str, Any]:
        return {"right": self._right, "all": self._all, "finite": self._finite}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._right, self._all, self._finite = state["right"], state["all"], state["finite"]
