"""Budgets of seconds for members of an ensemble, a kind that is left out, and the progress of training."""

import heapq
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.callbacks import Callback, FitView
from sknet.callbacks._callback import Answer
from sknet.callbacks._logging import shared_bar
from sknet.engine._scheduler import n_threads_for
from sknet.tabular._members import MANY_ROWS, Job, Setting, Task
from sknet.tabular._predicting import Mix, badness, deciding, mixed
from sknet.tabular._training import Member

# The largest multiple of the default work that is worthwhile.
LARGEST_BUDGET = 10.0
# Below this multiple, fewer members are better than shorter trainings.
LEAST_BUDGET = 0.25
BUDGETS = [0.1 * 1.02**i for i in range(233)] + [LARGEST_BUDGET]
# Updates without which no member is better than chance, however short the budget is.
LEAST_STEPS = 30
# A budget is kept within this multiple.
MOST_EXCESS = 1.5
# Seconds after which a fit tells how far it is, unless it is asked to.
PATIENCE = 5.0
# Held-out rows are predicted, too, and members that train side by side are slower than the one measured.
SPARE_OF_ONE, SPARE = 0.95, 0.85
# A kind is measured if the least of it takes no more of what is left.
MOST_MEASURED = 0.75


@dataclass(frozen=True)
class Cost:
    """Seconds that the members of a kind take."""

    encoding: float
    epoch: float
    setup: float = 0.0
    done: int = 0


def planned(
    jobs: Sequence[Job],
    settings: Mapping[str, Setting],
    costs: Mapping[str, Cost],
    seconds: float,
    n_jobs: int | None,
) -> tuple[list[Job], dict[str, Setting]]:
    chosen, some, budget, least = list(jobs), dict(settings), 0.0, 0.0
    for chosen, some in _ever_fewer(jobs, {kind: settings[kind] for kind in costs}):
        least = max(_least_budget(job, some[job.kind]) for job in chosen)

        def fits(budget: float, chosen: Any = chosen, some: Any = some) -> bool:
            return expected(chosen, _times(some, costs, budget), costs, n_jobs) <= seconds

        found = [budget for budget in BUDGETS if fits(budget)]
        budget = max(found, default=0.0)
        if budget >= max(LEAST_BUDGET, least):
            break
    some = _times(some, costs, max(budget, least))
    for kind in some:  # an epoch of a large table may take a good part of the seconds
        while some[kind].epochs < LARGEST_BUDGET * settings[kind].epochs:
            more = {**some, kind: replace(some[kind], epochs=some[kind].epochs + 1)}
            if expected(chosen, more, costs, n_jobs) > seconds:
                break
            some = more
    return chosen, some


def _times(settings: Mapping[str, Setting], costs: Mapping[str, Cost], budget: float) -> dict[str, Setting]:
    """Return settings with the work multiplied, for as many epochs at least as there are."""
    found = {kind: setting.times(budget) for kind, setting in settings.items()}
    return {kind: replace(x, epochs=max(x.epochs, costs[kind].done)) for kind, x in found.items()}


def expected(
    jobs: Sequence[Job], settings: Mapping[str, Setting], costs: Mapping[str, Cost], n_jobs: int | None
) -> float:
    """Return the seconds in which threads train members, one job after the other."""
    ends = [0.0] * n_threads_for(n_jobs, len(jobs))
    begun = set()
    for job in jobs:
        cost, setting = costs[job.kind], settings[job.kind]
        taken = cost.encoding + setting.per_fold * (cost.setup + cost.epoch * setting.epochs)
        if cost.done and job.kind not in begun:
            begun.add(job.kind)
            taken -= cost.encoding + cost.setup + cost.epoch * cost.done
        heapq.heapreplace(ends, ends[0] + taken)
    return max(ends) / (SPARE_OF_ONE if len(ends) == 1 else SPARE)


def is_affordable(job: Job, settings: Mapping[str, Setting], costs: Mapping[str, Cost], left: float) -> bool:
    """Tell whether a member of one more kind fits into the seconds that are left."""
    if not costs:
        return True
    known = sum(
        max(LEAST_BUDGET * settings[kind].epochs - cost.done, 0.0) * cost.epoch
        for kind, cost in costs.items()
    )
    encoding = max(cost.encoding for cost in costs.values())
    setup = max(cost.setup for cost in costs.values())
    epoch = max(cost.epoch for cost in costs.values())
    more = encoding + setup + LEAST_BUDGET * settings[job.kind].epochs * epoch
    return known + more <= MOST_MEASURED * left


def warn_of_more(
    jobs: Sequence[Job],
    settings: Mapping[str, Setting],
    costs: Mapping[str, Cost],
    gone: float,
    seconds: float,
    n_jobs: int | None,
) -> None:
    """Warn if planned jobs take longer than a budget allows, since there is a least of them."""
    whole = gone + expected(jobs, settings, costs, n_jobs)
    if whole > MOST_EXCESS * seconds:
        job = jobs[0]
        epochs, steps = settings[job.kind].epochs, _steps(job, settings[job.kind])
        warn_caller(
            f"a budget of {seconds:g} s is too short for this table: encoding it and training {len(jobs)} "
            f"member for {epochs} epochs of {steps} updates, the least that is better than chance, "
            f"take about {whole:.2g} s. Give a longer budget, fewer columns or smaller hidden layers",
            UserWarning,
        )


def _steps(job: Job, setting: Setting) -> int:
    n_rows = len(job.rows[0])
    return -(-n_rows // min(setting.batch_size, n_rows))


def _least_budget(job: Job, setting: Setting) -> float:
    """Return the multiple of the default work that makes `LEAST_STEPS` updates."""
    return -(-LEAST_STEPS // _steps(job, setting)) / setting.epochs


def _ever_fewer(
    jobs: Sequence[Job], settings: dict[str, Setting]
) -> Iterator[tuple[list[Job], dict[str, Setting]]]:
    """Yield ever fewer jobs: with one member in each fold, then with half of the folds, then of one kind."""
    kept = [job for job in jobs if job.kind in settings]
    yield kept, settings
    settings = {kind: replace(setting, per_fold=1) for kind, setting in settings.items()}
    yield kept, settings
    n_folds = len({job.fold for job in kept})
    while n_folds > 1:
        n_folds //= 2
        kept = [job for job in kept if job.fold < n_folds]
        yield kept, settings
    first = next(iter(settings))
    yield [job for job in kept if job.kind == first], {first: settings[first]}


# Rows that a fold holds out at least, if they decide on a kind.
LEAST_HELD_OUT = 5_000
# A smaller share of their loss is no gain.
LEAST_GAIN = 1e-3


class Choice:
    """Tells whether the kind with the larger networks is a gain in the first fold of a large table."""

    # If not, its members are not trained in the other folds; whatever of them was trained by then is
    # dropped.

    def __init__(self, task: Task, jobs: Sequence[Job], by_error: bool) -> None:
        self._task, self._by_error, self._lock = task, by_error, threading.Lock()
        self._outputs: dict[str, np.ndarray] = {}
        self._rows, self.kind, self.is_needless = jobs[0].rows[1], jobs[0].kind, False
        self._fold, kinds, folds = jobs[0].fold, {job.kind for job in jobs}, {job.fold for job in jobs}
        is_large = task.table.n_rows >= MANY_ROWS and len(self._rows) >= LEAST_HELD_OUT
        self._decides = is_large and len(kinds) == 2 and len(folds) > 1

    def ordered(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs longest first, or those last that may be needless."""
        if not self._decides:
            settings = self._task.settings.items()
            work = {kind: each.per_fold * each.epochs * work_of(each) for kind, each in settings}
            # Members of all folds compare each row with thousands: they take as long as the largest networks.
            return sorted(jobs, key=lambda job: (not job._is_of_all_folds, -work[job.kind]))
        return sorted(jobs, key=lambda job: (job.fold != self._fold) + self.may_drop(job))

    def may_drop(self, job: Job) -> bool:
        """Tell whether a job may be needless."""
        return self._decides and job.kind == self.kind and job.fold != self._fold

    def see(self, job: Job, outputs: Sequence[np.ndarray]) -> None:
        """Look at the outputs of the members of a job for the rows that its fold holds out."""
        if not self._decides or job.fold != self._fold:
            return
        with self._lock:
            self._outputs[job.kind] = np.mean(outputs, axis=0)
            if len(self._outputs) == 2:
                self.is_needless = self._has_no_gain()

    def _has_no_gain(self) -> bool:
        """Tell whether the first fold's rows are predicted about as well without the kind."""
        task, rows = self._task, self._rows
        weight = deciding(None if task.weight is None else task.weight[rows])
        outputs = {kind: self._outputs[kind] for kind in task.settings}
        y, loss = task.y[rows], task.loss
        mix = mixed(outputs, y, weight, loss, self._by_error)
        if self._by_error or not mix.weights[self.kind]:
            return not mix.weights[self.kind]
        others = Mix({kind: float(kind != self.kind) for kind in outputs}, mix.temperatures)
        least, without = (badness(each.of(outputs), y, weight, loss) for each in (mix, others))
        return without - least < LEAST_GAIN * abs(least)


class StopNeedless(Callback):
    """Ends the training of members that turn out to be needless."""

    may_warn = False

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def on_epoch_end(self, fit: FitView) -> Answer:
        return "stop" if self.choice.is_needless else None


def work_of(setting: Setting) -> int:
    """Return about how much work an epoch of a member is: its multiplications for a row."""
    return sum(size * size for size in setting.hidden_layer_sizes) or 1


def _is_watched() -> bool:
    """Tell whether somebody sees output at once: in a terminal, or a notebook."""
    return sys.stdout.isatty() or "ipykernel" in sys.modules


class Progress:
    """Tells how far the members are, which are trained in several threads."""

    def __init__(self, verbose: Any, settings: list[Setting]) -> None:
        self._prints = bool(verbose) and verbose != "bar"
        self._silent = 0.0
        if verbose == "auto":
            self._silent = PATIENCE if _is_watched() else math.inf
        self._n_members, self._n_ended = len(settings), 0
        self._works = sum(setting.epochs * work_of(setting) for setting in settings)
        self._done, self._began, self._lock = 0, time.monotonic(), threading.Lock()
        self._bar = shared_bar(self._works, self._text()) if verbose == "bar" else None

    def callbacks(self, setting: Setting) -> tuple[Callback, ...]:
        return (_Ticks(self, work_of(setting)),) if self._bar is not None else ()

    def advance(self, work: int) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.update(work)

    def begun(self, setting: Setting, epochs: int) -> None:
        """Count the epochs that a member has been trained for to measure it."""
        self.advance(epochs * work_of(setting))

    def ended(self, member: Member, setting: Setting, seconds: float) -> None:
        """Tell that a member has been trained."""
        with self._lock:
            self._n_ended += 1
            self._done += setting.epochs * work_of(setting)
            if self._bar is not None:
                self._bar.set_description_str(self._text(), refresh=False)
            elif self._prints and time.monotonic() - self._began >= self._silent:
                print(self._line(member, seconds))

    def dropped(self, settings: Sequence[Setting]) -> None:
        """Expect these members no longer."""
        with self._lock:
            self._n_members -= len(settings)
            self._works -= sum(setting.epochs * work_of(setting) for setting in settings)

    def close(self) -> None:
        """Let the bar stay as it is."""
        if self._bar is not None:
            self._bar.close()

    def _text(self) -> str:
        return f"member {self._n_ended}/{self._n_members}"

    def _line(self, member: Member, seconds: float) -> str:
        left = (time.monotonic() - self._began) * (self._works - self._done) / self._done
        return (
            f"Member {self._n_ended} of {self._n_members} ({member.kind}, {member._place}), "
            f"loss = {member.history['loss'][-1]:.8f}, time = {seconds:.3f} s, left = {left:.0f} s"
        )


class _Ticks(Callback):
    may_warn = False

    def __init__(self, progress: Progress, work: int) -> None:
        self.progress = progress
        self.work = work

    def on_epoch_end(self, fit: FitView) -> None:
        self.progress.advance(self.work)
