"""A failed fit leaves the estimator unchanged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.random import RandomState
from sklearn.base import BaseEstimator

__all__ = ["all_or_nothing"]


@contextmanager
def all_or_nothing(estimator: BaseEstimator, *, in_place: bool) -> Iterator[None]:
    """Restore the estimator if the block raises.

    Parameters
    ----------
    estimator : estimator
        Its attributes, its fitted model if that is trained in place, and the random states drawn from.
    in_place : bool
        Whether the fitted model itself is trained, not a copy of it.
    """
    attributes = estimator.__dict__.copy()
    model = attributes.get("model_") if in_place else None
    hyper: Any = None if model is None else (model.optimizer, model.loss_function, model.alpha)
    values = None if model is None else model.state
    trained = [] if model is None else [(p, p.requires_grad) for p in model.module.parameters()]
    sources = [estimator.random_state, None if model is None else model.random_state]
    draws = [(source, source.get_state()) for source in sources if isinstance(source, RandomState)]
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(attributes)
        for parameter, is_trained in trained:
            if parameter.requires_grad != is_trained:
                parameter.requires_grad = is_trained
        if model is not None:
            model.adopt(*hyper)
            model.load(values)
        for source, drawn in draws:
            source.set_state(drawn)
        raise
