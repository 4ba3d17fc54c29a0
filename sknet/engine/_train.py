"""Training on rows: the epochs of a fit, alone or several in one call."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet._arrays import are_indices
from sknet._config import native_setting
from sknet._parallel import BlasThreads, Threads
from sknet._random import RandomSnapshot
from sknet.callbacks import Callback
from sknet.callbacks._checkpoint import SavedFit
from sknet.device import leased
from sknet.engine._batches import Batches, Orders, join_leftover, statistics_of_one
from sknet.engine._checkpoint import FitKeeper
from sknet.engine._checks import check_losses, look_at_output, note_inputs
from sknet.engine._fit import Fit, History, Hooks, Source
from sknet.engine._loop import Epochs, Loop, Outcome, Sums, Validation, run_loop
from sknet.engine._model_type import ModelLike
from sknet.engine._optimizer import stepping_optimizer
from sknet.engine._runner_cache import steps_of_fit
from sknet.engine._runners import NO_LOSSES, Block, Steps
from sknet.engine._scheduler import current_fiber, raise_if_cancelled
from sknet.engine._scores import Score
from sknet.engine._step import show_rows
from sknet.exceptions import LoadError

__all__ = ["Settings", "Several", "train"]


class Several(NamedTuple):
    """Results of several epochs."""

    batches: Batches
    orders: np.ndarray
    losses: Any
    outputs: Any

    @property
    def n_whole(self) -> int:
        """Number of epochs with all steps."""
        return len(self.losses) // self.batches.n_batches

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
        losses = self.losses[number * n_batches :][:n_batches]
        parts = [(losses[first : first + count], rows) for first, rows, count in self.batches.alike]
        blocks = [Block(part, len(part) * rows) for part, rows in parts if len(part)]
        if is_scored or self.outputs is None:
            sums.add_losses(blocks)
            return losses
        sums.add_several(blocks, self.outputs[number, : sum(block.n_rows for block in blocks)])
        return losses


class Settings(NamedTuple):
    """The user's settings of the loop."""

    max_iter: int = 200
    shuffle: bool = True
    check_finite: bool = True
    max_steps: int | None = None
    planned_steps: int | None = None
    is_part: bool = False


class RowEpochs(Epochs):
    """Epochs over the rows of a data set, each in a new order, or all in that of the data."""

    _steps: Any = None  # none before they are chosen
    _several: Several | None = None  # the last epochs that were trained in one call
    _scores: list[Score] | None = None

    def __init__(self, fit: Fit, batches: Batches, settings: Settings) -> None:
        super().__init__(fit, Sums(batches.n_samples, self._targets))
        self._batches, self._settings = batches, settings
        self._orders = Orders(
            fit.model, batches.n_samples, settings.shuffle, settings.max_iter, batches.shares
        )
        # What decides which steps there are, besides model and rows.
        self._how: Hashable = (settings.check_finite, native_setting(), fit.model.compile)

    @property
    def steps_name(self) -> str:
        return str(self._steps.name)

    @property
    def threads_needed(self) -> Threads:
        """Number of threads that are enough for the products of the steps."""
        found: Threads = self._steps.threads_needed
        return found

    def choose_steps(self, n_iter: int) -> None:
        """Create the steps for all epochs after the first `n_iter`."""
        settings, model, batches = self._settings, self.fit.model, self._batches
        left = (settings.max_iter - n_iter) * batches.n_batches
        check, is_part = settings.check_finite, settings.is_part
        member = None if is_part else _member_steps(model, batches, check)
        self._steps = member or steps_of_fit(model, batches, check, left, self._how, is_part)
        self._steps.look_ahead_by(self._orders.look_ahead)

    def release(self) -> None:
        """Leave the steps to later fits, if that is possible."""
        self._steps.end()
        self._steps = None

    def refresh(self, n_iter: int) -> None:
        if not self._steps.is_valid():
            self._steps.end(is_reusable=False)
            self.choose_steps(n_iter)

    def begin(self) -> None:
        self._orders.begin()

    def at_once(self, n_iter: int, most: int, most_steps: int) -> int:
        most = min(most, most_steps // self._batches.n_batches)
        if most < 2:
            return 1
        self.refresh(n_iter)
        found: int = self._steps.epochs_at_once(most)
        return found

    def train_several(self, n_epochs: int) -> int:
        model, batches, order = self.fit.model, self._batches, self._orders
        before = order.now, None if order.now is None else RandomSnapshot(model.random_state)
        orders = np.empty((n_epochs, batches.n_samples), np.int64)
        progress = [model.progress]
        for i in range(n_epochs):
            self.begin()
            orders[i] = np.arange(batches.n_samples) if order.now is None else order.now
            progress.append(progress[i].stepped(batches.n_batches).epoch_ended(batches.n_samples))
        found = self._steps.run_epochs(orders, progress[:-1], self.sums.score.reads_outputs)
        model.memory.note_written("a fit")
        self._several = several = Several(batches, orders, *found)
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

    def has(self, number: int) -> bool:
        return number < self._batches.n_batches

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


def train(
    model: ModelLike,
    batches: Batches,
    history: History,
    settings: Settings,
    new_score: Callable[[], Score],
    validation: Validation | None = None,
    callbacks: Sequence[Callback] = (),
    source: Source | None = None,
    saved: SavedFit | None = None,
) -> Outcome:
    """Train a model in place."""
    stepping_optimizer(model.materialize(batches.X))
    check_losses(model, batches.y)
    join_leftover(model, batches)
    show_rows(model, batches.n_samples, batches.inputs)
    note_inputs(model, batches.X)
    look_at_output(model, batches.inputs)
    planned = settings.max_iter * batches.n_batches
    total = model.progress.step + (settings.planned_steps or planned)
    model.progress = model.progress.planned(total)
    fit = Fit(model, batches, history, settings.max_iter, validation is not None, source)
    epochs = RowEpochs(fit, batches, settings)
    loop = Loop(fit, epochs, new_score, validation, settings.max_steps)

    def begin(hooks: Hooks) -> None:
        keeper = FitKeeper(fit, loop, hooks, None if validation is None else validation.batches)
        fit.state = keeper.state
        if saved is not None:
            keeper.load(saved)
        epochs.choose_steps(loop.n_iter)
        held.begin(*epochs.threads_needed)
        if saved is not None:
            keeper.warn_of_environment(saved)

    held = BlasThreads()
    with leased(model.device, raise_if_cancelled), statistics_of_one(model, batches, settings.is_part):
        try:
            outcome = run_loop(loop, fit, callbacks, begin)
        finally:
            held.end()
        fit.end()
        del epochs.sums  # which refer to the epochs
        epochs.release()
    return outcome
