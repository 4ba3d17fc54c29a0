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
    """A batch of rows."""

    X: Annotated[Any, Either(FORM, Items(str, FORM))]
    y: Annotated[Any, FORM]
    weight: Annotated[Any, Either(FORM, None)]


class SparseForm(NamedTuple):
    """Form of a sparse input, as a step needs to know it."""

    shape: Annotated[tuple[int, ...], Each(tuple, COUNT)]
    dtype: Annotated[np.dtype[Any], Dtypes("biuf")]


class GradientInputs(NamedTuple):
    """The inputs of a gradient: arrays, or the slots for them."""

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
    """The outputs of a gradient."""

    gradient: Any
    changed: Mapping[str, Any]
    output: Any
    data: Any
    penalty: Any
    divisor: int = 1


class UpdateOutputs(NamedTuple):
    """The outputs of an update."""

    flat: Any
    slots: Mapping[str, Any]
    delta: Any = None


class DeviceInputs(NamedTuple):
    """The inputs of a whole step on a device: all state, and a batch."""

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
    """The outputs of a whole step on a device: the new state, raw outputs and a report."""

    flat: Any
    slots: Mapping[str, Any]
    untrained: Mapping[str, Any]
    counter: Any
    is_fine: Any
    output: Any
    report: Any
