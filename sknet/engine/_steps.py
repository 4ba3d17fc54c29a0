"""Training steps over the rows of a data set: one operation after the other, or compiled."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sknet import ops
from sknet.compile import Compiled
from sknet.compile import compile as compiled
from sknet.core import Tensor, gradients
from sknet.engine._batches import Batches
from sknet.engine._layout import Gradient
from sknet.engine._model import Model
from sknet.engine._update import check_finite_step
from sknet.nn._scope import Scope, run
from sknet.optim import Optimizer

__all__ = ["Block", "CompiledSteps", "EagerSteps", "Steps"]

Step = tuple[float, Any]  # the loss as it is reported, and the raw output before the update


class Block(NamedTuple):
    """What training on some batches gave.

    Attributes
    ----------
    losses : sequence of float
        Of each batch, as it is reported.
    outputs : array of shape (n_rows, n_outputs)
        The raw outputs before the updates, of all rows; valid until the next block.
    """

    losses: Any
    outputs: Any


class Steps(ABC):
    """Trains a model on chosen rows of a data set, in place.

    Parameters
    ----------
    model : Model
        Trained.
    batches : Batches
        The rows.
    check_finite : bool
        Raise for a loss or gradient that is not finite, before anything is updated.
    """

    def __init__(self, model: Model, batches: Batches, check_finite: bool) -> None:
        self.model, self.batches, self.check_finite = model, batches, check_finite

    def run(self, order: Any, first: int) -> Block:
        """Train on as many batches as are done at once, at least one.

        Parameters
        ----------
        order : ndarray of int or None
            The order of the epoch's rows; None for the order of the data.
        first : int
            Number of the first batch.

        Returns
        -------
        Block
            Losses and outputs of the batches done.

        Raises
        ------
        NonFiniteError
            If loss or gradient of the first batch is not finite; nothing was updated then.
        """
        loss, output = self.step(*self.batches.part(order, first))
        return Block((loss,), output)

    @abstractmethod
    def step(self, chosen: Any, n_rows: int) -> Step:
        """Train on the chosen rows.

        Parameters
        ----------
        chosen : slice or ndarray of int
            Which of the batches' rows.
        n_rows : int
            How many.

        Returns
        -------
        loss : float
            As it is reported.
        output : array of shape (n_rows, n_outputs)
            The raw output before the update; valid until the next step.

        Raises
        ------
        NonFiniteError
            If loss or gradient is not finite; nothing was updated then.
        """


class EagerSteps(Steps):
    """One operation after the other: on every device, for every module and for sparse inputs."""

    def __init__(self, model: Model, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._workspace = model.workspace()

    def step(self, chosen: Any, n_rows: int) -> Step:
        X, y, weight = self.batches.take(chosen)
        result = self.model.step_into(*self._workspace, X, y, weight, self.check_finite)
        return self.model.reported(result), result.output.data


class CompiledSteps(Steps):
    """Captured, planned and replayed: one program for each number of rows, and one for the update.

    All programs work on the model's own flat buffers, so the model is trained in place. Gradient
    and update are programs apart, so that a gradient can be looked at before anything is changed.
    """

    def __init__(self, model: Model, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        optimizer = model.optimizer
        assert isinstance(optimizer, Optimizer)
        self._optimizer = optimizer
        flat, slots = model.flat_buffers()
        self._gradient = np.zeros_like(flat)
        self._hyper = {name: np.zeros((), flat.dtype) for name in optimizer.hyper(1, model.progress)}
        args = (flat, slots, self._gradient, self._hyper)
        self._update = compiled(_update_function(optimizer), args, donate=(0, 1), slots=args)
        self._programs: dict[int, Compiled] = {}
        self.program_for(min(batches.size, batches.n_samples))

    def program_for(self, n_rows: int) -> Compiled:
        """Return the program that computes the gradient of so many rows."""
        found = self._programs.get(n_rows)
        if found is None:
            function = _gradient_function(self.model, weighted=self.batches.weight is not None)
            flat, _ = self.model.flat_buffers()
            X, y, weight = self.batches.take(slice(0, n_rows))
            buffers = dict(self.model.buffers)
            counter = np.zeros((), np.int64)
            args = (flat, self._gradient, buffers, X, y, weight, counter)
            slots = (flat, self._gradient, None, None, None, None, None)
            found = self._programs[n_rows] = compiled(function, args, donate=(1,), slots=slots)
        return found

    def step(self, chosen: Any, n_rows: int) -> Step:
        model, program = self.model, self.program_for(n_rows)
        _, _, buffers, X, y, weight, counter = program.slots
        self.batches.take_into(chosen, X, y, weight)
        counter[...] = model.progress.step
        if buffers:
            known = model.buffers
            for name, slot in buffers.items():
                slot[...] = known[name]
        program.run()
        _, changed, output, data, penalty = program.result
        data_loss, penalty_value = data.item(), penalty.item()
        if self.check_finite:
            loss = data_loss + penalty_value
            check_finite_step(loss, Gradient(model.layout, self._gradient, {}))
        for name, value in self._optimizer.hyper(model.progress.step + 1, model.progress).items():
            self._hyper[name][...] = value
        self._update.run()
        model.advance({name: value.copy() for name, value in changed.items()})
        return model.per_output(data_loss, output.shape[-1]) + penalty_value, output


def _gradient_function(model: Model, weighted: bool) -> Any:
    """Return the pure function from parameters and a batch to gradient, buffers, output and loss."""
    layout, places = model.layout, model.bindings()

    def evaluate(
        flat: Tensor,
        gradient: Tensor,
        buffers: Mapping[str, Tensor],
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
        counter: Tensor,
    ) -> tuple[Any, ...]:
        leaf = flat.detach()
        leaf.requires_grad = True
        values = {name: leaf[part].reshape(layout.shapes[name]) for name, part in layout.slices.items()}
        bound = {places[name]: value for name, value in (*values.items(), *buffers.items())}
        scope = Scope(bound, True, model.key, counter)
        output = run(model.module, scope, (X,))
        data, penalty = model.terms(output, y, weight, list(values.values()))
        [found] = gradients(data if penalty is None else data + penalty, [leaf])
        changed = {name: scope.updates[places[name]] for name in buffers if places[name] in scope.updates}
        return found, changed, output, data, ops.zeros_like(data) if penalty is None else penalty

    return evaluate


def _update_function(optimizer: Optimizer) -> Any:
    """Return the pure function from gradient and state to new parameters and state."""

    def update(
        flat: Tensor, slots: Mapping[str, Tensor], gradient: Tensor, hyper: Mapping[str, Tensor]
    ) -> Any:
        before = tuple([slots[name] for name in optimizer.slots])
        delta, after = optimizer.rule(gradient, flat, before, hyper)
        return flat + delta, dict(zip(optimizer.slots, after, strict=True))

    return update
