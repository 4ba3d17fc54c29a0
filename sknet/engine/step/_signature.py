"""What goes into the programs of a step, and what comes out, by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Batch", "DeviceInputs", "DeviceOutputs", "GradientInputs", "GradientOutputs", "UpdateOutputs"]


class Batch(NamedTuple):
    """Some rows.

    Attributes
    ----------
    X : array or sparse matrix of shape (n_rows, ...)
        Inputs.
    y : array of shape (n_rows, ...)
        Targets as the loss reads them.
    weight : array of shape (n_rows,) or None
        Sample weights.
    """

    X: Any
    y: Any
    weight: Any


class GradientInputs(NamedTuple):
    """What the gradient of a batch is computed from: arrays, or the slots for them.

    Attributes
    ----------
    flat, gradient : array of shape (size,)
        Parameters, and memory for their gradient.
    untrained : mapping of str to array
        Buffers and frozen parameters.
    X, y, weight : array, array, array or None
        The batch; a `SparseSlot` for a sparse X.
    counter : array of shape ()
        Of the random stream.
    """

    flat: Any
    gradient: Any
    untrained: Mapping[str, Any]
    X: Any
    y: Any
    weight: Any
    counter: Any

    @property
    def batch(self) -> Batch:
        """The part that is the batch."""
        return Batch(self.X, self.y, self.weight)


class GradientOutputs(NamedTuple):
    """What the gradient of a batch gives.

    Attributes
    ----------
    gradient : array of shape (size,)
        Of the objective.
    changed : mapping of str to array
        The buffers that the pass has changed.
    output : array of shape (n_rows, ...)
        Raw outputs.
    data, penalty : array of shape ()
        The two terms of the objective.
    """

    gradient: Any
    changed: Mapping[str, Any]
    output: Any
    data: Any
    penalty: Any


class UpdateOutputs(NamedTuple):
    """What an update gives.

    Attributes
    ----------
    flat : array of shape (size,)
        The new parameters.
    slots : mapping of str to array of shape (size,)
        The new state of the optimizer.
    delta : array of shape (size,) or None
        What was added to the parameters, if that was asked for.
    """

    flat: Any
    slots: Mapping[str, Any]
    delta: Any = None


class DeviceInputs(NamedTuple):
    """What a whole step on a device is computed from: all state, and a batch.

    Attributes
    ----------
    flat, slots, untrained : array, mapping, mapping
        Parameters, the optimizer's state, buffers and frozen parameters.
    counter, is_fine : array of shape ()
        Of the random stream; whether all steps so far were finite.
    hyper : mapping of str to array of shape ()
        Numbers of the update.
    X, y, weight : array, array, array or None
        The batch.
    """

    flat: Any
    slots: Mapping[str, Any]
    untrained: Mapping[str, Any]
    counter: Any
    is_fine: Any
    hyper: Mapping[str, Any]
    X: Any = None
    y: Any = None
    weight: Any = None


class DeviceOutputs(NamedTuple):
    """What a whole step on a device gives: the state after, raw outputs and a report.

    Attributes
    ----------
    flat, slots, untrained, counter, is_fine
        As they went in, after the step.
    output : array of shape (n_rows, ...)
        Raw outputs.
    report : array of shape (3,)
        Loss, penalty, and 1 if the step was finite.
    """

    flat: Any
    slots: Mapping[str, Any]
    untrained: Mapping[str, Any]
    counter: Any
    is_fine: Any
    output: Any
    report: Any
