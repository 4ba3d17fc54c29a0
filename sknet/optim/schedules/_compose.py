"""Schedules of schedules, and the straight line."""

from bisect import bisect_right
from collections.abc import Sequence

from sknet._params import Composite, InvalidParameterError
from sknet.optim.schedules._base import (
    COUNT,
    POSITIVE,
    SHARE,
    Progress,
    Schedule,
    check_not_above,
    length_of,
    rate_of,
)
from sknet.optim.schedules._steps import check_rising

__all__ = ["Joined", "Linear", "Polynomial", "WarmUp"]


class Linear(Schedule):
    """A rate that goes along a straight line, up or down.

    Parameters
    ----------
    lr : float
        The rate to begin with.
    end_lr : float, default=0.0
        The rate to end with.
    n_steps : int or None, default=None
        How many updates it takes to get there; the rate stays at `end_lr` after them. None takes
        the whole fit.

    Examples
    --------
    >>> from sknet.optim.schedules import Linear, Progress
    >>> [round(Linear(0.1, n_steps=4)(Progress(step=step)), 4) for step in range(6)]
    [0.1, 0.075, 0.05, 0.025, 0.0, 0.0]
    """

    _parameter_constraints = {"lr": [POSITIVE], "end_lr": [SHARE], "n_steps": [COUNT, None]}

    def __init__(self, lr: float, end_lr: float = 0.0, n_steps: int | None = None) -> None:
        self.lr = lr
        self.end_lr = end_lr
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        if progress.step >= n_steps:
            return float(self.end_lr)
        return float(self.lr + (self.end_lr - self.lr) * (progress.step / n_steps))


class Polynomial(Schedule):
    r"""A rate that falls as a power of the time that is left.

    Parameters
    ----------
    lr : float
        The rate to begin with.
    power : float, default=2.0
        The power; 1 is `Linear`.
    min_lr : float, default=0.0
        The rate to end with, not above `lr`.
    n_steps : int or None, default=None
        How many updates it takes to get there; the rate stays at `min_lr` after them. None takes
        the whole fit.

    Notes
    -----
    At update t of n, counted from 0, :math:`\mathrm{min\_lr} + (\mathrm{lr} - \mathrm{min\_lr})
    (1 - t / n)^\mathrm{power}`.

    Examples
    --------
    >>> from sknet.optim.schedules import Polynomial, Progress
    >>> [Polynomial(1.6, n_steps=4)(Progress(step=step)) for step in range(6)]
    [1.6, 0.9, 0.4, 0.1, 0.0, 0.0]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "power": [POSITIVE],
        "min_lr": [SHARE],
        "n_steps": [COUNT, None],
    }

    def __init__(
        self, lr: float, power: float = 2.0, min_lr: float = 0.0, n_steps: int | None = None
    ) -> None:
        self.lr = lr
        self.power = power
        self.min_lr = min_lr
        self.n_steps = n_steps

    def validate(self) -> None:
        super().validate()
        check_not_above(self, "min_lr", self.min_lr, self.lr)

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        left = max(0.0, 1.0 - progress.step / n_steps) if n_steps else 0.0
        return float(self.min_lr + (self.lr - self.min_lr) * left**self.power)


class WarmUp(Schedule):
    r"""A rate that rises along a straight line, and then does what another schedule says.

    Parameters
    ----------
    lr : float or Schedule
        The rate, or schedule, that follows; a schedule counts its updates from there.
    n_steps : int
        Updates that the rise takes.

    Notes
    -----
    Update t, counted from 0, of the rise over n has the first rate of what follows times
    :math:`(t + 1) / (n + 1)`: no update is made at a rate of 0. Epochs, samples and plateaus are not
    counted anew.

    Examples
    --------
    >>> from sknet.optim.schedules import Linear, Progress, WarmUp
    >>> schedule = WarmUp(Linear(0.4, n_steps=2), n_steps=3)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(6)]
    [0.1, 0.2, 0.3, 0.4, 0.2, 0.0]
    """

    _parameter_constraints = {"lr": [POSITIVE, Schedule], "n_steps": [COUNT]}

    def __init__(self, lr: "float | Schedule", n_steps: int) -> None:
        self.lr = lr
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        rate = rate_of(self.lr, _from(progress, self.n_steps))
        return rate * min(1.0, (progress.step + 1) / (self.n_steps + 1))

    def can_reduce(self, progress: Progress) -> bool:
        return isinstance(self.lr, Schedule) and self.lr.can_reduce(_from(progress, self.n_steps))

    @property
    def patience(self) -> int | None:  # type: ignore[override]
        return self.lr.patience if isinstance(self.lr, Schedule) else None


class Joined(Composite, Schedule):
    """One schedule after the other.

    Parameters
    ----------
    schedules : list of (float or Schedule)
        In order; each counts its updates from where it begins.
    boundaries : list of int
        After how many updates each but the first begins.

    Notes
    -----
    Epochs, samples and plateaus are not counted anew. A grid reaches a schedule inside by its
    number: ``optimizer__lr__0__lr``.

    Examples
    --------
    >>> from sknet.optim.schedules import Joined, Linear, Progress
    >>> schedule = Joined([0.5, Linear(0.4, n_steps=2), 0.1], boundaries=[2, 4])
    >>> [schedule(Progress(step=step)) for step in range(6)]
    [0.5, 0.5, 0.4, 0.2, 0.1, 0.1]
    """

    container = "schedules"

    _parameter_constraints = {"schedules": [list, tuple], "boundaries": [list, tuple]}

    def __init__(self, schedules: Sequence["float | Schedule"], boundaries: Sequence[int]) -> None:
        self.schedules = schedules
        self.boundaries = boundaries

    def validate(self) -> None:
        super().validate()
        check_rising(self, "boundaries", self.boundaries)
        for schedule in self.schedules:
            if isinstance(schedule, Schedule):
                schedule.validate()
            elif not POSITIVE.is_satisfied_by(schedule):
                raise InvalidParameterError(
                    "The 'schedules' parameter of Joined must be a list of schedules and positive numbers. "
                    f"Got {schedule!r} among them."
                )
        if len(self.schedules) != len(self.boundaries) + 1:
            raise InvalidParameterError(
                "The 'boundaries' parameter of Joined must have one element less than schedules: "
                f"{len(self.schedules) - 1}. Got {list(self.boundaries)!r} instead."
            )

    def _active(self, progress: Progress) -> "tuple[float | Schedule, Progress]":
        number = bisect_right(self.boundaries, progress.step)
        start = self.boundaries[number - 1] if number else 0
        return self.schedules[number], _from(progress, start)

    def __call__(self, progress: Progress) -> float:
        return rate_of(*self._active(progress))

    def can_reduce(self, progress: Progress) -> bool:
        schedule, now = self._active(progress)
        return isinstance(schedule, Schedule) and schedule.can_reduce(now)

    @property
    def patience(self) -> int | None:  # type: ignore[override]
        found = [schedule.patience for schedule in self.schedules if isinstance(schedule, Schedule)]
        return min([patience for patience in found if patience is not None], default=None)


def _from(progress: Progress, start: int) -> Progress:
    """Return the progress of a schedule that begins after so many updates, and lasts to the end."""
    total = None if progress.total_steps is None else max(progress.total_steps - start, 0)
    return progress._replace(step=max(progress.step - start, 0), total_steps=total)
