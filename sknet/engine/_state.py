"""What a model's state is, and what a step returns."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Tensor
from sknet.engine._layout import Gradient
from sknet.optim import OptimizerState
from sknet.optim.schedules import Progress

__all__ = ["ModelState", "StepResult", "copied_random_state", "frozen"]


class ModelState(NamedTuple):
    """Everything that a training step changes, as values that cannot be changed.

    Attributes
    ----------
    parameters : mapping of str to array
        Read-only arrays.
    optimizer : OptimizerState
        Update count, and flat arrays by slot name.
    buffers : mapping of str to array
        Read-only arrays.
    progress : Progress
        Steps, epochs and samples so far.
    """

    parameters: Mapping[str, Any]
    optimizer: OptimizerState
    buffers: Mapping[str, Any]
    progress: Progress


class StepResult(NamedTuple):
    """What one training step did.

    Attributes
    ----------
    loss : float
        The objective before the update: mean loss of the batch plus penalty.
    gradient : Gradient
        Gradient of the objective, an array for every parameter name.
    update : mapping of str to array
        What was added to every parameter.
    output : Tensor of shape (n_samples, n_outputs)
        The module's raw output before the update.
    data_loss, penalty : float
        The two terms of `loss`.
    """

    loss: float
    gradient: Gradient
    update: Mapping[str, Any]
    output: Tensor
    data_loss: float
    penalty: float


def copied_random_state(random_state: np.random.RandomState) -> np.random.RandomState:
    """Return a random state of its own that draws the same numbers."""
    copy = np.random.RandomState()
    copy.set_state(random_state.get_state())
    return copy


def frozen(array: Any) -> Any:
    """Make an array read-only where its device knows such a thing."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array
