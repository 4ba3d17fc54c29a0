"""Budgets in seconds: which members are trained, and how long, from what one of each kind has taken."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sknet.engine.extend import n_threads_for
from sknet.tabular._members import Setting

if TYPE_CHECKING:
    from sknet.tabular._base import Job

__all__ = ["LARGEST_BUDGET", "Cost", "planned"]

# The largest multiple of the default work that is worthwhile.
LARGEST_BUDGET = 10.0
# Below this multiple, fewer members are better than shorter trainings.
LEAST_BUDGET = 0.25
# Members that are trained side by side are slower than the one that was measured.
SPARE = 0.75


@dataclass(frozen=True)
class Cost:
    """Seconds that the members of a kind take.

    Attributes
    ----------
    encoding : float
        To encode the rows of a fold.
    epoch : float
        To train a member for an epoch.
    """

    encoding: float
    epoch: float


def planned(
    jobs: "Sequence[Job]",
    settings: Mapping[str, Setting],
    costs: Mapping[str, Cost],
    seconds: float,
    n_jobs: int | None,
) -> "tuple[list[Job], dict[str, Setting]]":
    """Return the jobs that fit into some seconds, and their settings.

    Parameters
    ----------
    jobs : sequence of Job
        Of all kinds and folds.
    settings : mapping of str to Setting
        Of all kinds, with the default work.
    costs : mapping of str to Cost
        Of the kinds that were measured; others are left out.
    seconds : float
        That are left.
    n_jobs : int or None
        Threads, as a user asks for them.

    Returns
    -------
    jobs : list of Job
        Those of one fold and kind at least.
    settings : dict of str to Setting
        Of their kinds, with the work that fits.
    """
    chosen, some, budget = list(jobs), dict(settings), 0.0
    for chosen, some in _ever_fewer(jobs, {kind: settings[kind] for kind in costs}):
        n_threads = n_threads_for(n_jobs, len(chosen))
        at_once = len(chosen) / math.ceil(len(chosen) / n_threads)
        fixed = sum(costs[job.kind].encoding for job in chosen)
        work = sum(costs[job.kind].epoch * some[job.kind].epochs * some[job.kind].per_fold for job in chosen)
        budget = (SPARE * seconds * at_once - fixed) / max(work, 1e-9)
        if budget >= LEAST_BUDGET:
            break
    budget = min(max(budget, 0.0), LARGEST_BUDGET)
    return chosen, {kind: setting.times(budget) for kind, setting in some.items()}


def _ever_fewer(
    jobs: "Sequence[Job]", settings: dict[str, Setting]
) -> "Iterator[tuple[list[Job], dict[str, Setting]]]":
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
