"""A failed fit leaves the estimator unchanged."""

from collections.abc import Callable
from typing import Any

from numpy.random import RandomState
from sklearn.base import BaseEstimator

from sknet._random import RandomSnapshot
from sknet.engine import History
from sknet.engine.extend import rollback_of

__all__ = ["AllOrNothing"]


class AllOrNothing:
    """A context manager that restores an estimator if its block raises."""

    def __init__(self, estimator: BaseEstimator, *, in_place: bool) -> None:
        self._estimator, self._attributes = estimator, estimator.__dict__.copy()
        model = self._attributes.get("model_") if in_place else None
        self._restore: list[Callable[[], None]] = []
        if model is not None:
            self._restore += [rollback_of(model), _history_rollback(self._attributes["history_"])]
        for source in (estimator.random_state, None if model is None else model.random_state):
            if isinstance(source, RandomState):
                self._restore.append(RandomSnapshot(source).restore)

    def __enter__(self) -> None:
        """Everything has been noted already."""

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        if kind is None:
            return
        self._estimator.__dict__.clear()
        self._estimator.__dict__.update(self._attributes)
        for each in self._restore:
            each()


def _history_rollback(history: History) -> Callable[[], None]:
    """Return a function that removes later epochs from a history."""
    before = {name: (len(column), column[-1:]) for name, column in history.items()}

    def restore() -> None:
        for name in list(history):
            if name not in before:
                del history[name]
                continue
            length, last = before[name]
            del history[name][length:]
            history[name][-1:] = last  # a callback may have amended it

    return restore
