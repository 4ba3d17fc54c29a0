"""What every schedule is, and the two that are hardly one."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias

from sknet._params import Interval, InvalidParameterError, ParameterObject, StrOptions

__all__ = [
    "COUNT",
    "POSITIVE",
    "RATE",
    "SHARE",
    "UNIT",
    "Called",
    "Constant",
    "InverseScaling",
    "Progress",
    "Rate",
    "Schedule",
    "as_schedule",
    "check_not_above",
    "length_of",
    "rate_of",
]

POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
UNIT = StrOptions({"step", "epoch"})


class Progress(NamedTuple):
    """How far a fit has come, before the update that is about to be made.

    Attributes
    ----------
    step : int
        Updates done.
    epoch : int
        Epochs done.
    samples : int
        Training samples seen in the epochs done, each time counted.
    reductions : int
        How often the fit met a plateau and asked for a lower rate.
    total_steps : int or None
        Updates of the whole fit, if it is not stopped early; None if nobody knows.
    counts_epochs : bool
        Whether somebody tells where epochs end. If not, `epoch`, `samples` and `reductions` stay what
        they are, and a schedule that depends on one of them raises.

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
        """Return what it is after some more updates.

        Parameters
        ----------
        n_steps : int, default=1
            How many.

        Returns
        -------
        Progress
            With all else as it is.
        """
        return Progress(self[0] + n_steps, *self[1:])  # half the time of `_replace`, at every step


class Schedule(ParameterObject, ABC):
    """Abstract base of the learning-rate schedules.

    A schedule of your own defines `__call__`, and `can_reduce` if it answers to plateaus. A function of a
    `Progress` will do as well, wherever a schedule is asked for.

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
        """Return the learning rate of the next update.

        Parameters
        ----------
        progress : Progress
            How far the fit has come.

        Returns
        -------
        float
            The rate, in units of parameter per gradient.
        """

    def can_reduce(self, progress: Progress) -> bool:
        """Tell whether a plateau would lower the rate; if not, a fit may stop there.

        Parameters
        ----------
        progress : Progress
            How far the fit has come.

        Returns
        -------
        bool
            False, unless a schedule says otherwise.
        """
        return False

    patience: int | None = None
    """Epochs without improvement until it asks for a reduction; None for those of the fit."""

    cooldown: int = 0
    """Epochs after a reduction in which nothing is counted towards the next."""


Rate: TypeAlias = float | Schedule | Callable[[Progress], float]
RATE: list[Any] = [POSITIVE, Schedule, callable]


class Called(Schedule):
    """A function of one's own in the place of a schedule."""

    def __init__(self, function: Callable[[Progress], float]) -> None:
        self.function = function

    def __call__(self, progress: Progress) -> float:
        return float(self.function(progress))


def as_schedule(lr: Rate) -> Schedule:
    """Return a rate as a schedule: a number is a constant one."""
    if isinstance(lr, Schedule):
        return lr
    return Called(lr) if callable(lr) else Constant(lr)


def rate_of(lr: Rate, progress: Progress) -> float:
    """Return what a rate, given as a number, a schedule or a function, is at a certain progress."""
    return float(lr(progress) if callable(lr) else lr)


def length_of(schedule: Schedule, n_steps: int | None, progress: Progress) -> int:
    """Return how many updates a schedule takes: what it was given, or the whole fit.

    Raises
    ------
    ValueError
        If nobody knows how long the fit is.
    """
    found = progress.total_steps if n_steps is None else n_steps
    if found is None:
        raise ValueError(
            f"{type(schedule).__name__}(n_steps=None) goes over the whole fit, but progress.total_steps is "
            "None: how many updates this fit will make is not known. Give n_steps."
        )
    return found


def check_epochs(schedule: Schedule, progress: Progress) -> None:
    """Raise a ValueError unless epochs are counted, on which a schedule depends."""
    if not progress.counts_epochs:
        raise ValueError(
            f"the rate of {type(schedule).__name__} changes from epoch to epoch, and nobody says where "
            "epochs end: put the steps of each epoch into `with model.epoch():`, or call model.epoch_ended() "
            "before the first step and after each epoch; many schedules can count updates instead, with "
            "unit='step'"
        )


def check_not_above(schedule: Schedule, name: str, value: float, lr: float) -> None:
    """Raise an InvalidParameterError if a rate to end with is above the one to begin with."""
    if value > lr:
        raise InvalidParameterError(
            f"The {name!r} parameter of {type(schedule).__name__} must be at most lr={lr!r}. "
            f"Got {value!r} instead."
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
    r"""A rate that falls with a power of the samples seen; scikit-learn's "invscaling".

    Parameters
    ----------
    lr : float
        The rate of the first epoch.
    power : float, default=0.5
        How fast it falls.

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

    _parameter_constraints = {"lr": [POSITIVE], "power": [SHARE]}

    def __init__(self, lr: float, power: float = 0.5) -> None:
        self.lr = lr
        self.power = power

    def __call__(self, progress: Progress) -> float:
        check_epochs(self, progress)
        return float(self.lr / (progress.samples + 1) ** self.power)
