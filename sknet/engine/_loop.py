"""The loop of a fit: epochs of blocks of batches, validation, and training from settings."""

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from sknet._config import native_core, native_setting
from sknet._frames import all_finite, are_indices
from sknet._late import cached_property
from sknet._parallel import BlasThreads
from sknet._random import RandomSnapshot
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, EarlyStopping
from sknet.callbacks._checkpoint import SavedFit
from sknet.compile import native
from sknet.core import Tensor
from sknet.device import Device, active, leased, namespace, to_device, to_host
from sknet.engine._batches import Batches, Orders, buckets_of, join_leftover, statistics_of_one
from sknet.engine._checks import check_losses, look_at_output, note_inputs
from sknet.engine._fit import Fit, FitKeeper, History, Hooks, KeptError, Record, Source
from sknet.engine._inputs import each_input, n_rows, resident
from sknet.engine._model_like import ModelLike
from sknet.engine._network import predict_raw
from sknet.engine._optimizer import Mean, mean_of, mean_per_output, stepping_optimizer
from sknet.engine._programs import show_rows
from sknet.engine._runner_cache import steps_of_fit
from sknet.engine._runners import NO_LOSSES, Block, Outputs, Steps
from sknet.engine._scheduler import InterruptGuard, current_fiber, current_group, raise_if_cancelled
from sknet.engine._scores import Score, may_wait
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, LoadError, NonFiniteError, StateError
from sknet.optim.schedules import Progress

Targets = Callable[[slice], tuple[Any, Any, Any]]


class Sums:
    """Sums over the batches of an epoch, independent of how batches are grouped into blocks."""

    score: Score

    def __init__(self, n_samples: int | None, targets: Targets) -> None:
        self._n_samples, self._targets = n_samples, targets
        self._loss = 0.0
        self._scored = self.n_rows = 0

    def begin(self, score: Score) -> None:
        self._loss, self.score = 0.0, score
        self._scored = self.n_rows = self._outputs.n_rows = 0

    @cached_property
    def _outputs(self) -> Outputs:
        return Outputs(self._n_samples)

    @property
    def outputs(self) -> Outputs | None:
        """The buffer for the outputs of steps; None if no score reads them."""
        return self._outputs if self.score.reads_outputs else None

    def add(self, block: Block) -> None:
        has_scores = not self.score.reads_outputs
        self.add_losses(*block, has_scores)
        if not has_scores:
            self._outputs.add(block.n_rows)
            self._score(self._n_samples is None)

    def add_several(self, blocks: Sequence[Block], outputs: Any) -> None:
        """Add the results of the first batches of an epoch, whose `outputs` are not in the buffer yet."""
        room = self._outputs.free(len(outputs), outputs.shape[1:], outputs.dtype, namespace(outputs))
        room[: len(outputs)] = outputs
        for block in blocks:
            self.add(block)

    def add_losses(self, losses: np.ndarray[Any, Any], n_rows: int, has_scores: bool = True) -> None:
        """Add batches, which are scored, or are not to be."""
        rows = n_rows // len(losses)  # the last batch, which may be shorter, is its own block
        for loss in losses.tolist():
            self._loss += loss * rows
        self.n_rows += n_rows
        if has_scores:
            self._scored = self.n_rows

    def skip(self, n_rows: int) -> None:
        self.flush()
        self.n_rows += n_rows
        self._scored = self.n_rows

    def flush(self) -> None:
        """Score the buffered outputs at once: a few calls for many batches."""
        if self._outputs.n_rows:
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


class Passed(NamedTuple):
    """Mean losses of the chunks of held-out rows, and their outputs if a score reads them."""

    means: list[Mean]
    outputs: list[Any]
    n_outputs: int  # of a row


class Validation:
    """Held-out rows, and how to score them."""

    nbytes: int | None = None  # of the outputs that scores read; None before there were some

    def __init__(self, batches: Batches, new_score: Callable[[], Score]) -> None:
        self.batches = batches
        self.new_score = new_score

    def evaluate(self, model: ModelLike) -> dict[str, float]:
        """Return the mean loss (without penalty) and the scores of the held-out rows by name."""
        score, self.nbytes = self.new_score(), 0
        [found] = self._results(model, [self.passed(model, score)], [score])
        return found

    @cached_property
    def _rows(self) -> Batches:
        """The rows, with inputs that stay on a device if a quarter of its free memory holds them."""
        rows = copy(self.batches)
        if rows.device.kind != "cpu" and current_group() is None:  # of many fits, each would have its own
            rows.X = each_input(partial(resident, rows.device, 4), rows.X, rows.input_dtype)
        return rows

    def _outputs(self, model: ModelLike) -> Iterator[tuple[slice, Any, Any, Any]]:
        """Yield rows, targets, weights (or None) and outputs of each chunk."""
        for chosen, (X, y, weight), look_ahead in self._rows.in_turn():
            comes_again = n_rows(X) == self.batches.size < self.batches.n_samples
            output = predict_raw(model, X, comes_again)
            look_ahead()
            yield chosen, y, weight, output

    @property
    def may_wait(self) -> bool:
        """True if rows may be scored after further training, by `passed` and `results`."""
        return self.nbytes is not None and self.batches.weight is None and may_wait(self.new_score())

    def passed(self, model: ModelLike, score: Score | None = None) -> Passed:
        """Issue passes without waiting for them; outputs are added to a `score`, or kept for one to come."""
        means, outputs, n_outputs = list[Mean](), [], 1
        for chosen, y, weight, output in self._outputs(model):
            if weight is None or to_host(weight).any():
                means.append(mean_of(model, output, y, weight))
            if score is None:
                outputs += [output] if self.nbytes else []
            elif score.reads_outputs:
                self.nbytes = (self.nbytes or 0) + output.nbytes
                score.add(output, y, weight, chosen)
            n_outputs = math.prod(output.shape[1:])
        return Passed(means, outputs, n_outputs)

    def results(self, model: ModelLike, passes: Sequence[Passed]) -> list[dict[str, float]]:
        """Return what `evaluate` would have returned where `passed` was called."""
        return self._results(model, passes, self._scores(passes))

    def _results(
        self, model: ModelLike, passes: Sequence[Passed], scores: Sequence[Score]
    ) -> list[dict[str, float]]:
        found = list[dict[str, float]]()
        terms = iter(_on_host([term for each in passes for mean in each.means for term in mean[:2]]))
        for each, score in zip(passes, scores, strict=True):
            loss = total = 0.0
            for _ in each.means:
                mean, size = next(terms), next(terms)
                loss += mean_per_output(model.loss_function, mean, each.n_outputs) * size
                total += size
            found.append({"loss": loss / total if total else math.nan, **score.results()})
        return found

    def _scores(self, passes: Sequence[Passed]) -> list[Score]:
        batches, n_epochs = self.batches, len(passes)
        parts = [part for part, _ in batches.parts(None)]
        outputs = [output for each in passes for output in each.outputs]
        if not outputs:
            return [self.new_score() for _ in passes]
        xp, sizes = namespace(outputs[0]), [part.stop - part.start for part in parts]
        y = xp.concatenate([batches.take_targets(slice(None))[0]] * n_epochs)
        scores = self.new_score().of_epochs(n_epochs, xp.concatenate(outputs), y, sizes)
        if scores is None:
            scores = [self.new_score() for _ in passes]
            for each, score in zip(passes, scores, strict=True):
                for part, output in zip(parts, each.outputs, strict=True):
                    score.add(output, batches.take_targets(part)[0], None, part)
        return scores


def _on_host(terms: Sequence[Any]) -> list[float]:
    """Return numbers, of which some are tensors without axes, reading these at once."""
    arrays = [term.data.astype(np.float64) for term in terms if isinstance(term, Tensor)]
    read = iter(to_host(namespace(arrays[0]).stack(arrays)).tolist()) if arrays else iter(())
    return [next(read) if isinstance(term, Tensor) else float(term) for term in terms]


class Kept:
    """Scores of held-out rows, and the state of a model, at the end of each epoch of a block."""

    def __init__(self, model: ModelLike, validation: Validation | None, has_states: bool) -> None:
        self._model, self._validation, self.has_states = model, validation, has_states
        self._passes: list[Passed] = []
        self._states: list[list[Any]] = []
        self.results: list[dict[str, float]] = []

    def __bool__(self) -> bool:
        return self._validation is not None or self.has_states

    def __len__(self) -> int:
        return max(len(self._passes), len(self._states))

    @property
    def nbytes(self) -> int:
        states = sum(array.nbytes for array in self._arrays()) if self.has_states else 0
        return states + (0 if self._validation is None else self._validation.nbytes or 0)

    def _arrays(self) -> list[Any]:
        flat, slots = self._model.memory.flat_buffers()
        return [flat, *slots.values()]

    def add(self) -> None:
        """Keep what there is at the end of an epoch."""
        passed = None if self._validation is None else self._validation.passed(self._model)
        if self.has_states:
            self._states.append([array.copy() for array in self._arrays()])
        self._passes += [] if passed is None else [passed]

    def read(self, n_whole: int, is_all: bool) -> None:
        """Read the scores of the whole epochs; if those are not all, keep the latest state, too."""
        if self._validation is not None:
            self.results = self._validation.results(self._model, self._passes[:n_whole])
        if self.has_states and not is_all:
            self._states[n_whole:] = [[array.copy() for array in self._arrays()]]

    def restore(self, number: int) -> None:
        """Give the model the state of the epoch of this index, or the latest one."""
        for array, kept in zip(self._arrays(), self._states[number], strict=True):
            array[...] = kept
        self._model.memory.note_written("a fit")


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

    def at_once(self, n_iter: int, most: int, most_steps: int, kept: Kept) -> int:
        """Return how many whole epochs `train_several` can train on."""
        return 1

    def train_several(self, n_epochs: int, kept: Kept) -> int:
        """Train on whole epochs; then call `enter` for each and for the one not whole, if there is."""
        raise NotImplementedError

    def enter(self, number: int, new_score: Callable[[], Score]) -> np.ndarray[Any, Any]:
        """Be where the epoch of this index among several is trained; return its losses so far."""
        raise NotImplementedError

    n_batches = 0  # of each epoch among several

    def go_past(self, n_epochs: int) -> list[dict[str, float]] | None:
        """Be at the end of the first epochs among several; return their records, None if they are unknown."""
        return None

    @abstractmethod
    def place(self, number: int) -> str:
        """Return the description of a batch for messages."""

    def end(self, number: int) -> None:
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

    def begin_again(self, new_score: Callable[[], Score]) -> None:
        self.n_iter = self._fit.step = 0
        self._new_score = new_score

    def run(self, hooks: Hooks) -> None:
        """Train until the limit of epochs or a callback ends it."""
        fit = self._fit
        # Non-finite numbers raise an error that says where; NumPy's warnings before it are noise.
        with self.guard, active(fit.model.device, fit.model.precision), np.errstate(all="ignore"):
            stopped = hooks.begin()
            while self._number is not None or (not stopped and self._goes_on()):
                several, kept = self._at_once(hooks)
                stopped = (
                    self._run_several(hooks, several, kept) if kept is not None else self._run_one(hooks)
                )

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

    def _record(self, started: float, validated: Mapping[str, float] | None = None) -> None:
        """Record an epoch that has been trained, since when, and held-out scores that are known already."""
        fit = self._fit
        self.n_iter, self._number = self.n_iter + 1, None
        model, sums, validation = fit.model, self._epochs.sums, self._validation
        lr = model.optimizer.in_steps().learning_rate(model.progress)
        record = {"loss": sums.mean_loss, **sums.score.results(), "lr": lr}
        if validation is not None:
            found = validation.evaluate(model) if validated is None else validated
            record |= {f"validation_{name}": value for name, value in found.items()}
        model.progress = model.progress.epoch_ended(sums.n_rows)
        fit.close_epoch({**record, "time": time.perf_counter() - started})

    def _at_once(self, hooks: Hooks) -> tuple[int, Kept | None]:
        """Return how many epochs are trained before anything looks at them, and what keeps what it reads."""
        left, validation = self._fit.max_epochs - self.n_iter, self._validation
        if left < 2 or self._number is not None:
            return 1, None
        most = min(hooks.epochs_ahead, left)
        if most < 2 or not (may_wait(self._new_score()) and (validation is None or validation.may_wait)):
            return 1, None
        kept = Kept(self._fit.model, validation, hooks.reads_model)
        found = self._epochs.at_once(self.n_iter, most, self._steps_left, kept)
        return found, kept if found > 1 else None

    def _run_several(self, hooks: Hooks, n_epochs: int, kept: Kept) -> bool:
        """Train for several epochs, then go through them one by one; return whether the fit ends."""
        fit, epochs, started = self._fit, self._epochs, time.perf_counter()
        self.guard.poll()
        epochs.sums.begin(self._new_score())
        n_whole, told = epochs.train_several(n_epochs, kept), 0
        kept.read(n_whole, n_whole == n_epochs)
        each = (time.perf_counter() - started) / n_epochs
        try:
            told = 0 if kept else self._tell_ahead(hooks, n_whole - 1, each)
            while told < n_whole and not hooks.stopped_by:
                told += 1
                self._tell(told - 1, kept, each)
                hooks.call("on_epoch_end")
        finally:  # an error does not undo epochs that are trained
            for number in range(told, n_whole):
                self._tell(number, kept, each)
        if hooks.stopped_by and told < n_epochs:
            epoch, more = fit.epoch - n_whole + told, n_epochs - told
            raise RuntimeError(
                f"{type(hooks.stopped_by).__name__} ended the fit in epoch {epoch}, but its epochs_ahead() "
                f"had allowed {more} more to be trained by then"
            )
        if n_whole < n_epochs:
            self._number = self._enter(n_whole, kept)
        return bool(hooks.stopped_by)

    def _tell_ahead(self, hooks: Hooks, n_epochs: int, seconds: float) -> int:
        """Record the first of several epochs at once, where nothing looks at them but early stopping."""
        fit, looking = self._fit, hooks.at_epoch_end
        is_alone = [type(each) for each in looking] == [EarlyStopping] and not looking[0].reads_model
        records = self._epochs.go_past(n_epochs) if is_alone and n_epochs > 0 else None
        if records is None:
            return 0
        for record in records:
            fit.history.append(**record, time=seconds)
        steps = self._epochs.n_batches
        looking[0]._observe_ahead(records, self.n_iter, fit.step, steps)
        self.n_iter += n_epochs
        fit.step += n_epochs * steps
        return n_epochs

    def _tell(self, number: int, kept: Kept, seconds: float) -> None:
        """Record the epoch of this index among several, which took so long."""
        self._enter(number, kept)
        self._record(time.perf_counter() - seconds, kept.results[number] if kept.results else None)

    def _enter(self, number: int, kept: Kept) -> int:
        """Be where the epoch of this index among several is trained; return its number of batches."""
        fit = self._fit
        if kept.has_states:
            kept.restore(number)
        fit.epoch = self.n_iter + 1
        fit.losses = self._epochs.enter(number, self._new_score)
        fit.step += len(fit.losses)
        return len(fit.losses)

    @property
    def _steps_left(self) -> int:
        return self._max_steps - self._fit.step

    def _goes_on(self) -> bool:
        """Tell whether another epoch follows, unless a callback ends the fit."""
        return self.n_iter < self._fit.max_epochs and self._steps_left > 0 and self._epochs.another()

    def _run_epoch(self, hooks: Hooks, number: int) -> None:
        """Train on the batches from this index on, until the epoch or a callback ends."""
        fit, epochs, most = self._fit, self._epochs, hooks.steps_per_block
        while hooks.stopped_by is None and self._steps_left > 0 and epochs.has(number):
            self.guard.poll()
            try:
                done, losses = epochs.train(number, min(most, self._steps_left))
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

    # -- saving ---------------------------------------------------------------------------------

    @property
    def steps_name(self) -> str:
        return self._epochs.steps_name

    def state(self) -> dict[str, Any]:
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
    with Hooks(callbacks, fit) as hooks:
        if begin is not None:
            begin(hooks)
        return _outcome(loop, fit, hooks)


def _outcome(loop: Loop, fit: Fit, hooks: Hooks) -> Outcome:
    """Run the epochs that are left, and say why they end."""
    interrupted = False
    try:
        loop.run(hooks)
    except KeyboardInterrupt as error:
        if loop.guard.is_urgent or current_group() is not None:  # not to begin the next fit of a group
            raise
        fit.exception, interrupted = error, True
        warn_caller(
            f"Training interrupted by user after {loop.n_iter} whole epochs; what was learned is kept.",
            FitInterruptedWarning,
        )
    except KeptError as kept:
        fit.exception, interrupted = kept.error, True
        warn_caller(
            f"{kept}: the fit ends after {loop.n_iter} whole epochs; what was learned is kept.",
            CallbackWarning,
        )
    return Outcome(loop.n_iter, hooks.stopped_by, interrupted)


class Several(NamedTuple):
    batches: Batches
    orders: np.ndarray
    n_whole: int
    losses: Any
    outputs: Any

    def scores(self, empty: Score, rows: Any) -> list[Score] | None:
        """Return the scores of all epochs; None if one is not whole, or they must be added up."""
        n_epochs = len(self.orders)
        if self.outputs is None or self.n_whole < n_epochs:
            return None
        y, _ = self.batches.take_targets(rows.reshape(-1))
        return empty.of_epochs(n_epochs, self.outputs.reshape((-1, *self.outputs.shape[2:])), y)

    def add_to(self, sums: Sums, number: int, is_scored: bool) -> Any:
        """Add an epoch to empty sums, which may have its score already; return the losses of its steps."""
        n_batches = self.batches.n_batches
        losses, blocks = self.losses[number * n_batches :][:n_batches], []
        for first, rows, count in self.batches.alike:
            part = losses[first : first + count]
            if not len(part):
                continue
            if is_scored or self.outputs is None:
                sums.add_losses(part, len(part) * rows)
            else:
                blocks.append(Block(part, len(part) * rows))
        if blocks:
            sums.add_several(blocks, self.outputs[number, : sum(block.n_rows for block in blocks)])
        return losses


class Settings(NamedTuple):
    max_iter: int = 200
    shuffle: bool = True
    check_finite: bool = True
    max_steps: int | None = None
    planned_steps: int | None = None
    is_part: bool = False


class RowEpochs(Epochs):
    """Epochs over the rows of a data set, each in a new order, or all in that of the data."""

    is_watched = True  # between epochs there are calls that may change what the steps depend on
    _steps: Any = None  # none before they are needed: `on_fit_begin` may change what they depend on
    _several: Several | None = None  # the last epochs that were trained in one call
    _scores: list[Score] | None = None
    _how: Hashable = None  # what decides which steps there are, besides model and rows

    def __init__(self, fit: Fit, batches: Batches, settings: Settings) -> None:
        super().__init__(fit, Sums(batches.n_samples, self._targets))
        self._batches, self._settings, self.held = batches, settings, BlasThreads()
        n_samples, shares = batches.n_samples, batches.shares
        arranged = None if batches.buckets is None else batches.arranged
        self._orders = Orders(fit.model, n_samples, settings.shuffle, settings.max_iter, shares, arranged)
        self._is_known = False  # that the steps are valid

    def _setting(self) -> Hashable:
        return self._settings.check_finite, native_setting(), self.fit.model.compile

    @property
    def steps_name(self) -> str:
        if self._steps is None:
            self.refresh(0)
        return str(self._steps.name)

    def hold_threads(self) -> None:
        """Let BLAS have as many threads as are enough for the products of the steps."""
        self.held.begin(*self._steps.threads_needed)

    def choose_steps(self, n_iter: int) -> None:
        settings, model, batches = self._settings, self.fit.model, self._batches
        self._how, left = self._setting(), (settings.max_iter - n_iter) * batches.n_batches
        check, is_part = settings.check_finite, settings.is_part
        member = None if is_part else _member_steps(model, batches, check)
        self._steps = member or steps_of_fit(model, batches, check, left, self._how, is_part)
        self._steps.look_ahead_by(self._orders.look_ahead)
        if self.is_watched:
            self._steps.watch()

    def release(self) -> None:
        """Leave the steps to later fits, if that is possible."""
        if self._steps is not None:
            self._steps.end()
            self._steps = None

    def refresh(self, n_iter: int) -> None:
        if self._steps is None:
            self.choose_steps(n_iter)
            self.hold_threads()
        if self._is_known:
            self._is_known = False
        elif not self._steps.is_valid():
            self._steps.end(is_reusable=False)
            self.choose_steps(n_iter)

    def begin(self) -> None:
        self._orders.begin()

    def keep_steps(self) -> bool:
        """Bind the steps to the copied rows, whose memory later parts use; return False if they can't."""
        steps = self._steps
        if getattr(steps, "pool", None) is None or current_group() is not None:
            return False
        steps.unbind()
        steps.bind(self.fit.model, self._batches)
        steps.watch()
        return True

    def is_valid(self) -> bool:
        """Tell whether the steps of the part before are those of the next one."""
        self._is_known = self._how == self._setting() and self._steps.is_valid()
        return self._is_known

    def begin_again(self) -> None:
        """Begin another part."""
        self._orders.begin_again()

    def at_once(self, n_iter: int, most: int, most_steps: int, kept: Kept) -> int:
        most = min(most, most_steps // self._batches.n_batches)
        if most < 2:
            return 1
        self.refresh(n_iter)
        if kept and not self._steps.goes_ahead:
            return 1
        return self._steps.epochs_at_once(most, kept.nbytes)

    def train_several(self, n_epochs: int, kept: Kept) -> int:
        model, batches, order = self.fit.model, self._batches, self._orders
        before = order.now, None if order.now is None else RandomSnapshot(model.random_state)
        orders = np.empty((n_epochs, n_samples := batches.n_samples), np.int64)
        progress, (step, epoch, samples, *_), rest = [], model.progress, model.progress[3:]
        for i in range(n_epochs):
            order.begin()
            orders[i] = np.arange(n_samples) if order.now is None else order.now
            progress.append(Progress(step + i * batches.n_batches, epoch + i, samples + i * n_samples, *rest))

        def at_end() -> None:
            """Keep what there is at the end of the next epoch, with the counters of that point."""
            model.progress = progress[len(kept)].stepped(batches.n_batches)
            try:
                kept.add()
            finally:
                model.progress = progress[0]

        reads_outputs = self.sums.score.reads_outputs
        losses, outputs = self._steps.run_epochs(orders, progress, reads_outputs, at_end if kept else None)
        model.memory.note_written("a fit")
        n_whole = len(losses) // batches.n_batches
        n_whole = min(n_whole, len(kept)) if kept else n_whole
        self._several = several = Several(batches, orders, n_whole, losses, outputs)
        self._scores = several.scores(self.sums.score, self._steps.rows_of(orders, slice(None)))
        if several.n_whole < n_epochs:  # the epochs after the next one have not begun
            order.now, drawn = before
            if drawn is not None:
                drawn.restore()
            for _ in range(several.n_whole + 1):
                self.begin()
        return several.n_whole

    def enter(self, number: int, new_score: Callable[[], Score]) -> np.ndarray[Any, Any]:
        several, scores, model = self._several, self._scores, self.fit.model
        assert several is not None
        if self._orders.now is not None:
            self._orders.now = several.orders[number]
        self.sums.begin(new_score() if scores is None else scores[number])
        losses: np.ndarray[Any, Any] = several.add_to(self.sums, number, scores is not None)
        model.progress = model.progress.stepped(len(losses))
        return losses

    @property
    def n_batches(self) -> int:  # type: ignore[override]
        return self._batches.n_batches

    def go_past(self, n_epochs: int) -> list[dict[str, float]] | None:
        several, scores, model, parts = self._several, self._scores, self.fit.model, self._batches.alike
        if several is None or scores is None:
            return None
        optimizer, losses, records = model.optimizer.in_steps(), iter(several.losses.tolist()), []
        n_rows = sum(rows * count for _, rows, count in parts)
        for score in scores[:n_epochs]:
            total = 0.0
            for _, rows, count in parts:
                for loss in islice(losses, count):
                    total += loss * rows
            progress = model.progress.stepped(self.n_batches)
            lr = optimizer.learning_rate(progress)
            records.append({"loss": total / n_rows, **score.results(), "lr": lr})
            model.progress = progress.epoch_ended(n_rows)
        return records

    def has(self, number: int) -> bool:
        return number < self.n_batches

    def train(self, number: int, most: int) -> tuple[int, np.ndarray[Any, Any]]:
        batches, order, sums = self._batches, self._orders.now, self.sums
        if batches.weight is not None and not batches.in_a_row(order, number, 1):
            sums.skip(batches.part(order, number)[1])  # all weights are zero: nothing to learn
            return 1, NO_LOSSES
        block = self._steps.run(order, number, most, sums.outputs)
        self.fit.model.memory.note_written("a fit")
        sums.add(block)
        return len(block.losses), block.losses

    def place(self, number: int) -> str:
        return f"epoch {self.fit.epoch}, batch {number + 1} of {self._batches.n_batches}"

    def _targets(self, part: slice) -> tuple[Any, Any, Any]:
        order = self._orders.now
        targets = self._batches.take_targets(self._steps.rows_of(order, part))
        return *targets, part if order is None else order[part]

    def state(self) -> dict[str, Any]:
        return {"order": self._orders.now}

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        order, now = state["order"], self._orders.now
        if order is not None and now is not None:
            is_wrong = order.shape != now.shape or not are_indices(order, len(now))
            is_drawn = self._batches.shares is not None  # some rows several times
            if is_wrong or not (is_drawn or (np.sort(order) == np.arange(len(now))).all()):
                raise LoadError(f"{path} is damaged: its order is no order of {len(now)} rows")
            order = order.astype(now.dtype)
        elif order is not now:
            raise LoadError(f"{path} is damaged: rows are shuffled in one of the fits only")
        self._orders.now = order

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        return (self.fit.max_epochs - int(state["max_epochs"])) * self._batches.n_batches


def _member_steps(model: ModelLike, batches: Batches, check_finite: bool) -> Steps | None:
    """Return steps that are made together with those of other fits; None if this fit is no fiber."""
    if current_fiber() is None:
        return None
    from sknet.engine._stack import member_steps  # most fits do without it

    return member_steps(model, batches, check_finite)


class Course:
    """Training that is set up: it is run once, or begun again with other rows for each part of a stream."""

    def __init__(
        self,
        model: ModelLike,
        batches: Batches,
        history: History,
        settings: Settings,
        new_score: Callable[[], Score],
        validation: Validation | None = None,
        callbacks: Sequence[Callback] = (),
        source: Source | None = None,
        saved: SavedFit | None = None,
    ) -> None:
        stepping_optimizer(model.materialize(batches.X))
        check_losses(model, batches.y, batches.weight)
        join_leftover(model, batches)
        if isinstance(batches.X, dict) and not settings.is_part:
            batches.buckets = buckets_of(model, batches)
        show_rows(model, batches.n_samples, batches.inputs)
        note_inputs(model, batches.X)
        look_at_output(model, batches.inputs)
        planned = settings.max_iter * batches.n_batches
        total = model.progress.step + (settings.planned_steps or planned)
        model.progress = model.progress.planned(total)
        self._model, self._batches, self._settings, self._saved = model, batches, settings, saved
        self._fit = Fit(model, batches, history, settings.max_iter, validation is not None, source)
        self._epochs = RowEpochs(self._fit, batches, settings)
        self._loop = Loop(self._fit, self._epochs, new_score, validation, settings.max_steps)
        self._validation = validation
        self._hooks = Hooks(callbacks, self._fit)
        self._is_alone = all(type(each) is EarlyStopping for each in callbacks) and validation is None
        self._epochs.is_watched = not (self._is_alone and may_wait(new_score()))

    def run(self, lasts: bool = False) -> tuple[Outcome, bool]:
        """Train; tell whether this may be begun `again`, if it shall last."""
        model, batches, is_part = self._model, self._batches, self._settings.is_part
        with leased(model.device, raise_if_cancelled), statistics_of_one(model, batches, is_part):
            try:
                with self._hooks as hooks:
                    self._begin(hooks)
                    outcome = _outcome(self._loop, self._fit, hooks)
            finally:
                self._epochs.held.end()
            self._fit.end()
            lasts = lasts and not outcome.interrupted and self._keep_for_next_part()
            if not lasts:
                self.end()
        return outcome, lasts

    def end(self) -> None:
        """Leave the steps to later fits, if that is possible."""
        del self._epochs.sums  # which refer to the epochs
        self._epochs.release()

    def _begin(self, hooks: Hooks) -> None:
        fit, loop, validation, saved = self._fit, self._loop, self._validation, self._saved
        keeper = FitKeeper(fit, loop, hooks, None if validation is None else validation.batches)
        fit.state = keeper.state
        if saved is not None:
            keeper.load(saved)
            self._epochs.refresh(loop.n_iter)
            keeper.warn_of_environment(saved)

    # -- parts of a stream ------------------------------------------------------------------------

    def _keep_for_next_part(self) -> bool:
        """Keep steps and a copy of the rows as memory for the next part; return False if impossible."""
        batches, epochs = self._batches, self._epochs
        if not self._is_alone or self._hooks.reads_model:
            return False
        if not batches.copy_rows(MOST_OF_A_PART) or not epochs.keep_steps():
            return False
        self._fit.source = Source()  # it has the rows that were given
        X = batches.X
        is_table = X.ndim == 2 and native_core() is not None
        self._room = native.NativeStep.of((), X, X, X.nbytes) if is_table else None
        return True

    def is_valid(self) -> bool:
        """Tell whether nothing has changed that was found out when this was set up."""
        return current_group() is None and self._epochs.is_valid()

    def scaled(self, X: Any, units: "native.Units") -> Any:
        """Return finite rows of the next part in units, in the memory of those before; None for others."""
        room = self._batches.X
        if units.limit is not None and not all_finite(X):  # infinities would be clipped
            return None
        if self._room is None or not self._room.unchecked(X, units):
            if not all_finite(X):
                return None
            np.copyto(room, units.scaled(X, room.dtype))
        return room

    def again(self, X: Any, y: Any, score_of: Callable[[Batches, Any], Callable[[], Score]]) -> Outcome:
        """Train on as many other rows in the same form, while this is valid."""
        model, batches = self._model, self._batches
        batches.refill(X, y, None)
        model.progress = model.progress.planned(model.progress.step + batches.n_batches)
        self._loop.begin_again(score_of(batches, model))
        self._epochs.begin_again()
        self._hooks.begin_again()
        try:
            self._epochs.hold_threads()
            return _outcome(self._loop, self._fit, self._hooks)
        finally:
            self._epochs.held.end()


MOST_OF_A_PART = 1 << 20  # bytes of rows: larger parts take longer than what is set up for them


def train(*given: Any, **options: Any) -> Outcome:
    return Course(*given, **options).run()[0]
