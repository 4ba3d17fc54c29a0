"""The objective: the weighted mean of a loss, and an L2 penalty."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from sknet import ops
from sknet.core import Tensor
from sknet.exceptions import ShapeError
from sknet.losses import Loss

__all__ = ["Strength", "as_reported", "mean_term", "per_output", "terms"]


class Mean(NamedTuple):
    """A mean over rows."""

    value: Tensor
    weight: Any
    divisor: Any


def mean_term(loss: Loss, output: Tensor, y: Tensor, weight: Tensor | None) -> Mean:
    """Return the weighted mean loss."""
    if weight is not None and weight.ndim > 1:
        return _by_position(loss, output, y, weight)
    values, counts = loss.values(output, y), loss.counts(output, y)
    if not values.shape[0]:
        raise ShapeError("a batch must have at least one row, got none")
    if weight is not None and weight.shape != values.shape:
        raise ShapeError(f"sample_weight must have shape {values.shape}, got {weight.shape}")
    if counts is None:
        if weight is None:
            n = values.shape[0]
            return Mean(values.sum() / n, n, n)
        total = weight.sum()
        return Mean((values * weight).sum() / total, total, total)
    if weight is not None:
        values, counts = values * weight, counts * weight
    total = counts.sum()
    divisor = ops.where(ops.equal(total, 0), float(values.shape[0]), total)  # all targets may be ignored
    return Mean(values.sum() / divisor, total, divisor)


def _by_position(loss: Loss, output: Tensor, y: Tensor, weight: Tensor) -> Mean:
    """Return the mean loss for weights of positions: each position counts as a row."""
    axes, places = weight.ndim, weight.shape
    if axes >= output.ndim or places != output.shape[:axes] or places != y.shape[:axes]:
        raise ShapeError(
            f"sample_weight must have shape {output.shape[:1]}, or one number per position of an output "
            f"of shape {output.shape} and a target of shape {y.shape}; got {places}"
        )
    n = math.prod(places)
    rows = [ops.reshape(x, (n, *x.shape[axes:])) for x in (output, y)]
    mean, total, divisor = mean_term(loss, rows[0], rows[1], ops.reshape(weight, (n,)))
    positions = n // max(places[0], 1)
    # Classification losses average over positions, all others sum.
    mean = mean if y.ndim == output.ndim - 1 else mean * positions
    return Mean(mean, total / positions, divisor / positions)


class Strength:
    """The strength of the penalty: half of `alpha`, divided by the total weight of a batch."""

    def __init__(self, alpha: float, slot: Tensor | None = None) -> None:
        self._alpha, self._slot, self.divisor = alpha, slot, 1

    def __bool__(self) -> bool:
        return bool(self._alpha)

    def over(self, total: Any) -> Any:
        """Return the strength for a total weight."""
        if self._slot is None:
            return 0.5 * self._alpha / total
        if isinstance(total, Tensor):
            return self._slot / total
        self.divisor = total
        return self._slot


def terms(
    loss: Loss,
    strength: Strength,
    output: Tensor,
    y: Tensor,
    weight: Tensor | None,
    parameters: Iterable[Tensor],
) -> tuple[Tensor, Tensor | None]:
    """Return the two terms of the objective: the mean loss, and the penalty or None."""
    data, _, total = mean_term(loss, output, y, weight)
    penalized = [p for p in parameters if p.ndim >= 2] if strength else []
    if not penalized:
        return data, None
    return data, ops.sum_squares(*penalized) * strength.over(total)


def as_reported(
    loss: Loss, output: Tensor, y: Tensor, weight: Tensor | None, data: Tensor, penalty: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the reported values of the two terms: those of `terms`, unless targets are scaled."""
    if loss.reporting is loss:
        return data, penalty
    value = mean_term(loss.reporting, output, y, weight).value
    # In the dtype of the mean loss, which is float64 where float32 cannot hold the values.
    return value, None if penalty is None else ops.astype(penalty, value.dtype) * loss.unit


def per_output(loss: Loss, value: float, n_outputs: int) -> float:
    """Return the reported value of a mean loss: as in scikit-learn, a mean over outputs, not their sum."""
    return value / n_outputs if loss.mean_over_outputs else value
