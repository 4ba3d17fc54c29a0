"""What is minimised: the weighted mean of a loss, and an L2 penalty."""

from collections.abc import Iterable
from typing import Any

from sknet import ops
from sknet.core import Tensor
from sknet.exceptions import ShapeError
from sknet.losses import Loss

__all__ = ["mean_term", "per_output", "terms"]


def mean_term(loss: Loss, output: Tensor, y: Tensor, weight: Tensor | None) -> tuple[Tensor, Any]:
    """Return the weighted mean loss, and the sum of weights by which it was divided.

    Raises
    ------
    ShapeError
        If targets or weights do not fit the output, or there are no rows.
    """
    values = loss.values(output, y)
    if not values.shape[0]:
        raise ShapeError("a batch must have at least one row, got none")
    if weight is None:
        return values.sum() / values.shape[0], values.shape[0]
    if weight.shape != values.shape:
        raise ShapeError(f"sample_weight must have shape {values.shape}, got {weight.shape}")
    total = weight.sum()
    return (values * weight).sum() / total, total


def terms(
    loss: Loss, alpha: float, output: Tensor, y: Tensor, weight: Tensor | None, parameters: Iterable[Tensor]
) -> tuple[Tensor, Tensor | None]:
    """Return the two terms of the objective: the mean loss, and the penalty or None.

    The penalty is ``alpha / 2 * sum of squares / sum of weights``, as in scikit-learn's networks,
    over parameters with two or more axes: no biases.
    """
    data, total = mean_term(loss, output, y, weight)
    penalized = [p for p in parameters if p.ndim >= 2] if alpha else []
    if not penalized:
        return data, None
    return data, ops.sum_squares(*penalized) * (0.5 * alpha / total)


def per_output(loss: Loss, value: float, n_outputs: int) -> float:
    """Return a mean loss as it is reported: scikit-learn descends a sum over outputs, and reports a mean."""
    return value / n_outputs if loss.mean_over_outputs else value
