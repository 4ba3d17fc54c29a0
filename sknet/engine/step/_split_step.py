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
    """What some rows contribute to a step.

    Attributes
    ----------
    loss, penalty : float
        The two terms of the objective, as they are reported.
    output : array of shape (n_rows, ...)
        Raw outputs, valid until the next gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import Share
    >>> Share(loss=0.5, penalty=0.1, output=np.zeros((4, 1))).loss
    0.5
    """

    loss: float
    penalty: float
    output: Any


class SplitStep:
    """A step that leaves room between gradient and update, to average gradients of many processes.

    Parameters
    ----------
    model : Model
        The model to train, in place; module, loss and optimizer must not change meanwhile.

    Attributes
    ----------
    gradient : array of shape (layout.size,)
        Written by `compute`, read by `update`.

    Raises
    ------
    GradientError
        If the model has no trainable parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine.extend import Batch, SplitStep
    >>> model = Model(nn.Linear(2, 1), random_state=0)
    >>> step = SplitStep(model)
    >>> room = step.room(Batch(np.eye(2, dtype="f4"), np.ones((2, 1), "f4"), None))
    >>> room.X[...], room.y[...] = np.eye(2), np.ones((2, 1))
    >>> share = step.compute(room)
    >>> step.gradient *= 0.5
    >>> step.update()
    >>> model.progress.step
    1
    """

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
        """Return arrays to write a batch to.

        Parameters
        ----------
        like : Batch
            With the shapes and dtypes of the batch; its values are not read.

        Returns
        -------
        Batch
            For `compute`; kept for the next batch with as many rows.

        Raises
        ------
        CaptureError
            With ``compile=True``, if the step cannot be captured.

        Warns
        -----
        UserWarning
            If the step cannot be captured: it is then eager.
        """
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
        """Compute the gradient of the objective of a batch; the model does not change.

        Parameters
        ----------
        batch : Batch
            What `room` returned last, filled.

        Returns
        -------
        Share
            Loss and outputs.
        """
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
        """Raise for a loss or a gradient that is not finite.

        Parameters
        ----------
        loss : float
            Of the step.

        Raises
        ------
        NonFiniteError
            Names the first parameter whose gradient is not finite.
        """
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
