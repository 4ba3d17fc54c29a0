"""Rprop."""

from sknet import ops
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import POSITIVE, RATE, Rate


class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller & Braun, ICNN 1993): only signs count, so it is for full batches.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-2
        Size of the first step; a schedule scales all steps.
    shrink, growth : float, default=0.5, 1.2
        Factors of a step where the gradient changes sign, and where it keeps its sign.
    min_step, max_step : float, default=1e-6, 50.0
        Limits of the steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Rprop
    >>> optimizer, weight = Rprop(lr=0.1), np.array([1.0, 1.0])
    >>> optimizer.update(np.array([1e-9, -1000.0]), optimizer.init(weight), weight)[0]
    array([-0.1,  0.1])
    """

    slots = ("before", "excess")  # the gradient, and the step's excess over lr as a fraction of lr
    _parameter_constraints = {"lr": RATE} | {
        name: [POSITIVE] for name in ("shrink", "growth", "min_step", "max_step")
    }

    def __init__(
        self, lr: Rate = 1e-2, shrink: float = 0.5, growth: float = 1.2, min_step: float = 1e-6,
        max_step: float = 50.0,
    ) -> None:  # fmt: skip
        self.lr = lr
        self.shrink, self.growth, self.min_step, self.max_step = shrink, growth, min_step, max_step

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        least, most = (self.min_step / lr, self.max_step / lr) if lr else (0.0, float("inf"))
        return {"lr": lr, "step": -lr, "least": least, "most": most}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        turn = ops.sign(gradient) * ops.sign(slots[0])
        factor = ops.where(turn > 0, self.growth, ops.where(turn < 0, self.shrink, 1.0))
        ratio = ops.clip((slots[1] + 1.0) * factor.astype(param.dtype), hyper["least"], hyper["most"])
        gradient = ops.where(turn < 0, 0.0, gradient)
        return hyper["step"] * ratio * ops.sign(gradient), (gradient, ratio - 1.0)
