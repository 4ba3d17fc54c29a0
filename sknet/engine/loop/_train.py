"""The training loop: epochs of batches, until patience or the limit ends it."""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sknet.device import active, namespace, to_host
from sknet.engine._model import Model
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._choice import steps_for
from sknet.engine.loop._history import History
from sknet.engine.loop._interrupt import InterruptGuard
from sknet.engine.loop._scores import Score
from sknet.engine.loop._steps import Block, Steps, rows_of_a_block
from sknet.engine.loop._stopping import Plateau
from sknet.engine.predict import predict_raw
from sknet.exceptions import FitInterruptedWarning, NonFiniteError
from sknet.optim import Optimizer
from sknet.optim.schedules import Schedule

__all__ = ["Outcome", "Settings", "Validation", "train"]


def _reported(n_iter: int, record: Mapping[str, float]) -> str:
    """Return what an epoch came to, in one line."""
    said = [f"Iteration {n_iter}, loss = {record['loss']:.8f}, score = {record['score']:.4f}"]
    if "validation_loss" in record:
        said.append(f"validation loss = {record['validation_loss']:.8f}")
        said.append(f"validation score = {record['validation_score']:.4f}")
    return ", ".join([*said, f"learning rate = {record['lr']:g}, time = {record['time']:.3f} s"])


@dataclass(frozen=True)
class Settings:
    """What a user decides about the loop.

    Attributes
    ----------
    max_iter, shuffle, tol, n_iter_no_change, verbose : int, bool, float, float, bool
        As the estimators' parameters.
    check_finite : bool
        Raise for a loss or gradient that is not finite, instead of going on with it.
    seeded : bool
        The user has given a seed: the same bits every time.
    report : callable
        ``report(n_iter, record)`` returns what `verbose` prints of an epoch.
    """

    max_iter: int = 200
    shuffle: bool = True
    tol: float = 1e-4
    n_iter_no_change: float = 10
    verbose: bool | int = False
    check_finite: bool = True
    seeded: bool = False
    report: Callable[[int, Mapping[str, float]], str] = field(default_factory=lambda: _reported)


@dataclass(frozen=True)
class Outcome:
    """How the loop ended.

    Attributes
    ----------
    n_iter : int
        Epochs done.
    converged : bool
        Whether patience ended it, rather than the limit of epochs or an interrupt.
    best_weights : object or None
        What `Model.restore_weights` takes: the best epoch's, if there is a validation.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    n_iter: int
    converged: bool
    best_weights: Any
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
    >>> from sknet.engine import Accuracy, Batches, Validation
    >>> model = Model(nn.Linear(2, 1), loss="log_loss", random_state=0)
    >>> batches = Batches(np.eye(2), np.array([[0.0], [1.0]]), None, 2, model.dtype, model.device)
    >>> loss, score = Validation(batches, Accuracy).evaluate(model)
    >>> 0 <= score <= 1
    True
    """

    def __init__(self, batches: Batches, new_score: Callable[[], Score]) -> None:
        self.batches = batches
        self.new_score = new_score

    def evaluate(self, model: Model) -> tuple[float, float]:
        """Return the mean loss (without penalty) and the score of the held-out rows.

        Parameters
        ----------
        model : Model
            Only read from.

        Returns
        -------
        loss, score : float
            NaN where the model has diverged.
        """
        score, loss, total = self.new_score(), 0.0, 0.0
        for chosen, _ in self.batches.parts(None):
            X, y, weight = self.batches.take(chosen)
            output = predict_raw(model, X)
            if weight is None or to_host(weight).any():
                mean, size = model.mean_loss(output, y, weight)
                loss += mean * size
                total += size
            score.add(output, y, weight)
        return loss / total if total else math.nan, score.result()


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
    def mean_loss(self) -> float:
        """Mean of the batches' losses, by rows."""
        return self.loss / self._batches.n_samples

    def skip(self, n_rows: int) -> None:
        """Leave out rows without weight."""
        self.flush()
        self._from = self._to = self._to + n_rows

    def flush(self) -> None:
        """Score the outputs that have gathered, all at once: a few calls for many batches."""
        if self._to > self._from:
            rows = slice(self._from, self._to)
            y, weight = self._batches.take_targets(rows if self._order is None else self._order[rows])
            self.score.add(self._outputs[: self._to - self._from], y, weight)
        self._from = self._to


def train(
    model: Model,
    batches: Batches,
    history: History,
    plateau: Plateau,
    settings: Settings,
    new_score: Callable[[], Score],
    validation: Validation | None = None,
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
    plateau : Plateau
        Decides when patience is used up; observes the training loss, or the validation score.
    settings : Settings
        The user's.
    new_score : callable
        Returns an empty `Score` for the training rows.
    validation : Validation, default=None
        Held-out rows; with them, the best epoch's weights are returned.

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
    """
    optimizer = model.materialize(batches.X).stepping_optimizer()
    planned = settings.max_iter * batches.n_batches
    model.progress = model.progress._replace(total_steps=model.progress.step + planned, counts_epochs=True)
    steps = steps_for(model, batches, settings.check_finite, planned, settings.seeded)
    order = np.arange(batches.n_samples) if settings.shuffle else None
    n_iter, converged, interrupted = 0, False, False
    # A plateau that was resumed has seen a best epoch: the weights it left are the model's.
    best = model.weights() if validation is not None and math.isfinite(plateau.best) else None
    guard, epoch = InterruptGuard(), _Epoch(batches)
    try:
        # What is not finite is an error that names its place; NumPy's warnings before it are noise.
        with guard, active(model.device), np.errstate(all="ignore"):
            while n_iter < settings.max_iter and not converged:
                started = time.perf_counter()
                if not steps.hold():
                    left = planned - n_iter * batches.n_batches
                    steps = steps_for(model, batches, settings.check_finite, left, settings.seeded)
                if order is not None:
                    # scikit-learn's draw: the order is itself permuted anew, so the seeds agree
                    order = order[model.random_state.permutation(batches.n_samples)]
                epoch.begin(order, new_score())
                _run_epoch(steps, order, epoch, guard, n_iter + 1)
                n_iter += 1
                record = _measured(model, epoch, validation)
                model.end_epoch(batches.n_samples)
                exhausted = plateau.observe(record["loss" if validation is None else "validation_score"])
                if validation is not None and (plateau.is_best or best is None):
                    best = model.weights()
                record["time"] = time.perf_counter() - started
                history.append(**record)
                if settings.verbose:
                    print(settings.report(n_iter, record))
                converged = _ends(model, optimizer, plateau, settings, validation is not None, exhausted)
    except KeyboardInterrupt:
        if guard.is_urgent:
            raise
        interrupted = True
        warnings.warn(
            f"Training interrupted by user after {n_iter} whole epochs; what was learned is kept.",
            FitInterruptedWarning,
            stacklevel=2,
        )
    return Outcome(n_iter, converged, best, interrupted)


def _run_epoch(steps: Steps, order: Any, epoch: _Epoch, guard: InterruptGuard, number: int) -> None:
    batches = steps.batches
    number_of_batch = 0
    while number_of_batch < batches.n_batches:
        guard.poll()
        if batches.weight is not None and not batches.in_a_row(order, number_of_batch, 1):
            epoch.skip(batches.part(order, number_of_batch)[1])  # no row counts: nothing to learn from it
            number_of_batch += 1
            continue
        try:
            block = steps.run(order, number_of_batch)
            steps.model.note_written("a fit")
        except NonFiniteError as error:
            place = f"epoch {number}, batch {number_of_batch + 1} of {batches.n_batches}"
            raise NonFiniteError(f"training diverged in {place}: {error}", error.parameter) from None
        epoch.add(block)
        number_of_batch += len(block.losses)
    epoch.flush()


def _measured(model: Model, epoch: _Epoch, validation: Validation | None) -> dict[str, float]:
    """Return what an epoch came to."""
    lr = model.optimizer.in_steps().learning_rate(model.progress)
    record = {"loss": epoch.mean_loss, "score": epoch.score.result(), "lr": lr}
    if validation is not None:
        record["validation_loss"], record["validation_score"] = validation.evaluate(model)
    return record


def _ends(
    model: Model, optimizer: Optimizer, plateau: Plateau, settings: Settings, validated: bool, exhausted: bool
) -> bool:
    """Lower the learning rate where its schedule asks for it; tell whether the loop ends."""
    what = "Validation score" if validated else "Training loss"
    missed = f"{what} did not improve more than tol={settings.tol:f} for {{}} consecutive epochs."
    schedules, verbose = optimizer.schedules, settings.verbose
    own = min([s.patience for s in schedules if s.patience is not None], default=None)
    due = exhausted if own is None else plateau.waited > own
    can_reduce = due and any(schedule.can_reduce(model.progress) for schedule in schedules)
    if can_reduce:
        epochs = settings.n_iter_no_change if own is None else own
        model.progress = model.progress._replace(reductions=model.progress.reductions + 1)
        rate = optimizer.learning_rate(model.progress)
        _say(verbose, f"{missed.format(epochs)} Setting learning rate to {rate:f}")
        plateau.restart(also_count=own is None, cooldown=max(s.cooldown for s in schedules))
    if not exhausted or (can_reduce and own is None):
        return False
    lowers = any(type(schedule).can_reduce is not Schedule.can_reduce for schedule in schedules)
    reason = "Learning rate too small. " if lowers and not can_reduce else ""
    _say(verbose, f"{missed.format(settings.n_iter_no_change)} {reason}Stopping.")
    return True


def _say(verbose: bool | int, message: str) -> None:
    if verbose:
        print(message)
