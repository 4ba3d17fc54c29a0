"""Training steps over the rows of a data set: eager or compiled."""

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sknet._parallel import Threads
from sknet.compile import Compiled
from sknet.device import namespace
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._blas import threads_for
from sknet.engine.loop._outputs import Outputs
from sknet.engine.state import Fingerprint, Gradient
from sknet.engine.step import (
    Batch,
    GradientInputs,
    Programs,
    advance,
    check_finite_step,
    eager_step,
    per_output,
    reported,
)
from sknet.exceptions import NonFiniteError
from sknet.nn.extend import latest
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["NO_LOSSES", "SECONDS", "Block", "CompiledSteps", "EagerSteps", "Steps", "steps_at_once"]

NO_LOSSES: np.ndarray[Any, Any] = np.zeros(0)
SECONDS = 0.05  # approximate duration of a block, and thus the delay of Ctrl-C
MOST_BOUND = 256  # up to this many batches per epoch, each has its own program, bound to the data


class Block(NamedTuple):
    """The results of training on some batches."""

    losses: Any
    n_rows: int


class Steps(ABC):
    """Trains a model on the rows of a data set, in place."""

    def __init__(self, model: "Model", batches: Batches, check_finite: bool) -> None:
        self.model, self.batches, self.check_finite = model, batches, check_finite

    @property
    def name(self) -> str:
        """The kind of steps."""
        return type(self).__name__

    @property
    def threads_needed(self) -> Threads:
        """Number of threads that are enough for the products."""
        return Threads()

    def look_ahead_by(self, next_order: Callable[[], Any]) -> None:
        """Let steps that a device computes ask for the next order before they wait for it."""

    def rows_of(self, order: Any, part: slice) -> Any:
        """Return the numbers of consecutive rows of an epoch, where targets and weights are."""
        return part if order is None else order[part]

    @abstractmethod
    def hold(self) -> bool:
        """Tell whether these steps are still valid, because nothing that they depend on has changed."""

    @abstractmethod
    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        """Train on one block of batches, at least one."""

    def give_back(self) -> None:
        """End with these steps: let other fits use them, if they are shared."""

    def epochs_at_once(self, most: int) -> int:
        """Return how many whole epochs `run_epochs` trains on, at most these; 1 if it cannot."""
        return 1

    def run_epochs(self, orders: np.ndarray, progress: Sequence[Progress], scored: bool) -> tuple[Any, Any]:
        """Train on whole epochs, one after the other, without counting the steps."""
        raise NotImplementedError

    def _at_once(self, order: Any, first: int, most: int, per_step: float) -> int:
        """Return how many steps a block has if one takes `per_step`; 0 if the first batch has zero weight."""
        return self.batches.in_a_row(order, first, min(most, steps_at_once(per_step)))


def steps_at_once(per_step: float) -> int:
    """Return how many steps a block has if one takes `per_step` seconds."""
    return max(1, int(SECONDS / per_step))


class EagerSteps(Steps):
    """Eager steps: on every device, for every module."""

    def __init__(self, model: "Model", batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._workspace = model.memory.workspace()
        self._hooks = latest.hooks

    def hold(self) -> bool:
        return self._hooks is latest.hooks  # once hooks are removed, steps may be compilable

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        chosen, n_rows = self.batches.part(order, first)
        X, y, weight = self.batches.take(chosen)
        result = eager_step(self.model, *self._workspace, X, y, weight, self.check_finite)
        if outputs is not None:
            output = result.output.data
            outputs.free(n_rows, output.shape[1:], output.dtype, namespace(output))[:n_rows] = output
        return Block(np.array([reported(self.model, result)]), n_rows)


class CompiledSteps(Steps):
    """Compiled steps: one program for each number of rows, and one for the update."""

    def __init__(self, model: "Model", batches: Batches, check_finite: bool, buffers: Any = None) -> None:
        super().__init__(model, batches, check_finite)
        self._programs = Programs(model, buffers=buffers)
        self._gradient = Gradient(model.memory.layout, self._programs.gradient, {})
        self._by_rows: dict[int, Compiled] = {}
        self._by_start: dict[int, Compiled | None] = {}
        self._per_step = math.inf  # seconds; so that the first block has one step
        self._output = self.program_for(min(batches.size, batches.n_samples)).returns.output
        self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)

    @property
    def threads_needed(self) -> Threads:
        return threads_for(self.program_for(min(self.batches.size, self.batches.n_samples)).plan)

    @property
    def draws(self) -> bool:
        """True if steps draw random numbers, so that they depend on the model's seed."""
        return any(program.draws for program in self._by_rows.values())

    def lend(self, model: "Model", batches: Batches) -> None:
        """Go on with another model of the same structure, whose memory is copied to and from the buffers."""
        self.model = model
        self._programs.lend(model)
        for program in self._by_rows.values():
            self._programs.set_strength(program)
        self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
        self.rebind(batches)

    def hold(self) -> bool:
        return self._programs.are_of(self.model) and self._fingerprint.holds()

    def rebind(self, batches: Batches) -> None:
        """Go on with other rows of the same shapes, dtypes and layouts."""
        self.batches = batches

    def release(self) -> None:
        """Forget the rows, until others are bound."""
        del self.batches
        self._by_start.clear()

    def let_go(self) -> None:
        """Forget rows and model, until others are lent."""
        self.release()
        del self.model, self._fingerprint
        self._programs.let_go()

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that the programs work in, with what they read."""
        programs = (*self._by_rows.values(), self._programs.update)
        return sum(program.nbytes + program.nbytes_taken for program in programs)

    def program_for(self, n_rows: int) -> Compiled:
        """Return the program that computes the gradient for this number of rows."""
        found = self._by_rows.get(n_rows)
        if found is None:
            batch = self.batches.take(slice(0, n_rows))
            found = self._by_rows[n_rows] = self._programs.gradient_of(*batch)
        return found

    def _program_over(self, chosen: Any, n_rows: int) -> Compiled | None:
        """Return a program bound to the chosen rows of X; None if they must be gathered."""
        if not isinstance(chosen, slice) or self.batches.n_batches > MOST_BOUND:
            return None
        if chosen.start not in self._by_start:
            rows = self.batches.in_place(chosen)
            over = None if rows is None else self._program_reading(rows, n_rows)
            self._by_start[chosen.start] = over
        return self._by_start[chosen.start]

    def _program_reading(self, rows: Batch, n_rows: int) -> Compiled:
        slots = GradientInputs(None, None, {}, *rows, None)
        return self.program_for(n_rows).over(slots)

    def _given(self, order: Any, number: int) -> Compiled:
        """Return a program whose slots hold a batch."""
        chosen, n_rows = self.batches.part(order, number)
        program = self._program_over(chosen, n_rows)
        if program is None:
            program = self.program_for(n_rows)
            self.batches.take_into(chosen, *program.slots.batch)
        return program

    def _free(self, n_rows: int, outputs: Outputs | None) -> Any:
        """Return memory for the outputs of at least one batch; None if no score reads them."""
        if outputs is None:
            return None
        return outputs.free(n_rows, self._output.shape[1:], self._output.dtype)

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        _, n_rows = self.batches.part(order, first)
        room = self._free(n_rows, outputs)
        most = most if room is None else min(most, len(room) // n_rows)
        steps = self._at_once(order, first, most, self._per_step)
        started = time.perf_counter()
        block = self._replay(order, first, n_rows, max(steps, 1), room)
        self._per_step = (time.perf_counter() - started) / len(block.losses)
        return block

    def _replay(self, order: Any, first: int, n_rows: int, steps: int, room: Any) -> Block:
        model, programs = self.model, self._programs
        numbers = programs.optimizer.hyper_table(model.progress, steps)
        losses = np.zeros(steps)
        for i in range(steps):
            changed, output, loss, penalty = programs.compute(self._given(order, first + i))
            if self.check_finite:
                try:
                    check_finite_step(loss + penalty, self._gradient, programs.optimizer.squares)
                except NonFiniteError:
                    if not i:
                        raise
                    return Block(losses[:i], i * n_rows)  # the next block raises the error
            programs.apply(numbers[i])
            advance(model, {name: value.copy() for name, value in changed.items()})
            losses[i] = per_output(model, loss, output) + penalty
            if room is not None:
                room[i * n_rows : (i + 1) * n_rows] = output
        return Block(losses, steps * n_rows)
