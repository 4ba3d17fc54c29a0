"""Decay by a factor: in steps, exponentially, and at plateaus."""

from bisect import bisect_right
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from sknet._constraints import WHOLE, shown
from sknet._params import Interval, InvalidParameterError
from sknet.optim.schedules._base import (
    COUNT,
    POSITIVE,
    RATE,
    SHARE,
    UNIT,
    Progress,
    Rate,
    Schedule,
    check_epochs,
    rate_of,
)


def _done(schedule: "Step | MultiStep | Exponential", progress: Progress) -> int:
    if schedule.unit == "step":
        return progress.step
    check_epochs(schedule, progress)
    return progress.epoch


class Step(Schedule):
    """Decay by a factor every few epochs.

    Parameters
    ----------
    lr : float
        The initial rate.
    every : int
        Number of epochs between reductions.
    factor : float, default=0.1
        What the rate is multiplied by.
    unit : {"epoch", "step"}, default="epoch"
        Whether `every` counts epochs or updates.

    Examples
    --------
    >>> from sknet.optim.schedules import Progress, Step
    >>> [round(Step(0.1, every=2)(Progress(epoch=epoch)), 4) for epoch in range(5)]
    [0.1, 0.1, 0.01, 0.01, 0.001]
    """

    _parameter_constraints = {"lr": [POSITIVE], "every": [COUNT], "factor": [POSITIVE], "unit": [UNIT]}

    def __init__(self, lr: float, every: int, factor: float = 0.1, unit: str = "epoch") -> None:
        self.lr = lr
        self.every = every
        self.factor = factor
        self.unit = unit

    def __call__(self, progress: Progress) -> float:
        return float(self.lr * float(self.factor) ** (_done(self, progress) // self.every))


class MultiStep(Schedule):
    """Decay by a factor at given milestones.

    Parameters
    ----------
    lr : float
        The initial rate.
    milestones : list of int
        The epochs at which it falls, in ascending order.
    factor : float, default=0.1
        What the rate is multiplied by.
    unit : {"epoch", "step"}, default="epoch"
        Whether the milestones are epochs or updates.

    Examples
    --------
    >>> from sknet.optim.schedules import MultiStep, Progress
    >>> schedule = MultiStep(0.1, milestones=[1, 3])
    >>> [round(schedule(Progress(epoch=epoch)), 4) for epoch in range(5)]
    [0.1, 0.01, 0.01, 0.001, 0.001]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "milestones": [list, tuple],
        "factor": [POSITIVE],
        "unit": [UNIT],
    }

    def __init__(
        self, lr: float, milestones: Sequence[int], factor: float = 0.1, unit: str = "epoch"
    ) -> None:
        self.lr = lr
        self.milestones = milestones
        self.factor = factor
        self.unit = unit

    def validate(self) -> None:
        super().validate()
        check_rising(self, "milestones", self.milestones)

    def __call__(self, progress: Progress) -> float:
        return float(self.lr * float(self.factor) ** bisect_right(self.milestones, _done(self, progress)))


def check_rising(schedule: Schedule, name: str, values: Sequence[Any]) -> None:
    """Raise an InvalidParameterError unless some numbers of updates or epochs are ascending ints."""
    counts = all(isinstance(value, int) and 0 < value < WHOLE for value in values)
    if not counts or list(values) != sorted(set(values)):
        raise InvalidParameterError(
            f"The {name!r} parameter of {type(schedule).__name__} must be a list of rising positive ints. "
            f"Got {shown(values)} instead."
        )


class Exponential(Schedule):
    """Exponential decay: by a factor every epoch.

    Parameters
    ----------
    lr : float
        The initial rate.
    factor : float, default=0.95
        What the rate is multiplied by.
    unit : {"epoch", "step"}, default="epoch"
        Whether it falls every epoch or at every update.

    Examples
    --------
    >>> from sknet.optim.schedules import Exponential, Progress
    >>> [Exponential(0.8, factor=0.5)(Progress(epoch=epoch)) for epoch in range(4)]
    [0.8, 0.4, 0.2, 0.1]
    """

    _parameter_constraints = {"lr": [POSITIVE], "factor": [POSITIVE], "unit": [UNIT]}

    def __init__(self, lr: float, factor: float = 0.95, unit: str = "epoch") -> None:
        self.lr = lr
        self.factor = factor
        self.unit = unit

    def __call__(self, progress: Progress) -> float:
        return float(self.lr * float(self.factor) ** _done(self, progress))


class Adaptive(Schedule):
    """A rate that is divided at every plateau; scikit-learn's "adaptive".

    Parameters
    ----------
    lr : float, Schedule or callable
        The initial rate, or a schedule whose rates are divided.
    factor : float, default=5.0
        What the rate is divided by at a plateau.
    min_lr : float, default=1e-6
        A rate at or below it is not divided again: at the next plateau the fit may stop.
    patience : int or None, default=None
        Number of epochs without improvement before the rate is divided, fewer than the
        ``n_iter_no_change`` after which the fit stops. None uses ``n_iter_no_change``, and the fit continues.
    cooldown : int, default=0
        Number of epochs after a division that do not count towards the next one.

    Notes
    -----
    With `patience` it corresponds to PyTorch's ``ReduceLROnPlateau``. The estimator's ``tol`` defines an
    improvement: of the validation score with early stopping, of the training loss without.

    Examples
    --------
    >>> from sknet.optim.schedules import Adaptive, Progress
    >>> schedule = Adaptive(0.1, min_lr=0.01)
    >>> [schedule(Progress(reductions=n)) for n in range(3)]
    [0.1, 0.02, 0.004]
    >>> [schedule.can_reduce(Progress(reductions=n)) for n in range(3)]
    [True, True, False]
    """

    _parameter_constraints = {
        "lr": RATE,
        "factor": [Interval(Real, 1, None, closed="neither")],
        "min_lr": [SHARE],
        "patience": [Interval(Integral, 0, None, closed="left"), None],
        "cooldown": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        lr: Rate,
        factor: float = 5.0,
        min_lr: float = 1e-6,
        patience: int | None = None,
        cooldown: int = 0,
    ) -> None:
        self.lr = lr
        self.factor = factor
        self.min_lr = min_lr
        self.patience = patience
        self.cooldown = cooldown

    def __call__(self, progress: Progress) -> float:
        check_epochs(self, progress)
        lr = rate_of(self.lr, progress)
        # One division for each plateau, as in scikit-learn: a power would round differently, and the fit
        # could stop one plateau earlier or later.
        for _ in range(progress.reductions):
            lr /= self.factor
        return float(lr)

    def can_reduce(self, progress: Progress) -> bool:
        return self(progress) > self.min_lr
