"""Training steps over the rows of a data set: one operation after the other, or compiled."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from sknet.compile import Compiled
from sknet.engine._batches import Batches
from sknet.engine._layout import Gradient
from sknet.engine._model import Model
from sknet.engine._programs import Programs
from sknet.engine._stepping import eager_step
from sknet.engine._update import check_finite_step

__all__ = ["Block", "CompiledSteps", "EagerSteps", "Steps"]

MOST_BOUND = 256  # batches of an epoch up to which each has a program that reads it where it is
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
    """One operation after the other: on every device, for every module."""

    def __init__(self, model: Model, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._workspace = model.workspace()

    def step(self, chosen: Any, n_rows: int) -> Step:
        X, y, weight = self.batches.take(chosen)
        result = eager_step(self.model, *self._workspace, X, y, weight, self.check_finite)
        return self.model.reported(result), result.output.data


class CompiledSteps(Steps):
    """Captured, planned and replayed: one program for each number of rows, and one for the update."""

    def __init__(self, model: Model, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._programs = Programs(model)
        self._gradient = Gradient(model.layout, self._programs.gradient, {})
        self._by_rows: dict[int, Compiled] = {}
        self._by_start: dict[int, Compiled | None] = {}
        self.program_for(min(batches.size, batches.n_samples))

    def program_for(self, n_rows: int) -> Compiled:
        """Return the program that computes the gradient of so many rows."""
        found = self._by_rows.get(n_rows)
        if found is None:
            batch = self.batches.take(slice(0, n_rows))
            found = self._by_rows[n_rows] = self._programs.gradient_of(*batch)
        return found

    def _program_over(self, chosen: Any, n_rows: int) -> Compiled | None:
        """Return a program that reads the chosen rows where they are; None if they are to be gathered."""
        if not isinstance(chosen, slice) or self.batches.n_batches > MOST_BOUND:
            return None
        if chosen.start not in self._by_start:
            rows = self.batches.in_place(chosen)
            over = None if rows is None else self.program_for(n_rows).over((None, None, None, *rows, None))
            self._by_start[chosen.start] = over
        return self._by_start[chosen.start]

    def step(self, chosen: Any, n_rows: int) -> Step:
        model, programs, program = self.model, self._programs, self._program_over(chosen, n_rows)
        if program is None:
            program = self.program_for(n_rows)
            self.batches.take_into(chosen, *program.slots[3:6])
        changed, output, loss, penalty = programs.compute(program)
        if self.check_finite:
            check_finite_step(loss + penalty, self._gradient, programs.optimizer.squares)
        programs.apply()
        model.advance({name: value.copy() for name, value in changed.items()} if changed else changed)
        return model.per_output(loss, output.shape[-1]) + penalty, output
