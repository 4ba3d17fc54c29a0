"""The objective of a batch: mean loss and penalty, and their reported values."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from sknet import ops
from sknet._frames import as_array
from sknet.core import Tensor, attached_to, no_grad
from sknet.device import Device, is_array, to_device
from sknet.engine._checks import check_range, check_targets, check_weights, note_last_layer
from sknet.engine._memory import StepResult
from sknet.engine._model_type import ModelLike
from sknet.exceptions import ShapeError
from sknet.losses import Loss


class Mean(NamedTuple):
    """A mean over rows."""

    value: Tensor
    weight: Any
    divisor: Any


def mean_term(
    loss: Loss, output: Tensor, y: Tensor, weight: Tensor | None, mixing: Tensor | None = None
) -> Mean:
    """Return the weighted mean loss, of rows that are mixed with those in reverse order if they are."""
    if mixing is not None:
        own, other = (mean_term(loss, each, y, weight) for each in (output, ops.flip(output, 0)))
        share = ops.astype(mixing, own.value.dtype)
        return own._replace(value=share * own.value + (1.0 - share) * other.value)
    if weight is not None and weight.ndim > 1:
        of_targets = weight.ndim == y.ndim == output.ndim
        return (_by_target if of_targets else _by_position)(loss, output, y, weight)
    values, counts = loss.values(output, y), loss.counts(output, y)
    if not values.shape[0]:
        raise ShapeError("a batch must have at least one row, got none")
    if weight is not None and weight.shape != values.shape:
        raise ShapeError(f"sample_weight must have shape {values.shape}, got {weight.shape}")
    if counts is None:
        if weight is None:
            n = values.shape[0]
            return Mean(values.sum() / n, n, n)
        total = abs(weight).sum()  # a batch of negative weights must not turn the direction of its step
        return Mean((values * weight).sum() / total, total, total)
    if weight is not None:
        values, counts = values * weight, counts * abs(weight)
    total = counts.sum()
    divisor = ops.where(ops.equal(total, 0), float(values.shape[0]), total)  # all targets may be ignored
    return Mean(values.sum() / divisor, total, divisor)


def _by_target(loss: Loss, output: Tensor, y: Tensor, weight: Tensor) -> Mean:
    """Return the mean loss for weights of targets: a row counts as the mean of its targets."""
    if weight.ndim > 2 and weight.shape == y.shape == output.shape:
        output, y, weight = (ops.reshape(x, (x.shape[0], -1)) for x in (output, y, weight))
    values = loss.of_targets(output, y)
    if weight.shape != values.shape:
        raise ShapeError(
            f"sample_weight must have shape {values.shape[:1]}, or {values.shape} for weights of targets, "
            f"got {weight.shape}"
        )
    total = abs(weight).sum() / values.shape[1]
    return Mean((values * weight).sum() / total, total, total)


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


def mean_per_output(loss: Loss, value: float, n_outputs: int) -> float:
    """Return the reported value of a mean loss: as in scikit-learn, a mean over outputs, not their sum."""
    return value / n_outputs if loss.mean_over_outputs else value


MIXING = "mixing"  # what an output of mixed rows has attached


def mixing_of(output: Tensor) -> Tensor | None:
    """Return the share of each row in an output of the eager pass of a model; None if rows are not mixed."""
    return attached_to(output).get(MIXING)


Checked = tuple[Tensor, Tensor | None]
Terms = tuple[Tensor, Tensor | None]


class Placed(Protocol):
    """A model or a network, whose arrays have a dtype and a device."""

    dtype: Any

    @property
    def device(self) -> Device: ...


def as_operand(model: Placed, x: Any, name: str | None = None) -> Any:
    """Return an array as a tensor of the model's dtype and device, its range checked if it has a name."""
    if isinstance(x, Tensor):
        return x
    if ops.is_sparse(x):
        # A sparse matrix keeps its dtype.
        return x if isinstance(x, ops.SparseSlot) else to_device(x, model.device)
    array = x if is_array(x) and type(x) is not np.ndarray else as_array(x)
    if array.dtype.kind == "f" and array.dtype != model.dtype:
        if name is not None:
            check_range(array, model.dtype, name)
        array = array.astype(model.dtype)
    return Tensor(to_device(array, model.device))


def as_operands(model: Placed, X: Any, are_checked: bool = False) -> Any:
    """Return the one input, or each of several, as `as_operand` does."""
    if isinstance(X, dict):
        return {name: as_operand(model, x, str(name) if are_checked else None) for name, x in X.items()}
    return as_operand(model, X, "X" if are_checked else None)


def checked_targets(model: ModelLike, y: Any, sample_weight: Any) -> Checked:
    """Return checked targets and weights as tensors; loops, which check all rows up front, skip this."""
    y = as_operand(model, y, "y")
    check_targets(model.loss_function, y)
    if sample_weight is not None:
        sample_weight = as_operand(model, sample_weight, "sample_weight")
        check_weights(sample_weight)
    return y, sample_weight


def batch_terms(
    model: ModelLike,
    output: Tensor,
    y: Any,
    sample_weight: Any,
    parameters: Iterable[Tensor] | None = None,
    strength: "Strength | None" = None,
    mixing: Tensor | None = None,
) -> Terms:
    """Return the two terms of the objective: mean loss, and L2 penalty or None."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    y = as_operand(model, y)
    if parameters is None:
        parameters = [p for _, p in model.module.own_parameters() if p.requires_grad] if model.alpha else ()
    strength = Strength(model.alpha) if strength is None else strength
    mixing = mixing_of(output) if mixing is None else mixing
    try:
        data, _, total = mean_term(model.loss_function, output, y, weight, mixing)
    except ValueError as error:
        note_last_layer(error, model.module)
        raise
    penalized = [p for p in parameters if p.ndim >= 2] if strength else []
    return data, ops.sum_squares(*penalized) * strength.over(total) if penalized else None


def batch_as_reported(
    model: ModelLike,
    output: Tensor,
    y: Any,
    sample_weight: Any,
    data: Tensor,
    penalty: Tensor | None,
    mixing: Tensor | None = None,
) -> Terms:
    """Return the reported values of what `batch_terms` returned: in the units of the targets."""
    loss = model.loss_function
    if loss.reporting is loss:
        return data, penalty
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    mixing = mixing_of(output) if mixing is None else mixing
    value = mean_term(loss.reporting, output, as_operand(model, y), weight, mixing).value
    # In the dtype of the mean loss, which is float64 where float32 cannot hold the values.
    return value, None if penalty is None else ops.astype(penalty, value.dtype) * loss.unit


def reported(model: ModelLike, result: StepResult) -> float:
    """Return the reported loss of a step's `result`: for regression losses, the mean over outputs."""
    return per_output(model, result.data_loss, result.output) + result.penalty


def mean_of(model: ModelLike, output: Any, y: Any, sample_weight: Any = None) -> Mean:
    """Return the mean loss of raw outputs, before `per_output`, without waiting for it."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    with no_grad():
        return mean_term(model.loss_function.reporting, Tensor(output), as_operand(model, y), weight)


def mean_loss(model: ModelLike, output: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
    """Return the reported mean loss of raw outputs, without penalty."""
    mean = mean_of(model, output, y, sample_weight)
    return per_output(model, mean.value.item(), output), float(mean.weight)


def per_output(model: ModelLike, loss: float, outputs: Any) -> float:
    """Return the reported value of a mean loss: for some losses, divided by the number of outputs per row."""
    return mean_per_output(model.loss_function, loss, math.prod(outputs.shape[1:]))
