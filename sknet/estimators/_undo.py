"""A failed fit leaves the estimator unchanged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numpy.random import RandomState
from sklearn.base import BaseEstimator

from sknet._random import RandomSnapshot
from sknet.engine import History
from sknet.engine.extend import rollback_of

__all__ = ["all_or_nothing"]


@contextmanager
def all_or_nothing(estimator: BaseEstimator, *, in_place: bool) -> Iterator[None]:
    """Restore the estimator if the block raises.

    Parameters
    ----------
    estimator : estimator
        Its attributes, its fitted model if that is trained in place, and the random states drawn from.
    in_place : bool
        Whether the fitted model itself is trained, and its history continued, not copies of them.
    """
    attributes = estimator.__dict__.copy()
    model = attributes.get("model_") if in_place else None
    restore: list[Callable[[], None]] = []
    if model is not None:
        restore += [rollback_of(model), _history_rollback(attributes["history_"])]
    for source in (estimator.random_state, None if model is None else model.random_state):
        if isinstance(source, RandomState):
            restore.append(RandomSnapshot(source).restore)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(attributes)
        for each in restore:
            each()
        raise


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
