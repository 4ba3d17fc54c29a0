"""A training step in two halves: the gradient of some rows, and the update by whatever became of it."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from sknet.compile import Compiled
from sknet.core import no_grad
from sknet.engine.state import Gradient, each_input, stepping_optimizer
from sknet.engine.step._batch_terms import batch_as_reported, batch_terms, per_output
from sknet.engine.step._programs import Programs
from sknet.engine.step._signature import Batch
from sknet.engine.step._stepper import not_compiled
from sknet.engine.step._update import advance, apply_update, check_finite_step, gradient_into
from sknet.exceptions import CaptureError, GraphError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Share", "SplitStep"]

KEPT = 8  # programs, one for each number of rows, each with its own memory


class Share(NamedTuple):
    """Contribution of some rows to a step."""

    loss: float
    penalty: float
    output: Any


class SplitStep:
    """A step that leaves room between gradient and update, to average gradients of many processes."""

    def __init__(self, model: "Model") -> None:
        self._model, self._optimizer = model, stepping_optimizer(model)
        self._programs = Programs(model) if model.compile and model.device.kind == "cpu" else None
        self._by_rows: OrderedDict[int, Compiled] = OrderedDict()
        self._changed: Mapping[str, Any] = {}
        self.gradient = model.memory.zeros() if self._programs is None else self._programs.gradient

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a split step is bound to memory of this process and cannot be pickled or copied: pickle the "
            "model"
        )

    def room(self, like: Batch) -> Batch:
        """Return arrays to write a batch to."""
        program = self._program_for(like)
        if program is not None:
            found: Batch = program.slots.batch
            return found
        X = each_input(lambda x: np.zeros(x.shape, x.dtype), like.X)
        y, weight = (None if x is None else np.zeros(x.shape, x.dtype) for x in like[1:])
        return Batch(X, y, weight)

    def _program_for(self, like: Batch) -> Compiled | None:
        if self._programs is None:
            return None
        n_rows = like.y.shape[0]
        if n_rows not in self._by_rows:
            try:
                self._by_rows[n_rows] = self._programs.gradient_of(*like)
            except (CaptureError, GraphError) as error:
                if self._model.compile is True:
                    raise
                not_compiled(error, stacklevel=4)
                self._programs = None
                return None
        self._by_rows.move_to_end(n_rows)
        if len(self._by_rows) > KEPT:
            self._by_rows.popitem(last=False)
        return self._by_rows[n_rows]

    def compute(self, batch: Batch) -> Share:
        """Compute the gradient of the objective of a batch; the model does not change."""
        model = self._model
        if self._programs is None:
            return self._eager(batch)
        program = self._by_rows[batch.y.shape[0]]
        self._changed, output, loss, penalty = self._programs.compute(program)
        return Share(per_output(model, loss, output), penalty, output)

    def _eager(self, batch: Batch) -> Share:
        model = self._model
        output = model(batch.X)
        data, penalty = batch_terms(model, output, batch.y, batch.weight)
        loss = data if penalty is None else data + penalty
        self._changed = gradient_into(model.memory, self.gradient, loss).buffers
        with no_grad():
            data, penalty = batch_as_reported(model, output, batch.y, batch.weight, data, penalty)
        value = per_output(model, data.item(), output)
        return Share(value, 0.0 if penalty is None else penalty.item(), output.data)

    def check(self, loss: float) -> None:
        """Raise for a loss or a gradient that is not finite."""
        gradient = Gradient(self._model.memory.layout, self.gradient, {})
        check_finite_step(loss, gradient, self._optimizer.squares)

    def update(self) -> None:
        """Make the optimizer's update by `gradient`, and take the buffers that the last batch changed."""
        model, optimizer = self._model, self._optimizer
        if self._programs is not None:
            self._programs.apply(tuple(optimizer.hyper(model.progress.step + 1, model.progress).values()))
        else:
            memory = model.memory
            apply_update(optimizer, memory.layout, model.progress, self.gradient, *memory.flat_buffers())
        advance(model, {name: array.copy() for name, array in self._changed.items()})
        self._changed = {}
        model.memory.note_written("a fit")
