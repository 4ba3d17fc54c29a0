"""Linear and polynomial schedules."""

from sknet.optim.schedules._base import COUNT, POSITIVE, SHARE, Progress, Schedule, check_not_above, length_of

__all__ = ["Linear", "Polynomial"]


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


class Polynomial(Schedule):
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

    def validate(self) -> None:
        super().validate()
        check_not_above(self, "min_lr", self.min_lr, self.lr)

    def __call__(self, progress: Progress) -> float:
        n_steps = length_of(self, self.n_steps, progress)
        left = max(0.0, 1.0 - progress.step / n_steps) if n_steps else 0.0
        return float(self.min_lr + (self.lr - self.min_lr) * left**self.power)
