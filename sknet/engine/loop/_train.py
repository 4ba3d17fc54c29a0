"""The training loop: epochs of batches, until a callback or the limit ends it."""

import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.callbacks import Callback
from sknet.callbacks.extend import SavedFit
from sknet.device import active, namespace, to_device, to_host
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._fit import Fit, Record, Source
from sknet.engine.loop._fit_state import FitKeeper
from sknet.engine.loop._history import History
from sknet.engine.loop._hooks import Hooks, KeptError
from sknet.engine.loop._interrupt import InterruptGuard
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block, Steps, rows_of_a_block
from sknet.engine.predict import predict_raw
from sknet.engine.state import stepping_optimizer
from sknet.engine.step import mean_loss, show_rows
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, NonFiniteError, StateError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Loop", "Outcome", "Settings", "Validation", "run_loop", "train"]


@dataclass(frozen=True)
class Settings:
    """What a user decides about the loop.

    Attributes
    ----------
    max_iter, shuffle : int, bool
        As the estimators' parameters.
    check_finite : bool
        Raise for a loss or gradient that is not finite, instead of going on with it.
    seeded : bool
        The user has given a seed: the same bits every time.
    max_steps : int or None
        Updates at most, also in the middle of an epoch; None for whole epochs.
    planned_steps : int or None
        What schedules take for the updates of the whole fit; None is `max_iter` epochs.
    """

    max_iter: int = 200
    shuffle: bool = True
    check_finite: bool = True
    seeded: bool = False
    max_steps: int | None = None
    planned_steps: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How the loop ended.

    Attributes
    ----------
    n_iter : int
        Epochs done.
    stopped_by : Callback or None
        The callback that ended it, rather than the limit of epochs or an interrupt.
    interrupted : bool
        Whether Ctrl-C ended it, or an error of a callback after which the result is kept.
    """

    n_iter: int
    stopped_by: Callback | None
    interrupted: bool


class Validation:
    """Held-out rows, and how to score them.

    Parameters
    ----------
    batches : Batches
        The rows.
    new_score : callable
        Returns an empty `Score`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> from sknet.engine import Accuracy, Batches
    >>> from sknet.engine.extend import Validation
    >>> model = Model(nn.Linear(2, 1), loss="log_loss", random_state=0)
    >>> batches = Batches(np.eye(2), np.array([[0.0], [1.0]]), None, 2, model.dtype, model.device)
    >>> numbers = Validation(batches, Accuracy).evaluate(model)
    >>> list(numbers), 0 <= numbers["score"] <= 1
    (['loss', 'score'], True)
    """

    def __init__(self, batches: Batches, new_score: Callable[[], Score]) -> None:
        self.batches = batches
        self.new_score = new_score

    def evaluate(self, model: "Model") -> dict[str, float]:
        """Return the mean loss (without penalty) and the scores of the held-out rows by name.

        Parameters
        ----------
        model : Model
            Only read from.

        Returns
        -------
        dict of str to float
            ``"loss"`` and what the score is called; NaN where the model has diverged.
        """
        score, loss, total = self.new_score(), 0.0, 0.0
        for chosen, _ in self.batches.parts(None):
            X, y, weight = self.batches.take(chosen)
            output = predict_raw(model, X)
            if weight is None or to_host(weight).any():
                mean, size = mean_loss(model, output, y, weight)
                loss += mean * size
                total += size
            score.add(output, y, weight, chosen)
        return {"loss": loss / total if total else math.nan, **score.results()}


class _Epoch:
    """Sums over the batches of an epoch, the same whatever blocks the batches come in."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._outputs: Any = None

    def begin(self, order: Any, score: Score) -> None:
        """Start anew, with the rows in this order."""
        self.loss = 0.0
        self.score = score
        self._order = order
        self._from = self._to = 0

    def add(self, block: Block) -> None:
        outputs, start = block.outputs, 0
        rows = len(outputs) // len(block.losses)  # the last batch, which may be shorter, comes alone
        for loss in block.losses.tolist():
            self.loss += loss * rows
        while start < len(outputs):
            start += self._keep(outputs[start:])

    def _keep(self, outputs: Any) -> int:
        """Keep as many rows as there is room for, and score when it is full."""
        if self._outputs is None:
            n_outputs = math.prod(outputs.shape[1:])
            room = rows_of_a_block(1, self._batches.n_samples, n_outputs)
            self._outputs = namespace(outputs).empty((room, *outputs.shape[1:]), dtype=outputs.dtype)
        held, room = self._to - self._from, len(self._outputs)
        kept = outputs[: room - held]
        self._outputs[held : held + len(kept)] = kept
        self._to += len(kept)
        if held + len(kept) == room:
            self.flush()
        return len(kept)

    @property
    def n_rows(self) -> int:
        """Rows so far, those without weight too."""
        return self._to

    @property
    def mean_loss(self) -> float:
        """Mean of the batches' losses, by rows."""
        return self.loss / self._to

    def skip(self, n_rows: int) -> None:
        """Leave out rows without weight."""
        self.flush()
        self._from = self._to = self._to + n_rows

    def flush(self) -> None:
        """Score the outputs that have gathered, all at once: a few calls for many batches."""
        if self._to > self._from:
            rows = slice(self._from, self._to)
            rows = rows if self._order is None else self._order[rows]
            y, weight = self._batches.take_targets(rows)
            self.score.add(self._outputs[: self._to - self._from], y, weight, rows)
        self._from = self._to

    def state(self) -> dict[str, Any]:
        """Return what the batches so far came to; outputs that are not scored yet stay so."""
        kept = None if self._outputs is None else to_host(self._outputs[: self._to - self._from]).copy()
        score = self.score.state()
        return {"loss": self.loss, "rows": [self._from, self._to], "outputs": kept, "score": score}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned, after `begin` with the same order."""
        self.loss = state["loss"]
        self.score.load_state(state["score"])
        first, last = state["rows"]
        self._from = self._to = first
        if last > first:
            self._keep(to_device(state["outputs"], self._batches.device))


def train(
    model: "Model",
    batches: Batches,
    history: History,
    settings: Settings,
    new_score: Callable[[], Score],
    validation: Validation | None = None,
    callbacks: Sequence[Callback] = (),
    source: Source | None = None,
    saved: SavedFit | None = None,
) -> Outcome:
    """Train a model in place.

    Parameters
    ----------
    model : Model
        Changed, except by a failing step.
    batches : Batches
        The training rows.
    history : History
        One entry is added an epoch.
    settings : Settings
        The user's.
    new_score : callable
        Returns an empty `Score` for the training rows.
    validation : Validation, default=None
        Held-out rows, which are scored after each epoch.
    callbacks : sequence of Callback, default=()
        Called during the fit, and theirs alone is to end it before `max_iter`: `EarlyStopping` has patience.
        They keep what they learn; give each fit its own.
    source : Source, default=None
        What callbacks see beyond the model.
    saved : SavedFit, default=None
        A fit with the same data and parameters, to go on from.

    Returns
    -------
    Outcome
        How it ended.

    Raises
    ------
    NonFiniteError
        If a loss or gradient is not finite: names epoch, batch and parameter.
    KeyboardInterrupt
        At the second Ctrl-C, which a step does not hold back; the first ends the loop with a warning.
    StateError
        If `saved` is of another fit: names what differs.
    Exception
        What a callback raises, unless it says that the result is kept: that is a warning.
    """
    stepping_optimizer(model.materialize(batches.X))
    show_rows(model, batches.n_samples, batches.inputs)
    planned = settings.max_iter * batches.n_batches
    total = model.progress.step + (settings.planned_steps or planned)
    model.progress = model.progress._replace(total_steps=total, counts_epochs=True)
    fit = Fit(model, batches, history, settings.max_iter, validation is not None, source)
    loop = Loop(fit, settings, new_score, validation)

    def begin(hooks: Hooks) -> None:
        keeper = FitKeeper(fit, loop, hooks, None if validation is None else validation.batches)
        fit.state = keeper.state
        if saved is not None:
            keeper.load(saved)
        left = planned - loop.n_iter * batches.n_batches
        loop.steps = steps_for(model, batches, settings.check_finite, left, settings.seeded)
        if saved is not None:
            keeper.warn_of_environment(saved)

    return run_loop(loop, fit, callbacks, begin)


def run_loop(
    loop: "Loop", fit: Fit, callbacks: Sequence[Callback], begin: Callable[[Hooks], None] | None = None
) -> Outcome:
    """Run the epochs of a fit, whatever ends them.

    Parameters
    ----------
    loop : Loop
        Has the epochs.
    fit : Fit
        What callbacks see.
    callbacks : sequence of Callback
        Called during the fit.
    begin : callable, default=None
        Called first, with the hooks of the callbacks.

    Returns
    -------
    Outcome
        How it ended.
    """
    interrupted = False
    with Hooks(callbacks, fit) as hooks:
        if begin is not None:
            begin(hooks)
        try:
            loop.run(hooks)
        except KeyboardInterrupt as error:
            if loop.guard.is_urgent:
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


class Loop:
    """The epochs of a fit.

    Parameters
    ----------
    fit : Fit
        What the callbacks see.
    settings, new_score, validation
        As for `train`.

    Attributes
    ----------
    steps : Steps
        How to train on a block of batches; set before `run`.
    """

    steps: Steps

    def __init__(
        self,
        fit: Fit,
        settings: Settings,
        new_score: Callable[[], Score],
        validation: Validation | None,
    ) -> None:
        self._fit, self._settings = fit, settings
        self._new_score, self._validation = new_score, validation
        self._epoch = _Epoch(fit.batches)
        self._order = np.arange(fit.batches.n_samples) if settings.shuffle else None
        self._number: int | None = None  # of the next batch; None between epochs
        self.guard = InterruptGuard()
        self.n_iter = 0

    def run(self, hooks: Hooks) -> None:
        """Train until the limit of epochs or a callback ends it."""
        fit = self._fit
        # What is not finite is an error that names its place; NumPy's warnings before it are noise.
        with self.guard, active(fit.model.device), np.errstate(all="ignore"):
            stopped = hooks.begin()
            while self._number is not None or (not stopped and self._goes_on()):
                started = time.perf_counter()
                fit.epoch = self.n_iter + 1
                if hooks.call("on_epoch_begin") and self._number is None:
                    break
                self._follow()
                if self._number is None:
                    self._begin_epoch()
                self._run_epoch(hooks)
                self.n_iter, self._number = self.n_iter + 1, None
                record = self._measured()
                fit.model.progress = fit.model.progress.epoch_ended(self._epoch.n_rows)
                fit.close_epoch({**record, "time": time.perf_counter() - started})
                stopped = hooks.call("on_epoch_end")

    @property
    def _left(self) -> int:
        """How many updates may follow."""
        most = self._settings.max_steps
        return sys.maxsize if most is None else most - self._fit.step

    def _goes_on(self) -> bool:
        """Tell whether another epoch follows, unless a callback ends the fit."""
        return self.n_iter < self._fit.max_epochs and bool(self._left)

    def _follow(self) -> None:
        """Make other steps, if what these were made of has changed."""
        if not self.steps.hold():
            fit, settings = self._fit, self._settings
            left = (settings.max_iter - self.n_iter) * fit.batches.n_batches
            self.steps = steps_for(fit.model, fit.batches, settings.check_finite, left, settings.seeded)

    def _begin_epoch(self) -> None:
        """Draw the order of the rows, and forget those of the epoch before."""
        if self._order is not None:
            # scikit-learn's draw: the order is itself permuted anew, so the seeds agree
            random_state, n_samples = self._fit.model.random_state, self._fit.batches.n_samples
            self._order = self._order[random_state.permutation(n_samples)]
        self._number = 0
        self._open_epoch()

    def _open_epoch(self) -> None:
        """Forget the rows of the epoch before."""
        self._epoch.begin(self._order, self._new_score())

    def _run_epoch(self, hooks: Hooks) -> None:
        """Train on the batches that are left, or until a callback ends it."""
        fit, epoch, steps, order = self._fit, self._epoch, self.steps, self._order
        batches, number = fit.batches, self._number or 0
        most, looked_at = hooks.steps_per_block, hooks.looks_at_blocks
        while number < batches.n_batches and hooks.stopped_by is None and self._left:
            self.guard.poll()
            if batches.weight is not None and not batches.in_a_row(order, number, 1):
                epoch.skip(batches.part(order, number)[1])  # no row counts: nothing to learn from it
                self._number = number = number + 1
                continue
            try:
                block = steps.run(order, number, min(most, self._left))
                steps.model.memory.note_written("a fit")
            except NonFiniteError as error:
                place = f"epoch {fit.epoch}, batch {number + 1} of {batches.n_batches}"
                raise NonFiniteError(f"training diverged in {place}: {error}", error.parameter) from None
            epoch.add(block)
            self._number = number = number + len(block.losses)
            fit.step += len(block.losses)
            if looked_at:
                fit.losses = block.losses
                hooks.call("on_block_end")
        epoch.flush()

    def _measured(self) -> dict[str, float]:
        """Return what an epoch came to."""
        model, epoch, validation = self._fit.model, self._epoch, self._validation
        lr = model.optimizer.in_steps().learning_rate(model.progress)
        record = {"loss": epoch.mean_loss, **epoch.score.results(), "lr": lr}
        if validation is not None:
            record |= {f"validation_{name}": value for name, value in validation.evaluate(model).items()}
        return record

    # -- saving ---------------------------------------------------------------------------------

    @property
    def steps_name(self) -> str:
        """What kind of steps it takes."""
        return type(self.steps).__name__

    def state(self) -> dict[str, Any]:
        """Return how far the fit has come, as values that stay as they are."""
        fit = self._fit
        inside = None if self._number is None else {"batch": self._number, **self._epoch.state()}
        return {
            "n_iter": self.n_iter,
            "epoch": fit.epoch,
            "step": fit.step,
            "max_epochs": fit.max_epochs,
            "order": self._order,
            "inside": inside,
            "history": {name: np.array(column) for name, column in fit.history.items()},
            "record": dict(fit.record),
        }

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        """Go on from what `state` returned, which was saved at `path`."""
        fit, inside = self._fit, state["inside"]
        begun = state["n_iter"] + (inside is not None)
        if begun > fit.max_epochs:
            raise StateError(
                f"{path} is in epoch {begun}, and max_iter is {fit.max_epochs}: it must be as large as "
                "it was, or larger"
            )
        self.n_iter, self._order = state["n_iter"], state["order"]
        fit.epoch, fit.step = state["epoch"], state["step"]
        fit.history.clear()
        fit.history.update({name: column.tolist() for name, column in state["history"].items()})
        fit.record = Record(state["record"], fit.history)
        if inside is not None:
            self._number = inside["batch"]
            self._open_epoch()
            self._epoch.load_state(inside)

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        """Return how many more steps are planned than when `state` was saved; None if nobody knows."""
        n_batches: int = self._fit.batches.n_batches
        return (self._fit.max_epochs - int(state["max_epochs"])) * n_batches
