"""Mixing kinds of members: temperatures and weights from held-out rows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import ABOVE_ZERO, NOT_NEGATIVE, Items
from sknet.core import Tensor, no_grad
from sknet.estimators.extend import best_temperature
from sknet.losses import Loss

__all__ = ["Mix", "mixed"]

STEPS = 10


@dataclass(frozen=True)
class Mix:
    """The mix of the outputs of all kinds."""

    weights: dict[str, float]
    temperatures: dict[str, float]
    _stored_fields = {
        "weights": Items(str, NOT_NEGATIVE),
        "temperatures": Items(str, ABOVE_ZERO),
    }

    def factor(self, kind: str) -> float:
        """Return the factor of the outputs of a kind."""
        return self.weights[kind] / self.temperatures[kind]

    def of(self, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the mixed outputs."""
        parts = [self.factor(kind) * output for kind, output in outputs.items() if self.weights[kind]]
        found: np.ndarray = np.sum(parts, axis=0)
        return found


def mixed(
    outputs: Mapping[str, np.ndarray], y: np.ndarray, weight: np.ndarray | None, loss: Loss, by_error: bool
) -> Mix:
    """Return the best mix for held-out rows."""
    kinds = list(outputs)
    temperatures = {kind: _temperature(loss, output, y, weight) for kind, output in outputs.items()}
    if len(kinds) == 1:
        return Mix({kinds[0]: 1.0}, temperatures)
    first, second = kinds
    mixes = [Mix({first: 1.0 - i / STEPS, second: i / STEPS}, temperatures) for i in range(STEPS + 1)]
    return min(mixes, key=lambda mix: _badness(mix.of(outputs), y, weight, loss, by_error))


def _temperature(loss: Any, output: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> float:
    if not (loss.has_probabilities and hasattr(loss, "tempered") and hasattr(loss, "likelihood")):
        return 1.0
    if "ordinal" in loss.tasks:  # a temperature divides log odds, which are not its outputs
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if all rows are right, it is 1
        return best_temperature(loss, output.astype(np.float64), y, weight)


def _badness(
    output: np.ndarray, y: np.ndarray, weight: np.ndarray | None, loss: Loss, by_error: bool
) -> tuple[float, float]:
    with no_grad(), np.errstate(under="ignore"):  # what is certain has no loss
        values = loss.values(Tensor(output.astype(np.float64)), Tensor(y)).numpy()
        mean = float(np.average(values, weights=weight))
    error = float(np.average(output.argmax(axis=1) != y, weights=weight)) if by_error else 0.0
    return error, mean
