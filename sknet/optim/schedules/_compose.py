"""Schedules composed of others: after a warm-up, in sequence, and multiplied."""

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence

from sknet._constraints import shown
from sknet._params import Composite, InvalidParameterError
from sknet.optim.schedules._base import COUNT, POSITIVE, RATE, Progress, Rate, Schedule, rate_of
from sknet.optim.schedules._steps import check_rising


class Composed(Schedule):
    """Base of the schedules composed of others, whose patience and cooldown it takes over."""

    @property
    @abstractmethod
    def inside(self) -> list[Rate]:
        """The rates and schedules it is composed of."""

    @property
    def patience(self) -> int | None:  # type: ignore[override]
        found = [x.patience for x in self.inside if isinstance(x, Schedule)]
        return min([patience for patience in found if patience is not None], default=None)

    @property
    def cooldown(self) -> int:  # type: ignore[override]
        return max([x.cooldown for x in self.inside if isinstance(x, Schedule)], default=0)


class WarmUp(Composed):
    r"""A linear warm-up, followed by another schedule.

    Parameters
    ----------
    lr : float, Schedule or callable
        The rate or schedule that follows; a schedule counts its updates from there.
    n_steps : int
        Number of updates of the warm-up.

    Notes
    -----
    In update t, counted from 0, of a warm-up over n, the rate is :math:`(t + 1) / (n + 1)` times the
    first rate of what follows: it is never 0. Epochs, samples and plateaus are not counted from there.

    Examples
    --------
    >>> from sknet.optim.schedules import Linear, Progress, WarmUp
    >>> schedule = WarmUp(Linear(0.4, n_steps=2), n_steps=3)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(6)]
    [0.1, 0.2, 0.3, 0.4, 0.2, 0.0]
    """

    _parameter_constraints = {"lr": RATE, "n_steps": [COUNT]}

    def __init__(self, lr: Rate, n_steps: int) -> None:
        self.lr = lr
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        rate = rate_of(self.lr, _from(progress, self.n_steps))
        return rate * min(1.0, (progress.step + 1) / (self.n_steps + 1))

    def can_reduce(self, progress: Progress) -> bool:
        return isinstance(self.lr, Schedule) and self.lr.can_reduce(_from(progress, self.n_steps))

    @property
    def inside(self) -> list[Rate]:
        return [self.lr]


class ScheduleList(Composite, Composed):
    """Base of the schedules composed of a list of schedules, each reached by its number."""

    container = "schedules"
    schedules: Sequence[Rate]

    @property
    def inside(self) -> list[Rate]:
        return list(self.schedules)

    def validate(self) -> None:
        super().validate()
        for schedule in self.schedules:
            if isinstance(schedule, Schedule):
                schedule.validate()
            elif not (callable(schedule) or POSITIVE.is_satisfied_by(schedule)):
                raise InvalidParameterError(
                    f"The 'schedules' parameter of {type(self).__name__} must be a list of schedules and "
                    f"positive numbers. Got {shown(schedule)} among them."
                )


class Joined(ScheduleList):
    """Several schedules in sequence.

    Parameters
    ----------
    schedules : list of (float, Schedule or callable)
        In order; each counts its updates from where it starts.
    boundaries : list of int
        The updates at which each but the first starts.

    Notes
    -----
    Epochs, samples and plateaus are not counted from there. A grid addresses a schedule by its number:
    ``optimizer__lr__0__lr``.

    Examples
    --------
    >>> from sknet.optim.schedules import Joined, Linear, Progress
    >>> schedule = Joined([0.5, Linear(0.4, n_steps=2), 0.1], boundaries=[2, 4])
    >>> [schedule(Progress(step=step)) for step in range(6)]
    [0.5, 0.5, 0.4, 0.2, 0.1, 0.1]
    """

    _parameter_constraints = {"schedules": [list, tuple], "boundaries": [list, tuple]}

    def __init__(self, schedules: Sequence[Rate], boundaries: Sequence[int]) -> None:
        self.schedules = schedules
        self.boundaries = boundaries

    def validate(self) -> None:
        super().validate()
        check_rising(self, "boundaries", self.boundaries)
        if len(self.schedules) != len(self.boundaries) + 1:
            raise InvalidParameterError(
                "The 'boundaries' parameter of Joined must have one element less than schedules: "
                f"{len(self.schedules) - 1}. Got {shown(list(self.boundaries))} instead."
            )

    def _active(self, progress: Progress) -> tuple[Rate, Progress]:
        number = bisect_right(self.boundaries, progress.step)
        start = self.boundaries[number - 1] if number else 0
        return self.schedules[number], _from(progress, start)

    def __call__(self, progress: Progress) -> float:
        return rate_of(*self._active(progress))

    def can_reduce(self, progress: Progress) -> bool:
        schedule, now = self._active(progress)
        return isinstance(schedule, Schedule) and schedule.can_reduce(now)


class Product(ScheduleList):
    """The product of several schedules.

    Parameters
    ----------
    schedules : list of (float, Schedule or callable)
        The factors.

    Notes
    -----
    A grid addresses a schedule by its number: ``optimizer__lr__0__lr``.

    Examples
    --------
    >>> from sknet.optim.schedules import Linear, Product, Progress, Step
    >>> schedule = Product([Linear(0.8, n_steps=4), Step(1.0, every=2, factor=0.5, unit="step")])
    >>> [round(schedule(Progress(step=step)), 4) for step in range(5)]
    [0.8, 0.6, 0.2, 0.1, 0.0]
    """

    _parameter_constraints = {"schedules": [list, tuple]}

    def __init__(self, schedules: Sequence[Rate]) -> None:
        self.schedules = schedules

    def validate(self) -> None:
        super().validate()
        if not self.schedules:
            raise InvalidParameterError(
                "The 'schedules' parameter of Product must not be empty. Got [] instead."
            )

    def __call__(self, progress: Progress) -> float:
        return math.prod(rate_of(schedule, progress) for schedule in self.schedules)

    def can_reduce(self, progress: Progress) -> bool:
        return any(isinstance(x, Schedule) and x.can_reduce(progress) for x in self.schedules)


def _from(progress: Progress, start: int) -> Progress:
    """Return the progress of a schedule that starts after some updates and lasts until the end."""
    total = None if progress.total_steps is None else max(progress.total_steps - start, 0)
    return progress._replace(step=max(progress.step - start, 0), total_steps=total)
