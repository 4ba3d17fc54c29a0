"""The training loop: blocks of steps, sums of losses and scores, held-out rows, saved states."""

import math
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.callbacks import Callback
from sknet.device import Device, active, namespace, to_device, to_host
from sknet.engine._batches import Batches
from sknet.engine._fit import Fit, Hooks, KeptError, Record
from sknet.engine._inputs import n_rows
from sknet.engine._model_type import ModelLike
from sknet.engine._network import predict_raw
from sknet.engine._objective import mean_loss
from sknet.engine._runners import Block, Outputs
from sknet.engine._scheduler import InterruptGuard, current_group
from sknet.engine._scores import Score, may_wait
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, NonFiniteError, StateError

__all__ = ["Epochs", "Loop", "Outcome", "Sums", "Validation", "run_loop"]


Targets = Callable[[slice], tuple[Any, Any, Any]]


class Sums:
    """Sums over the batches of an epoch, independent of how batches are grouped into blocks."""

    score: Score

    def __init__(self, n_samples: int | None, targets: Targets) -> None:
        self._outputs, self._targets = Outputs(n_samples), targets
        self._by_batch = n_samples is None
        self._loss = 0.0
        self._scored = self.n_rows = 0

    def begin(self, score: Score) -> None:
        """Start an epoch, with an empty score."""
        self._loss, self.score = 0.0, score
        self._scored = self.n_rows = self._outputs.n_rows = 0

    @property
    def outputs(self) -> Outputs | None:
        """The buffer for the outputs of steps; None if no score reads them."""
        return self._outputs if self.score.reads_outputs else None

    def add(self, block: Block) -> None:
        """Add the results of some batches."""
        self._count(block)
        if self.score.reads_outputs:
            self._outputs.add(block.n_rows)
            self._score(self._by_batch)
        else:
            self._scored = self.n_rows

    def _count(self, block: Block) -> None:
        rows = block.n_rows // len(block.losses)  # the last batch, which may be shorter, is its own block
        for loss in block.losses.tolist():
            self._loss += loss * rows
        self.n_rows += block.n_rows

    def add_several(self, blocks: Sequence[Block], outputs: Any) -> None:
        """Add the results of the first batches of an epoch, whose `outputs` are not in the buffer yet."""
        if blocks:
            room = self._outputs.free(len(outputs), outputs.shape[1:], outputs.dtype, namespace(outputs))
            room[: len(outputs)] = outputs
        for block in blocks:
            self.add(block)

    def add_losses(self, blocks: Sequence[Block]) -> None:
        """Add batches that are scored, or are not to be."""
        for block in blocks:
            self._count(block)
        self._scored = self.n_rows

    def skip(self, n_rows: int) -> None:
        """Count rows with zero weight."""
        self.flush()
        self.n_rows += n_rows
        self._scored = self.n_rows

    def flush(self) -> None:
        """Score the buffered outputs at once: a few calls for many batches."""
        self._score(True)

    def _score(self, also_last: bool) -> None:
        for part in self._outputs.parts(also_last):
            stop = self._scored + len(part)
            y, weight, rows = self._targets(slice(self._scored, stop))
            self.score.add(part, y, weight, rows)
            self._scored = stop

    @property
    def mean_loss(self) -> float:
        """Mean of the batches' losses, weighted by rows."""
        return self._loss / self.n_rows

    def state(self) -> dict[str, Any]:
        """Return the sums so far; outputs that have not been scored stay in the buffer."""
        waiting = self._outputs.waiting
        kept = None if waiting is None else to_host(waiting).copy()
        rows = [self._scored, self.n_rows]
        return {"loss": self._loss, "rows": rows, "outputs": kept, "score": self.score.state()}

    def load_state(self, state: Mapping[str, Any], device: Device) -> None:
        """Continue from what `state` returned, after `begin`; outputs are moved to the device."""
        self._loss = state["loss"]
        self.score.load_state(state["score"])
        self._scored, self.n_rows = state["rows"]
        waiting = self.n_rows - self._scored
        if waiting:
            outputs = to_device(state["outputs"], device)
            room = self._outputs.free(waiting, outputs.shape[1:], outputs.dtype, namespace(outputs))
            room[:waiting] = outputs
            self._outputs.add(waiting)


class Validation:
    """Held-out rows, and how to score them."""

    def __init__(self, batches: Batches, new_score: Callable[[], Score]) -> None:
        self.batches = batches
        self.new_score = new_score

    def evaluate(self, model: ModelLike) -> dict[str, float]:
        """Return the mean loss (without penalty) and the scores of the held-out rows by name."""
        score, loss, total = self.new_score(), 0.0, 0.0
        for chosen, (X, y, weight), look_ahead in self.batches.in_turn():
            comes_again = n_rows(X) == self.batches.size < self.batches.n_samples
            output = predict_raw(model, X, comes_again)
            look_ahead()
            if weight is None or to_host(weight).any():
                mean, size = mean_loss(model, output, y, weight)
                loss += mean * size
                total += size
            if score.reads_outputs:
                score.add(output, y, weight, chosen)
        return {"loss": loss / total if total else math.nan, **score.results()}


class Outcome(NamedTuple):
    """End of a loop: its number of epochs and the reason."""

    n_iter: int
    stopped_by: Callback | None
    interrupted: bool


class Epochs(ABC):
    """The epochs of a fit: the data and the steps."""

    def __init__(self, fit: Fit, sums: Sums) -> None:
        self.fit, self.sums = fit, sums

    @property
    @abstractmethod
    def steps_name(self) -> str:
        """Name of the kind of steps."""

    @abstractmethod
    def refresh(self, n_iter: int) -> None:
        """Recreate the steps if anything they depend on has changed; `n_iter` epochs are done."""

    def another(self) -> bool:
        """Tell whether another epoch has a batch."""
        return True

    @abstractmethod
    def begin(self) -> None:
        """Begin an epoch."""

    @abstractmethod
    def has(self, number: int) -> bool:
        """Tell whether the epoch has a batch with this index, from 0."""

    @abstractmethod
    def train(self, number: int, most: int) -> tuple[int, np.ndarray[Any, Any]]:
        """Train on consecutive batches."""

    def at_once(self, n_iter: int, most: int, most_steps: int) -> int:
        """Return how many whole epochs `train_several` can train on."""
        return 1

    def train_several(self, n_epochs: int) -> int:
        """Train on whole epochs; then call `enter` for each and for the one not whole, if there is."""
        raise NotImplementedError

    def enter(self, number: int, new_score: Callable[[], Score]) -> np.ndarray[Any, Any]:
        """Be where the epoch of this index among several is trained; return its losses so far."""
        raise NotImplementedError

    @abstractmethod
    def place(self, number: int) -> str:
        """Return the description of a batch for messages."""

    def end(self, number: int) -> None:
        """End an epoch, which had `number` batches."""
        self.sums.flush()

    # -- saving ---------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return everything that later steps depend on, besides the sums."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        """Continue from the state of a loop that was saved at `path`."""

    @abstractmethod
    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        """Return how many more steps are planned than when `state` was saved; None if unknown."""


class Loop:
    """The epochs of a fit, one after the other."""

    def __init__(
        self,
        fit: Fit,
        epochs: Epochs,
        new_score: Callable[[], Score],
        validation: Validation | None,
        max_steps: int | None = None,
    ) -> None:
        self._fit, self._epochs = fit, epochs
        self._new_score, self._validation = new_score, validation
        self._max_steps = sys.maxsize if max_steps is None else max_steps
        self._number: int | None = None  # of the next batch; None between epochs
        self.guard = InterruptGuard()
        self.n_iter = 0

    def run(self, hooks: Hooks) -> None:
        """Train until the limit of epochs or a callback ends it."""
        fit = self._fit
        # Non-finite numbers raise an error that says where; NumPy's warnings before it are noise.
        with self.guard, active(fit.model.device, fit.model.precision), np.errstate(all="ignore"):
            stopped = hooks.begin()
            while self._number is not None or (not stopped and self._goes_on()):
                several = self._at_once(hooks)
                stopped = self._run_several(hooks, several) if several > 1 else self._run_one(hooks)

    def _run_one(self, hooks: Hooks) -> bool:
        """Train for one epoch, or for what is left of it; return whether the fit ends."""
        epochs, started = self._epochs, time.perf_counter()
        self._fit.epoch = self.n_iter + 1
        if hooks.call("on_epoch_begin") and self._number is None:
            return True
        epochs.refresh(self.n_iter)
        if self._number is None:
            epochs.begin()
            self._number = 0
            epochs.sums.begin(self._new_score())
        self._run_epoch(hooks, self._number)
        self._record(started)
        return hooks.call("on_epoch_end")

    def _record(self, started: float) -> None:
        """Record an epoch that has been trained, and since when."""
        fit = self._fit
        self.n_iter, self._number = self.n_iter + 1, None
        record = self._measured()
        fit.model.progress = fit.model.progress.epoch_ended(self._epochs.sums.n_rows)
        fit.close_epoch({**record, "time": time.perf_counter() - started})

    def _at_once(self, hooks: Hooks) -> int:
        """Return how many epochs are trained before anything looks at them."""
        left = self._fit.max_epochs - self.n_iter
        if left < 2 or self._number is not None or self._validation is not None:
            return 1
        most = min(hooks.epochs_ahead, left)
        if most < 2 or not may_wait(self._new_score()):
            return 1
        return self._epochs.at_once(self.n_iter, most, self._left)

    def _run_several(self, hooks: Hooks, n_epochs: int) -> bool:
        """Train for several epochs, then go through them one by one; return whether the fit ends."""
        fit, epochs, started = self._fit, self._epochs, time.perf_counter()
        self.guard.poll()
        epochs.sums.begin(self._new_score())
        n_whole, told = epochs.train_several(n_epochs), 0
        each = (time.perf_counter() - started) / n_epochs
        try:
            while told < n_whole and not hooks.stopped_by:
                told += 1
                self._enter(told - 1)
                self._record(time.perf_counter() - each)
                hooks.call("on_epoch_end")
        finally:  # an error does not undo epochs that are trained
            for number in range(told, n_whole):
                self._enter(number)
                self._record(time.perf_counter() - each)
        if hooks.stopped_by and told < n_epochs:
            epoch, more = fit.epoch - n_whole + told, n_epochs - told
            raise RuntimeError(
                f"{type(hooks.stopped_by).__name__} ended the fit in epoch {epoch}, but its epochs_ahead() "
                f"had allowed {more} more to be trained by then"
            )
        if n_whole < n_epochs:
            self._number = self._enter(n_whole)
        return bool(hooks.stopped_by)

    def _enter(self, number: int) -> int:
        """Be where the epoch of this index among several is trained; return its number of batches."""
        fit = self._fit
        fit.epoch = self.n_iter + 1
        fit.losses = self._epochs.enter(number, self._new_score)
        fit.step += len(fit.losses)
        return len(fit.losses)

    @property
    def _left(self) -> int:
        """Number of updates that may follow."""
        return self._max_steps - self._fit.step

    def _goes_on(self) -> bool:
        """Tell whether another epoch follows, unless a callback ends the fit."""
        return self.n_iter < self._fit.max_epochs and bool(self._left) and self._epochs.another()

    def _run_epoch(self, hooks: Hooks, number: int) -> None:
        """Train on the batches from this index on, until the epoch or a callback ends."""
        fit, epochs, most = self._fit, self._epochs, hooks.steps_per_block
        while hooks.stopped_by is None and self._left and epochs.has(number):
            self.guard.poll()
            try:
                done, losses = epochs.train(number, min(most, self._left))
            except NonFiniteError as error:
                place = epochs.place(number)
                raise NonFiniteError(f"training diverged in {place}: {error}", error.parameter) from None
            self._number = number = number + done
            if len(losses):
                fit.step += len(losses)
                fit.losses = losses
                hooks.call("on_block_end")
                if hooks.looks_at_blocks:  # and may have changed what the steps are made of
                    epochs.refresh(self.n_iter)
        epochs.end(number)

    def _measured(self) -> dict[str, float]:
        """Return the numbers of the finished epoch."""
        model, sums, validation = self._fit.model, self._epochs.sums, self._validation
        lr = model.optimizer.in_steps().learning_rate(model.progress)
        record = {"loss": sums.mean_loss, **sums.score.results(), "lr": lr}
        if validation is not None:
            record |= {f"validation_{name}": value for name, value in validation.evaluate(model).items()}
        return record

    # -- saving ---------------------------------------------------------------------------------

    @property
    def steps_name(self) -> str:
        """Name of the kind of steps."""
        return self._epochs.steps_name

    def state(self) -> dict[str, Any]:
        """Return the loop's position, as immutable values."""
        fit, epochs = self._fit, self._epochs
        inside = None if self._number is None else {"batch": self._number, **epochs.sums.state()}
        return {
            "n_iter": self.n_iter,
            "epoch": fit.epoch,
            "step": fit.step,
            "max_epochs": fit.max_epochs,
            "inside": inside,
            "history": {name: np.array(column) for name, column in fit.history.items()},
            "record": dict(fit.record),
            **epochs.state(),
        }

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        """Continue from a result of `state` that was saved at `path`."""
        fit, inside = self._fit, state["inside"]
        begun = state["n_iter"] + (inside is not None)
        if begun > fit.max_epochs:
            raise StateError(
                f"{path} is in epoch {begun}, but max_iter is {fit.max_epochs}: it must be as large as "
                "before, or larger"
            )
        self.n_iter = state["n_iter"]
        fit.epoch, fit.step = state["epoch"], state["step"]
        fit.history.clear()
        fit.history.update({name: column.tolist() for name, column in state["history"].items()})
        fit.record = Record(state["record"], fit.history)
        self._epochs.load_state(state, path)
        if inside is not None:
            self._number = inside["batch"]
            self._epochs.sums.begin(self._new_score())
            self._epochs.sums.load_state(inside, fit.model.device)

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        """Return how many more steps are planned than when `state` was saved; None if unknown."""
        return self._epochs.more_steps(state)


def run_loop(
    loop: Loop, fit: Fit, callbacks: Sequence[Callback], begin: Callable[[Hooks], None] | None = None
) -> Outcome:
    """Run the epochs of a fit until something ends it."""
    interrupted = False
    with Hooks(callbacks, fit) as hooks:
        if begin is not None:
            begin(hooks)
        try:
            loop.run(hooks)
        except KeyboardInterrupt as error:
            if loop.guard.is_urgent or current_group() is not None:  # not to begin the next fit of a group
                raise
            fit.exception, interrupted = error, True
            warnings.warn(
                f"Training interrupted by user after {loop.n_iter} whole epochs; what was learned is kept.",
                FitInterruptedWarning,
                stacklevel=3,
            )
        except KeptError as kept:
            fit.exception, interrupted = kept.error, True
            warnings.warn(
                f"{kept}: the fit ends after {loop.n_iter} whole epochs; what was learned is kept.",
                CallbackWarning,
                stacklevel=3,
            )
    return Outcome(loop.n_iter, hooks.stopped_by, interrupted)
