"""Epochs whose steps are made elsewhere, such as by the workers of a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sknet.callbacks import Callback
from sknet.engine.loop._fit import Fit, Source
from sknet.engine.loop._history import History
from sknet.engine.loop._loop import Epochs, Loop, Outcome, run_loop
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block
from sknet.engine.loop._sums import Sums
from sknet.engine.loop._train import Settings
from sknet.engine.loop._validation import Validation
from sknet.engine.state import stepping_optimizer

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["StepsElsewhere", "train_elsewhere"]


LACKS = {
    "batches": "a callback needs the batches themselves, which a fit over workers lacks in this process: "
    "leave out GradientMonitor, LearningRateFinder and other callbacks that read fit.batches, or fit what is "
    "in memory",
    "state": "a fit whose steps are made by other processes has no state to save in between: leave out "
    "Checkpoint and other callbacks that save it. The estimator can be saved after fit, and after each "
    "partial_fit",
}


class StepsElsewhere(ABC):
    """Steps that are made elsewhere, on a model whose state comes back after each block of them."""

    n_batches: int

    @abstractmethod
    def follow(self) -> None:
        """Take the model anew if it has been changed here."""

    @abstractmethod
    def run(self, epoch: int, first: int, most: int) -> Sequence["tuple[float | None, int]"]:
        """Train on a block of consecutive batches, at least one, and load the state that comes of it."""


class _BatchesElsewhere:
    """Batches that callbacks see: their number, and an error for everything else."""

    def __init__(self, n_batches: int) -> None:
        self.n_batches = n_batches

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ValueError(LACKS["batches"])


class _EpochsElsewhere(Epochs):
    """Epochs of such steps."""

    def __init__(self, fit: Fit, steps: StepsElsewhere) -> None:
        super().__init__(fit, Sums(None, _no_targets))
        self._steps = steps

    @property
    def steps_name(self) -> str:
        return type(self._steps).__name__

    def follow(self, n_iter: int) -> None:
        self._steps.follow()

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


def train_elsewhere(
    model: "Model",
    steps: StepsElsewhere,
    history: History,
    settings: Settings,
    new_score: Callable[[], Score],
    validation: Validation | None = None,
    callbacks: Sequence[Callback] = (),
    source: Source | None = None,
) -> Outcome:
    """Train a model by steps that are made elsewhere; everything else of the fit happens here."""
    stepping_optimizer(model)
    for callback in callbacks:
        if callback.needs is not None:
            raise ValueError(LACKS[callback.needs])
    total = model.progress.step + (settings.planned_steps or settings.max_iter * steps.n_batches)
    model.progress = model.progress.planned(total)
    fit = Fit(model, None, history, settings.max_iter, validation is not None, source)
    fit.batches = _BatchesElsewhere(steps.n_batches)
    fit.state = _no_state
    return run_loop(Loop(fit, _EpochsElsewhere(fit, steps), new_score, validation), fit, callbacks)
