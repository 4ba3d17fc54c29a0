"""What estimators and frozen predictors can be asked for, and how it follows from a network's outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from sknet._constraints import shown
from sknet.core import Tensor
from sknet.engine.extend import Head
from sknet.estimators._targets import ClassEncoder, tempered

__all__ = [
    "check_deviations",
    "gives_deviations",
    "gives_intervals",
    "gives_probabilities",
    "gives_quantiles",
    "interval_head",
    "probability_head",
]


def gives_probabilities(classifier: Any) -> bool:
    """Whether a classifier predicts probabilities: what ``available_if`` asks."""
    loss = classifier._loss
    if loss is not None and not loss.has_probabilities:
        raise AttributeError(
            f"{type(classifier).__name__} has no probabilities with {loss!r}, which trains distances to a "
            "boundary: use decision_function, or train with 'log_loss'"
        )
    return True


def gives_deviations(regressor: Any) -> bool:
    """Whether a regressor predicts standard deviations: what ``available_if`` asks."""
    return _learns(regressor, "predict_std", "standard deviations", "loss='gaussian_nll'")


def gives_quantiles(regressor: Any) -> bool:
    """Whether a regressor predicts quantiles: what ``available_if`` asks."""
    return _learns(regressor, "predict_quantiles", "quantiles", "loss=Quantile([0.1, 0.5, 0.9])")


def gives_intervals(regressor: Any) -> bool:
    """Whether a regressor predicts intervals: what ``available_if`` asks."""
    advice = "loss=Quantile([0.1, 0.5, 0.9]) or loss='gaussian_nll'"
    # Bounds are two numbers: a loss with one output for a target has no interval.
    several = regressor._loss.outputs_per_target > 1
    return _learns(regressor, "predict_interval", "intervals", advice, where=several)


def _learns(regressor: Any, method: str, what: str, advice: str, *, where: bool = True) -> bool:
    if not (where and hasattr(regressor._loss, method)):
        raise AttributeError(
            f"{type(regressor).__name__} has {what} with a loss that learns them alone: use {advice}"
        )
    return True


def check_deviations(loss: Any) -> None:
    """Raise a ValueError unless a loss learns standard deviations."""
    if not hasattr(loss, "predict_std"):
        raise ValueError(
            f"return_std=True needs a loss that learns standard deviations, got {shown(loss)}: use "
            "loss='gaussian_nll'"
        )


@dataclass(frozen=True)
class _Interval:
    """The bounds between which a share of the targets is expected."""

    predict_interval: Callable[[Tensor, float], Tensor]
    coverage: float

    def __call__(self, output: Tensor) -> Tensor:
        return self.predict_interval(output, self.coverage)


def probability_head(loss: Any, targets: ClassEncoder, temperature: Any, name: str = "predict") -> Head:
    """Return the head that makes probabilities of outputs, in the order of the classes."""
    return targets.probable(tempered(getattr(loss, name), loss, temperature), loss)


def interval_head(loss: Any, coverage: Any) -> Head:
    """Return the head that makes bounds of outputs, of shape (n_samples, 2, n_targets)."""
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {shown(coverage)}")
    return _Interval(loss.predict_interval, float(coverage))
