"""Which methods an ensemble has: what its loss can be asked for."""

from collections.abc import Callable
from typing import Any

__all__ = ["needs", "needs_probabilities"]


def needs_probabilities(classifier: Any) -> bool:
    """Tell whether probabilities can be predicted; raise an AttributeError that says why not."""
    loss = classifier._loss
    if loss is not None and not loss.has_probabilities:
        raise AttributeError(
            f"{type(classifier).__name__} has no probabilities with {loss!r}, which trains distances to a "
            "boundary: use decision_function, or train with 'log_loss'"
        )
    return True


def needs(method: str, advice: str) -> Callable[[Any], bool]:
    """Return a check that the loss of a regressor has a method; its error gives advice."""

    def has_it(regressor: Any) -> bool:
        loss = regressor._loss
        if not hasattr(loss, method) or (method == "predict_interval" and loss.outputs_per_target < 2):
            raise AttributeError(
                f"{type(regressor).__name__} has {method} with a loss that learns it alone: use {advice}"
            )
        return True

    return has_it
