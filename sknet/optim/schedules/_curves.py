"""Schedules along curves of lines, powers and cosines, and compositions of schedules."""

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from numbers import Integral, Real

from sknet._constraints import constraint, satisfies, shown
from sknet._params import Composite, Interval, StrOptions, described_by
from sknet.exceptions import InvalidParameterError
from sknet.optim.schedules._base import (
    COUNT,
    POSITIVE,
    RATE,
    SHARE,
    Falling,
    Progress,
    Rate,
    Schedule,
    check_rising,
    length_of,
    rate_of,
)


class Linear(Schedule):
    """A rate that changes linearly, up or down.

    Parameters
    ----------
    lr : float
        The initial rate.
    end_lr : float, default=0.0
        The final rate.
    n_steps : int or None, default=None
        Number of updates until the rate reaches `end_lr`, where it stays. None takes the whole fit.

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


class Polynomial(Falling):
    r"""A rate that decays as a power of the remaining time.

    Parameters
    ----------
    lr : float
        The initial rate.
    power : float, default=2.0
        The exponent; 1 is the same as `Linear`.
    min_lr : float, default=0.0
        The final rate, at most `lr`.
    n_steps : int or None, default=None
        Number of updates until the rate reaches `min_lr`, where it stays. None takes the whole fit.

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

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        left = max(0.0, 1.0 - progress.step / n_steps) if n_steps else 0.0
        return float(self.min_lr + (self.lr - self.min_lr) * left**self.power)


@described_by(Polynomial)
class Cosine(Falling):
    r"""Cosine decay.

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

    _parameter_constraints = {"lr": [POSITIVE], "min_lr": [SHARE], "n_steps": [COUNT, None]}

    def __init__(self, lr: float, min_lr: float = 0.0, n_steps: int | None = None) -> None:
        self.lr = lr
        self.min_lr = min_lr
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        if progress.step >= n_steps:
            return float(self.min_lr)
        return _along_cosine(self.lr, self.min_lr, progress.step / n_steps)


@described_by(Polynomial)
class FlatThenCosine(Falling):
    r"""A constant rate, and cosine decay at the end.

    Parameters
    ----------
    lr : float
        The rate before the decay.
    flat : float, default=0.5
        The fraction of the updates with the constant rate, between 0 and 1.

    Notes
    -----
    After the fraction t of the updates, with the constant fraction f,

    .. math:: \mathrm{min\_lr} + \tfrac{1}{2} (\mathrm{lr} - \mathrm{min\_lr})
              \left(1 + \cos\left(\pi \, \frac{\max(t - f, 0)}{1 - f}\right)\right).

    With f = 1/2 it is "flat_cos", the schedule of RealMLP's weight decay and dropout [1]_.

    References
    ----------
    .. [1] D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and
       Boosted Trees on Tabular Data", NeurIPS 2024, section 3.

    Examples
    --------
    >>> from sknet.optim.schedules import FlatThenCosine, Progress
    >>> schedule = FlatThenCosine(0.1, n_steps=8)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(0, 10)]
    [0.1, 0.1, 0.1, 0.1, 0.1, 0.0854, 0.05, 0.0146, 0.0, 0.0]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "flat": [Interval(Real, 0, 1, closed="both")],
        "min_lr": [SHARE],
        "n_steps": [COUNT, None],
    }

    _rates_depend_on = "lr", "flat", "min_lr", "n_steps"  # unless that is None

    def __init__(self, lr: float, flat: float = 0.5, min_lr: float = 0.0, n_steps: int | None = None) -> None:
        self.lr = lr
        self.flat = flat
        self.min_lr = min_lr
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        if progress.step >= n_steps:
            return float(self.min_lr)
        start = self.flat * n_steps
        part = 0.0 if progress.step <= start else (progress.step - start) / (n_steps - start)
        return _along_cosine(self.lr, self.min_lr, part)


class CosLog(Schedule):
    r"""Cosine cycles that begin and end at zero, each about twice as long as the one before.

    Parameters
    ----------
    lr : float
        The rate at the peaks.
    n_cycles : int, default=4
        Number of cycles.
    n_steps : int or None, default=None
        Number of updates of all cycles, after which the rate stays 0. None takes the whole fit.

    Notes
    -----
    After the fraction t of the updates, with k cycles,

    .. math:: \tfrac{1}{2} \mathrm{lr} \left(1 - \cos\left(2 \pi \log_2(1 + (2^k - 1) t)\right)\right).

    The default is RealMLP's "coslog4" [1]_. Unlike with `CosineRestarts`, the rate never jumps; the
    first update has the rate 0.

    References
    ----------
    .. [1] D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and
       Boosted Trees on Tabular Data", NeurIPS 2024, section 3.

    Examples
    --------
    >>> from sknet.optim.schedules import CosLog, Progress
    >>> schedule = CosLog(0.1, n_cycles=2, n_steps=6)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(8)]
    [0.0, 0.093, 0.0, 0.0718, 0.093, 0.0324, 0.0, 0.0]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "n_cycles": [Interval(Integral, 1, 1000, closed="both")],
        "n_steps": [COUNT, None],
    }

    def __init__(self, lr: float, n_cycles: int = 4, n_steps: int | None = None) -> None:
        self.lr = lr
        self.n_cycles = n_cycles
        self.n_steps = n_steps

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        if progress.step >= n_steps:
            return 0.0
        cycle = math.log2(1.0 + (2**self.n_cycles - 1) * (progress.step / n_steps))
        return _along_cosine(0.0, self.lr, 2.0 * cycle)


class CosineRestarts(Falling):
    r"""Cosine decay with warm restarts (SGDR).

    Parameters
    ----------
    lr : float
        The initial rate of each period.
    n_steps : int
        Number of updates of the first period.
    growth : int, default=1
        Ratio of the lengths of consecutive periods.
    min_lr : float, default=0.0
        The rate that each period approaches, at most `lr`.

    Notes
    -----
    At update t of a period of n updates, both counted from 0 [1]_, as in PyTorch's
    ``CosineAnnealingWarmRestarts``,

    .. math:: \mathrm{min\_lr} + \tfrac{1}{2} (\mathrm{lr} - \mathrm{min\_lr})
              \left(1 + \cos(\pi t / n)\right).

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts",
       ICLR 2017, equation 5.

    Examples
    --------
    >>> from sknet.optim.schedules import CosineRestarts, Progress
    >>> schedule = CosineRestarts(0.1, n_steps=2, growth=2)
    >>> [round(schedule(Progress(step=step)), 4) for step in range(7)]
    [0.1, 0.05, 0.1, 0.0854, 0.05, 0.0146, 0.1]
    """

    _parameter_constraints = {"lr": [POSITIVE], "n_steps": [COUNT], "growth": [COUNT], "min_lr": [SHARE]}

    def __init__(self, lr: float, n_steps: int, growth: int = 1, min_lr: float = 0.0) -> None:
        self.lr = lr
        self.n_steps = n_steps
        self.growth = growth
        self.min_lr = min_lr

    def __call__(self, progress: Progress) -> float:
        step, length = progress.step, self.n_steps
        if self.growth == 1:
            step %= length
        while step >= length:
            step, length = step - length, length * self.growth
        return _along_cosine(self.lr, self.min_lr, step / length)


class OneCycle(Schedule):
    r"""One cycle: a rise to a peak, and a decay to far below the initial rate.

    Parameters
    ----------
    lr : float
        The rate at the peak.
    n_steps : int or None, default=None
        Number of updates of the cycle, after which the rate stays low. None takes the whole fit.
    rise : float, default=0.3
        The fraction of the cycle in which the rate rises, between 0 and 1.
    start_ratio : float, default=25.0
        Ratio of the peak to the first rate.
    end_ratio : float, default=1e4
        Ratio of the first rate to the last one.

    Notes
    -----
    Both ways go along half a cosine, as in PyTorch, whose names are ``pct_start``, ``div_factor`` and
    ``final_div_factor``; it also varies the momentum. Proposed in [1]_.

    References
    ----------
    .. [1] L. N. Smith and N. Topin, "Super-Convergence: Very Fast Training of Neural Networks Using
       Large Learning Rates", arXiv:1708.07120, 2017.

    Examples
    --------
    >>> from sknet.optim.schedules import OneCycle, Progress
    >>> schedule = OneCycle(1.0, n_steps=7, rise=0.5, start_ratio=10.0)
    >>> [round(schedule(Progress(step=step)), 3) for step in range(8)]
    [0.1, 0.411, 0.914, 0.95, 0.611, 0.188, 0.0, 0.0]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "n_steps": [Interval(Integral, 2, None, closed="left"), None],
        "rise": [Interval(Real, 0, 1, closed="both")],
        "start_ratio": [Interval(Real, 1, None, closed="left")],
        "end_ratio": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        lr: float,
        n_steps: int | None = None,
        rise: float = 0.3,
        start_ratio: float = 25.0,
        end_ratio: float = 1e4,
    ) -> None:
        self.lr = lr
        self.n_steps = n_steps
        self.rise = rise
        self.start_ratio = start_ratio
        self.end_ratio = end_ratio

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        first = self.lr / self.start_ratio
        last, peak = n_steps - 1, self.rise * n_steps - 1.0
        if progress.step <= peak:
            return _along_cosine(first, self.lr, progress.step / peak if peak else 1.0)
        if progress.step >= last:
            return float(first / self.end_ratio)
        return _along_cosine(self.lr, first / self.end_ratio, (progress.step - peak) / (last - peak))


def _along_cosine(start: float, end: float, part: float) -> float:
    return float(end + (start - end) * (0.5 * (1.0 + math.cos(math.pi * part))))


# Factor of a cycle's height, from the number of the cycle, that of the update (both from 0) and `factor`.
SHAPES: dict[str, Callable[[int, int, float], float]] = {
    "triangular": lambda cycle, step, factor: 1.0,
    "triangular2": lambda cycle, step, factor: 0.5**cycle,
    "exp_range": lambda cycle, step, factor: factor**step,
}


class Cyclic(Schedule):
    r"""A rate that rises and falls linearly in cycles.

    Parameters
    ----------
    lr : float
        The rate at the beginning and end of each cycle.
    peak_lr : float
        The highest rate of the first cycle.
    n_steps_up : int, default=2000
        Number of updates from the lowest to the highest rate.
    n_steps_down : int or None, default=None
        Number of updates back; None takes as many.
    mode : {"triangular", "triangular2", "exp_range"}, default="triangular"
        Whether the height of the cycles is constant, halves from cycle to cycle, or decays by `factor` at
        each update.
    factor : float, default=1.0
        Decay per update in mode "exp_range".

    Notes
    -----
    The policies of [1]_; PyTorch's ``CyclicLR`` without its changes of momentum.

    References
    ----------
    .. [1] L. N. Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017.

    Examples
    --------
    >>> from sknet.optim.schedules import Cyclic, Progress
    >>> schedule = Cyclic(0.1, 0.5, n_steps_up=2, mode="triangular2")
    >>> [round(schedule(Progress(step=step)), 4) for step in range(8)]
    [0.1, 0.3, 0.5, 0.3, 0.1, 0.2, 0.3, 0.2]
    """

    _parameter_constraints = {
        "lr": [POSITIVE],
        "peak_lr": [POSITIVE],
        "n_steps_up": [COUNT],
        "n_steps_down": [COUNT, None],
        "mode": [StrOptions(set(SHAPES))],
        "factor": [POSITIVE],
    }

    def __init__(
        self,
        lr: float,
        peak_lr: float,
        n_steps_up: int = 2000,
        n_steps_down: int | None = None,
        mode: str = "triangular",
        factor: float = 1.0,
    ) -> None:
        self.lr = lr
        self.peak_lr = peak_lr
        self.n_steps_up = n_steps_up
        self.n_steps_down = n_steps_down
        self.mode = mode
        self.factor = factor

    def __call__(self, progress: Progress) -> float:
        up = self.n_steps_up
        down = up if self.n_steps_down is None else self.n_steps_down
        cycle, step = divmod(progress.step, up + down)
        part = step / up if step <= up else (up + down - step) / down
        height = SHAPES[self.mode](cycle, progress.step, self.factor)
        return float(self.lr + (self.peak_lr - self.lr) * part * height)


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

    _rates_depend_on = "lr", "n_steps"

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
            elif not any(satisfies(schedule, constraint(each)) for each in RATE):
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
