"""Learning rates as pure functions of how far a fit has come.

A schedule keeps nothing: what it depends on stands in a `Progress`, which whoever trains hands to
it before every update. So a fit can stop, be pickled and go on at the very same rate.
"""

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import NamedTuple

from sknet._params import Interval, InvalidParameterError, ParameterObject

__all__ = ["Adaptive", "Constant", "Cosine", "InverseScaling", "Progress", "Schedule"]

_POSITIVE = Interval(Real, 0, None, closed="neither")


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


class Schedule(ParameterObject, ABC):
    """Abstract base of the learning-rate schedules.

    A schedule of your own defines `__call__`, and `can_reduce` if it answers to plateaus.

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

    _parameter_constraints = {"lr": [_POSITIVE]}

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

    _parameter_constraints = {"lr": [_POSITIVE], "power": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, lr: float, power: float = 0.5) -> None:
        self.lr = lr
        self.power = power

    def __call__(self, progress: Progress) -> float:
        return float(self.lr / (progress.samples + 1) ** self.power)


class Adaptive(Schedule):
    """A rate that is divided at every plateau, until it is small enough; scikit-learn's "adaptive".

    Parameters
    ----------
    lr : float
        The rate to begin with.
    factor : float, default=5.0
        What the rate is divided by at a plateau.
    min_lr : float, default=1e-6
        A rate at or below it is not divided any more: at the next plateau the fit may stop.

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
        "lr": [_POSITIVE],
        "factor": [Interval(Real, 1, None, closed="neither")],
        "min_lr": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, lr: float, factor: float = 5.0, min_lr: float = 1e-6) -> None:
        self.lr = lr
        self.factor = factor
        self.min_lr = min_lr

    def __call__(self, progress: Progress) -> float:
        lr = float(self.lr)
        # One division for each plateau, as scikit-learn does it: a power would round otherwise, and
        # the fit could then stop one plateau earlier or later.
        for _ in range(progress.reductions):
            lr /= self.factor
        return float(lr)

    def can_reduce(self, progress: Progress) -> bool:
        return self(progress) > self.min_lr


class Cosine(Schedule):
    r"""A rate that falls along half a cosine.

    Parameters
    ----------
    lr : float
        The rate to begin with.
    min_lr : float, default=0.0
        The rate to end with, not above `lr`.
    n_steps : int or None, default=None
        How many updates it takes to get there; the rate stays at `min_lr` after them. None takes
        the whole fit.

    Notes
    -----
    At update t, counted from 0, of n updates, without restarts [1]_,

    .. math:: \mathrm{min\_lr} + \tfrac{1}{2} (\mathrm{lr} - \mathrm{min\_lr})
              \left(1 + \cos(\pi t / n)\right).

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts",
       ICLR 2017, equation 5.

    Examples
    --------
    >>> from sknet.optim.schedules import Cosine, Progress
    >>> schedule = Cosine(0.1, n_steps=4)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(6)]
    [0.1, 0.0854, 0.05, 0.0146, 0.0, 0.0]
    """

    _parameter_constraints = {
        "lr": [_POSITIVE],
        "min_lr": [Interval(Real, 0, None, closed="left")],
        "n_steps": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(self, lr: float, min_lr: float = 0.0, n_steps: int | None = None) -> None:
        self.lr = lr
        self.min_lr = min_lr
        self.n_steps = n_steps

    def validate(self) -> None:
        super().validate()
        if self.min_lr > self.lr:
            raise InvalidParameterError(
                f"The 'min_lr' parameter of Cosine must be at most lr={self.lr!r}. "
                f"Got {self.min_lr!r} instead."
            )

    def __call__(self, progress: Progress) -> float:
        n_steps = progress.total_steps if self.n_steps is None else self.n_steps
        if n_steps is None:
            raise ValueError(
                "Cosine(n_steps=None) falls over the whole fit, but progress.total_steps is None: how many "
                "updates this fit will make is not known. Give n_steps."
            )
        if progress.step >= n_steps:
            return float(self.min_lr)
        fall = 0.5 * (1.0 + math.cos(math.pi * progress.step / n_steps))
        return float(self.min_lr + (self.lr - self.min_lr) * fall)
