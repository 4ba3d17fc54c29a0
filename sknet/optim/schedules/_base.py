"""The base of the schedules, and those that decay in steps or at plateaus."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

from sknet._constraints import Taking, is_whole, shown
from sknet._params import Interval, ParameterObject, StrOptions
from sknet.exceptions import InvalidParameterError

POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
UNIT = StrOptions({"step", "epoch"})


class Progress(NamedTuple):
    """The progress of a fit before its next update.

    Attributes
    ----------
    step : int
        Number of updates done.
    epoch : int
        Number of epochs done.
    samples : int
        Number of training samples seen in these epochs, counted every time.
    reductions : int
        Number of plateaus at which the rate was reduced.
    total_steps : int or None
        Number of updates of the whole fit, unless it stops early; None if unknown.
    counts_epochs : bool
        Whether the ends of epochs are reported. If not, `epoch`, `samples` and `reductions` never change,
        and a schedule that depends on one of them raises.

    Examples
    --------
    >>> from sknet.optim.schedules import Progress
    >>> Progress(step=3).epoch
    0
    """

    step: int = 0
    epoch: int = 0
    samples: int = 0
    reductions: int = 0
    total_steps: int | None = None
    counts_epochs: bool = True

    def stepped(self, n_steps: int = 1) -> "Progress":
        """Return the progress after `n_steps` more updates."""
        # A quarter of the time of `_replace`, and called at every step.
        return tuple.__new__(Progress, (self[0] + n_steps, *self[1:]))

    def epoch_ended(self, n_samples: int) -> "Progress":
        """Return the progress after an epoch in which `n_samples` were seen has ended."""
        return tuple.__new__(Progress, (self[0], self[1] + 1, self[2] + n_samples, *self[3:]))

    def planned(self, total_steps: int | None) -> "Progress":
        """Return the progress at the beginning of a fit by a loop, planned to end at `total_steps`."""
        return Progress(*self[:4], total_steps, True)


class Schedule(ParameterObject, ABC):
    """Abstract base of the learning-rate schedules.

    A custom schedule defines `__call__`, and `can_reduce` if it responds to plateaus. Wherever a schedule
    is expected, a function of a `Progress` can be used as well.

    Examples
    --------
    >>> from sknet.optim import SGD, schedules
    >>> class Halved(schedules.Schedule):
    ...     def __init__(self, lr):
    ...         self.lr = lr
    ...
    ...     def __call__(self, progress):
    ...         return self.lr / 2**progress.epoch
    >>> SGD(lr=Halved(0.8)).learning_rate(schedules.Progress(epoch=2))
    0.2
    """

    @abstractmethod
    def __call__(self, progress: Progress) -> float:
        """Return the learning rate of the next update, at this `progress` of the fit."""

    def can_reduce(self, progress: Progress) -> bool:
        """Tell whether a plateau at this `progress` reduces the rate; if not, as here, a fit may stop."""
        return False

    patience: int | None = None
    """Epochs without improvement before the rate is reduced; None uses those of the fit."""

    cooldown: int = 0
    """Epochs after a reduction that do not count towards the next one."""


Rate: TypeAlias = float | Schedule | Callable[[Progress], float]
_OF_PROGRESS = Taking(1, "a Progress")
RATE: list[Any] = [POSITIVE, Schedule, _OF_PROGRESS]
DECAY: list[Any] = [SHARE, Schedule, _OF_PROGRESS]


class Called(Schedule):
    def __init__(self, function: Callable[[Progress], float]) -> None:
        self.function = function

    def __call__(self, progress: Progress) -> float:
        return rate_of(self.function, progress)


def as_schedule(lr: Rate) -> Schedule:
    """Return a rate as a schedule; a number becomes a constant one."""
    if not callable(lr):
        return Constant(lr)
    return lr if isinstance(lr, Schedule) else Called(lr)


def scheduled(rate: Rate) -> tuple[Schedule, ...]:
    return (as_schedule(rate),) if callable(rate) else ()


def rate_of(lr: Rate, progress: Progress) -> float:
    """Return the value of a rate (a number, a schedule or a function) at some progress."""
    if not callable(lr):
        return float(lr)
    try:
        found = lr(progress)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # from within the function
        raise TypeError(f"{shown(lr)} is called with a Progress for a rate: {error}") from error
    try:
        return float(found)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{shown(lr)} is called with a Progress for a rate, and must return a number. "
            f"Got {shown(found)} at step {progress.step}."
        ) from None


def length_of(schedule: Schedule, n_steps: int | None, progress: Progress) -> int:
    """Return the length of a schedule in updates: its own, or that of the whole fit."""
    found = progress.total_steps if n_steps is None else n_steps
    if found is None:
        raise ValueError(
            f"{type(schedule).__name__}(n_steps=None) spans the whole fit, but progress.total_steps is "
            "None: the number of updates of this fit is not known. Give n_steps."
        )
    return found


def check_epochs(schedule: Schedule, progress: Progress) -> None:
    """Raise a ValueError unless epochs are counted, on which a schedule depends."""
    if not progress.counts_epochs:
        raise ValueError(
            f"the rate of {type(schedule).__name__} changes from epoch to epoch, but the ends of epochs "
            "are not reported: put the steps of each epoch into `with model.epoch():`, or call "
            "model.epoch_ended() before the first step and after each epoch; many schedules can count "
            "updates instead, with unit='step'"
        )


class Falling(Schedule):
    lr: float
    min_lr: float

    def validate(self) -> None:
        super().validate()
        if self.min_lr > self.lr:
            raise InvalidParameterError(
                f"The 'min_lr' parameter of {type(self).__name__} must be at most lr={self.lr!r}. "
                f"Got {shown(self.min_lr)} instead."
            )


class Constant(Schedule):
    """The same learning rate throughout.

    Parameters
    ----------
    lr : float
        The rate.

    Examples
    --------
    >>> from sknet.optim.schedules import Constant, Progress
    >>> Constant(0.1)(Progress(step=1000))
    0.1
    """

    _parameter_constraints = {"lr": [POSITIVE]}

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def __call__(self, progress: Progress) -> float:
        return float(self.lr)


class InverseScaling(Schedule):
    r"""Decay by a power of the number of samples seen; scikit-learn's "invscaling".

    Parameters
    ----------
    lr : float
        The rate of the first epoch.
    power : float, default=0.5
        The exponent of the decay, at most 10.

    Notes
    -----
    :math:`\mathrm{lr} / (1 + \mathrm{samples})^\mathrm{power}`, with the samples of the epochs
    done: the rate changes between epochs.

    Examples
    --------
    >>> from sknet.optim.schedules import InverseScaling, Progress
    >>> InverseScaling(0.1)(Progress(samples=99))
    0.01
    """

    _parameter_constraints = {"lr": [POSITIVE], "power": [Interval(Real, 0, 10, closed="both")]}

    def __init__(self, lr: float, power: float = 0.5) -> None:
        self.lr = lr
        self.power = power

    def __call__(self, progress: Progress) -> float:
        check_epochs(self, progress)
        return float(self.lr / (progress.samples + 1) ** float(self.power))


class InverseTime(Falling):
    r"""A constant rate, and decay by the inverse of the number of updates down to a final rate.

    Parameters
    ----------
    lr : float
        The rate of the first updates.
    n_steps : int
        Number of updates with this rate.
    min_lr : float, default=0.0
        The final rate, at most `lr`.

    Notes
    -----
    At update t, counted from 0, :math:`\max(\mathrm{min\_lr}, \mathrm{lr} \min(1, n / (t + 1)))`. Unlike
    along a cosine, no length of the fit is needed. ``Adam(InverseTime(0.02, 50, 0.001))`` begins at 0.02 and
    falls to Adam's default rate: few epochs get further.

    Examples
    --------
    >>> from sknet.optim.schedules import InverseTime, Progress
    >>> schedule = InverseTime(0.1, n_steps=2, min_lr=0.04)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(6)]
    [0.1, 0.1, 0.0667, 0.05, 0.04, 0.04]
    """

    _parameter_constraints = {"lr": [POSITIVE], "n_steps": [COUNT], "min_lr": [SHARE]}

    _rates_depend_on = "lr", "n_steps", "min_lr"

    def __init__(self, lr: float, n_steps: int, min_lr: float = 0.0) -> None:
        self.lr = lr
        self.n_steps = n_steps
        self.min_lr = min_lr

    def __call__(self, progress: Progress) -> float:
        return float(max(self.min_lr, self.lr * min(1.0, self.n_steps / (progress.step + 1))))


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
        Factor of the rate.
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
        Factor of the rate.
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
    if not all(map(is_whole, values)) or list(values) != sorted(set(values)):
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
        Factor of the rate.
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
        Divisor of the rate at a plateau.
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
