"""Compiled steps kept from one `partial_fit` to the next."""

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from sknet.engine.loop._batches import Batches
from sknet.engine.loop._steps import CompiledSteps, Steps
from sknet.engine.state import structure_of

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["KeptSteps", "kept_steps"]


class KeptSteps:
    """The compiled steps of the last part, bound to the model's memory, without its rows."""

    def __init__(self) -> None:
        self._steps: CompiledSteps | None = None
        self._known: CompiledSteps | None = None  # steps whose code is all sknet's, as long as they hold
        self._form: Hashable = None

    def take(self, batches: Batches, how: Hashable) -> Steps | None:
        """Return the kept steps for these rows, if there are any; the loop looks whether they hold."""
        steps, self._steps = self._steps, None  # if anything fails from here on, none are kept
        before, self._form = self._form, _form_of(batches, how)
        if steps is None or before != self._form:
            self._known = None
            return None
        steps.rebind(batches)
        return steps

    def keep(self, model: "Model", steps: Steps) -> None:
        """Keep steps for the next part, if they can be; they are for the rows of the last `take`."""
        if not isinstance(steps, CompiledSteps):
            return
        if steps is not self._known:
            structure = structure_of(model.module, model.loss_function, model.optimizer)
            self._known = None if structure is None else steps
        if self._known is not None and self._form is not None:
            steps.release()
            self._steps = steps


def kept_steps(model: "Model") -> KeptSteps:
    """Return a model's kept steps; copies and pickles have none."""
    if model._kept_steps is None:
        model._kept_steps = KeptSteps()
    return model._kept_steps


def _form_of(batches: Batches, how: Hashable) -> Hashable:
    """Return all that steps depend on besides the model; None unless the rows are all of a dense array."""
    X, weight = batches.X, batches.weight
    arrays = (X, batches.y) if weight is None else (X, batches.y, weight)
    if batches.chosen is not None or any(type(x) is not np.ndarray for x in arrays):
        return None
    forms = [(x.shape, x.strides, x.dtype, x.flags.aligned) for x in arrays]
    return batches.size, batches.input_dtype, how, *forms
