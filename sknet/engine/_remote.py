"""Training by steps that other processes make, and steps split into gradient and update."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from sknet._parallel import Cache
from sknet.callbacks import Callback
from sknet.compile import Compiled
from sknet.core import no_grad
from sknet.engine._fit import Fit, History, Source
from sknet.engine._inputs import Batch, each_input
from sknet.engine._loop import Epochs, Loop, Outcome, Settings, Sums, Validation, run_loop
from sknet.engine._memory import Gradient
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import (
    advance,
    apply_update,
    batch_as_reported,
    batch_terms,
    check_finite_step,
    gradient_into,
    per_output,
    stepping_optimizer,
)
from sknet.engine._programs import Programs, not_compiled
from sknet.engine._runners import Block
from sknet.engine._scores import Score
from sknet.exceptions import CaptureError, GraphError

LACKS = {
    "batches": "a callback needs the batches themselves, which a fit over workers lacks in this process: "
    "leave out GradientMonitor, LearningRateFinder and other callbacks that read fit.batches, or fit what is "
    "in memory",
    "state": "a fit whose steps are made by other processes has no state to save in between: leave out "
    "Checkpoint and other callbacks that save it. The estimator can be saved after fit, and after each "
    "partial_fit",
}


class RemoteSteps(ABC):
    """Steps that other processes make, on a model whose state comes back after each block."""

    n_batches: int

    @abstractmethod
    def refresh(self) -> None:
        """Take the model anew if it has been changed here."""

    @abstractmethod
    def run(self, epoch: int, first: int, most: int) -> Sequence["tuple[float | None, int]"]:
        """Train on a block of consecutive batches, at least one, and load the state that comes of it."""


class _RemoteBatches:
    """Batches that callbacks see: their number, and an error for everything else."""

    def __init__(self, n_batches: int) -> None:
        self.n_batches = n_batches

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(LACKS["batches"])


class _RemoteEpochs(Epochs):
    """Epochs of such steps."""

    def __init__(self, fit: Fit, steps: RemoteSteps) -> None:
        super().__init__(fit, Sums(None, _no_targets))
        self._steps = steps

    @property
    def steps_name(self) -> str:
        return type(self._steps).__name__

    def refresh(self, n_iter: int) -> None:
        self._steps.refresh()

    def begin(self) -> None:
        """Do nothing: the order of an epoch follows from its number."""

    def has(self, number: int) -> bool:
        return number < self._steps.n_batches

    def train(self, number: int, most: int) -> tuple[int, np.ndarray[Any, Any]]:
        found = self._steps.run(self.fit.epoch, number, min(most, self._steps.n_batches - number))
        for loss, n_rows in found:
            if loss is None:
                self.sums.skip(n_rows)
            else:
                self.sums.add(Block(np.array([loss]), n_rows))
        return len(found), np.array([loss for loss, _ in found if loss is not None])

    def place(self, number: int) -> str:
        return f"epoch {self.fit.epoch}, batch {number + 1} of {self._steps.n_batches}"

    def state(self) -> dict[str, Any]:
        return _no_state()

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        _no_state()

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        return _no_state()


def _no_targets(part: slice) -> tuple[Any, Any, Any]:
    raise NotImplementedError  # outputs stay where the steps are made


def _no_state() -> NoReturn:
    raise ValueError(LACKS["state"])


def train_remotely(
    model: ModelLike,
    steps: RemoteSteps,
    history: History,
    settings: Settings,
    new_score: Callable[[], Score],
    validation: Validation | None = None,
    callbacks: Sequence[Callback] = (),
    source: Source | None = None,
) -> Outcome:
    """Train a model by the steps of other processes; everything else of the fit happens here."""
    stepping_optimizer(model)
    for callback in callbacks:
        if callback.needs is not None:
            raise ValueError(LACKS[callback.needs])
    total = model.progress.step + (settings.planned_steps or settings.max_iter * steps.n_batches)
    model.progress = model.progress.planned(total)
    fit = Fit(model, None, history, settings.max_iter, validation is not None, source)
    fit.batches = _RemoteBatches(steps.n_batches)
    fit.state = _no_state
    return run_loop(Loop(fit, _RemoteEpochs(fit, steps), new_score, validation), fit, callbacks)


MOST_SIZES = 8  # of batches, each with a program with its own memory


class Share(NamedTuple):
    """Contribution of some rows to a step."""

    loss: float
    penalty: float
    output: Any


class SplitStep:
    """A step that leaves room between gradient and update, to average gradients of many processes."""

    def __init__(self, model: ModelLike) -> None:
        self._model, self._optimizer = model, stepping_optimizer(model)
        self._programs = Programs(model) if model.compile and model.device.kind == "cpu" else None
        self._by_rows = Cache(MOST_SIZES)
        self._changed: Mapping[str, Any] = {}
        self.gradient = model.memory.zeros() if self._programs is None else self._programs.gradient

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a split step is bound to memory of this process and cannot be pickled or copied: pickle the "
            "model"
        )

    def room(self, like: Batch) -> Batch:
        program = self._program_for(like)
        if program is not None:
            return program.slots.batch
        X = each_input(lambda x: np.zeros(x.shape, x.dtype), like.X)
        y, weight = (None if x is None else np.zeros(x.shape, x.dtype) for x in like[1:])
        return Batch(X, y, weight)

    def _program_for(self, like: Batch) -> Compiled | None:
        if self._programs is None:
            return None
        n_rows = like.y.shape[0]
        found: Compiled | None = self._by_rows.get(n_rows)
        if found is None:
            try:
                found = self._programs.gradient_of(*like)
            except (CaptureError, GraphError) as error:
                if self._model.compile is True:
                    raise
                not_compiled(error)
                self._programs = None
                return None
            self._by_rows.put(n_rows, found)
        return found

    def compute(self, batch: Batch) -> Share:
        """Compute the gradient of the objective of a batch; the model does not change."""
        model = self._model
        if self._programs is None:
            return self._eager(batch)
        program = self._by_rows.get(batch.y.shape[0])
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
