"""Named inputs and outputs of the programs of a step."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from sknet._fields import COUNT, Dtypes, Each, Either, Items, Named

__all__ = [
    "Batch",
    "DeviceInputs",
    "DeviceOutputs",
    "GradientInputs",
    "GradientOutputs",
    "SparseForm",
    "UpdateOutputs",
]


# An array, or the form of one that is not kept.
FORM = Either(np.ndarray, Named("MetaArray", "SparseForm"))


class Batch(NamedTuple):
    """A batch of rows.

    Attributes
    ----------
    X : array or sparse matrix of shape (n_rows, ...)
        Inputs.
    y : array of shape (n_rows, ...)
        Targets as the loss expects them.
    weight : array of shape (n_rows,) or None
        Sample weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import Batch
    >>> Batch(np.ones((4, 2)), np.zeros((4, 1)), None).X.shape
    (4, 2)
    """

    X: Annotated[Any, Either(FORM, Items(str, FORM))]
    y: Annotated[Any, FORM]
    weight: Annotated[Any, Either(FORM, None)]


class SparseForm(NamedTuple):
    """What a step has to know of a sparse input.

    Attributes
    ----------
    shape : tuple of two int
        Of a batch.
    dtype : dtype
        Of the elements.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import SparseForm
    >>> SparseForm((4, 2), np.dtype("float32")).shape
    (4, 2)
    """

    shape: Annotated[tuple[int, ...], Each(tuple, COUNT)]
    dtype: Annotated[np.dtype[Any], Dtypes("biuf")]


class GradientInputs(NamedTuple):
    """The inputs of a gradient: arrays, or the slots for them.

    Attributes
    ----------
    flat, gradient : array of shape (size,)
        Parameters, and memory for their gradient.
    untrained : mapping of str to array
        Buffers and frozen parameters.
    X, y, weight : array, array, array or None
        The batch; a `SparseSlot` for a sparse X.
    counter : array of shape ()
        Counter of the random stream.
    strength : array of shape () or None
        Half of `alpha`, divided by the divisor of the penalty if that is a number; None if `alpha` is 0.
    """

    flat: Any
    gradient: Any
    untrained: Mapping[str, Any]
    X: Any
    y: Any
    weight: Any
    counter: Any
    strength: Any = None

    @property
    def batch(self) -> Batch:
        """The batch."""
        return Batch(self.X, self.y, self.weight)


class GradientOutputs(NamedTuple):
    """The outputs of a gradient.

    Attributes
    ----------
    gradient : array of shape (size,)
        Gradient of the objective.
    changed : mapping of str to array
        Buffers that the pass has changed.
    output : array of shape (n_rows, ...)
        Raw outputs.
    data, penalty : array of shape ()
        The two terms of the objective.
    divisor : int
        What `strength` among the inputs has to be divided by.
    """

    gradient: Any
    changed: Mapping[str, Any]
    output: Any
    data: Any
    penalty: Any
    divisor: int = 1


class UpdateOutputs(NamedTuple):
    """The outputs of an update.

    Attributes
    ----------
    flat : array of shape (size,)
        The new parameters.
    slots : mapping of str to array of shape (size,)
        The new state of the optimizer.
    delta : array of shape (size,) or None
        The change of the parameters, if requested.
    """

    flat: Any
    slots: Mapping[str, Any]
    delta: Any = None


class DeviceInputs(NamedTuple):
    """The inputs of a whole step on a device: all state, and a batch.

    Attributes
    ----------
    flat, slots, untrained : array, mapping, mapping
        Parameters, the optimizer's state, buffers and frozen parameters.
    counter, is_fine : array of shape ()
        Counter of the random stream; whether all steps so far were finite.
    hyper : mapping of str to array of shape ()
        Scalars of the update.
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
    """The outputs of a whole step on a device: the new state, raw outputs and a report.

    Attributes
    ----------
    flat, slots, untrained, counter, is_fine
        As the inputs, after the step.
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
