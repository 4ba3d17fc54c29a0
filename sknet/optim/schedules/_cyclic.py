"""A cyclic schedule."""

from collections.abc import Callable

from sknet._params import StrOptions
from sknet.optim.schedules._base import COUNT, POSITIVE, Progress, Schedule

__all__ = ["Cyclic"]

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
