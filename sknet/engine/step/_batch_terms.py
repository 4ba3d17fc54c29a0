"""The objective of a model's batch: its two terms, and their reported values."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet._frames import as_array
from sknet.core import Tensor, no_grad
from sknet.device import is_array, to_device
from sknet.engine.state import StepResult, each_input
from sknet.engine.step import _objective
from sknet.engine.step._checks import check_targets, check_weights, note_last_layer

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = [
    "as_operand",
    "as_operands",
    "batch_as_reported",
    "batch_terms",
    "checked_targets",
    "mean_loss",
    "per_output",
    "reported",
]

Checked = tuple[Tensor, Tensor | None]
Terms = tuple[Tensor, Tensor | None]


def as_operand(model: "Model", x: Any) -> Any:
    """Return an array as a tensor of the model's dtype and device; sparse matrices keep their dtype."""
    if isinstance(x, Tensor):
        return x
    if ops.is_sparse(x):
        return x if isinstance(x, ops.SparseSlot) else to_device(x, model.device)
    array = x if is_array(x) and type(x) is not np.ndarray else as_array(x)
    if array.dtype.kind == "f" and array.dtype != model.dtype:
        array = array.astype(model.dtype)
    return Tensor(to_device(array, model.device))


def as_operands(model: "Model", X: Any) -> Any:
    """Return the one input, or each of several, as `as_operand` does."""
    return each_input(lambda x: as_operand(model, x), X)


def checked_targets(model: "Model", y: Any, sample_weight: Any) -> Checked:
    """Return checked targets and weights as tensors; loops, which check all rows up front, skip this."""
    y = as_operand(model, y)
    check_targets(model.loss_function, y)
    if sample_weight is not None:
        sample_weight = as_operand(model, sample_weight)
        check_weights(sample_weight)
    return y, sample_weight


def batch_terms(
    model: "Model",
    output: Tensor,
    y: Any,
    sample_weight: Any,
    parameters: Iterable[Tensor] | None = None,
    strength: "_objective.Strength | None" = None,
) -> Terms:
    """Return the two terms of the objective: mean loss, and L2 penalty or None."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    y = as_operand(model, y)
    if parameters is None:
        parameters = [p for _, p in model.module.own_parameters() if p.requires_grad] if model.alpha else ()
    strength = _objective.Strength(model.alpha) if strength is None else strength
    try:
        return _objective.terms(model.loss_function, strength, output, y, weight, parameters)
    except ValueError as error:
        note_last_layer(error, model.module)
        raise


def batch_as_reported(
    model: "Model", output: Tensor, y: Any, sample_weight: Any, data: Tensor, penalty: Tensor | None
) -> Terms:
    """Return the reported values of what `batch_terms` returned: in the units of the targets."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    y = as_operand(model, y)
    return _objective.as_reported(model.loss_function, output, y, weight, data, penalty)


def reported(model: "Model", result: StepResult) -> float:
    """Return the reported loss of a step's `result`: for regression losses, the mean over outputs."""
    return per_output(model, result.data_loss, result.output) + result.penalty


def mean_loss(model: "Model", output: Any, y: Any, sample_weight: Any = None) -> tuple[float, float]:
    """Return the reported mean loss of raw outputs, without penalty."""
    weight = None if sample_weight is None else as_operand(model, sample_weight)
    with no_grad():
        loss = model.loss_function.reporting
        mean = _objective.mean_term(loss, Tensor(output), as_operand(model, y), weight)
    return per_output(model, mean.value.item(), output), float(mean.weight)


def per_output(model: "Model", loss: float, outputs: Any) -> float:
    """Return the reported value of a mean loss: for some losses, divided by the number of outputs per row."""
    return _objective.per_output(model.loss_function, loss, math.prod(outputs.shape[1:]))
