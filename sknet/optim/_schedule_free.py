"""Schedule-free AdamW."""

import math
from numbers import Integral, Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim._root import Named, Slots
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import DECAY, RATE, Rate, rate_of, scheduled


class ScheduleFreeAdamW(Optimizer):
    r"""AdamW with averaging of the parameters instead of a learning-rate schedule.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2.5e-3
        Learning rate, usually several times `AdamW`'s. A schedule works, but is not needed.
    beta1 : float, default=0.9
        Where gradients are evaluated, between the fast parameters (0) and their average (1).
    beta2 : float, default=0.999
        Decay rate of the moving average of the squared gradient, in [0, 1).
    eps : float, default=1e-8
        Added to the denominator for numerical stability.
    weight_decay : float, Schedule or callable, default=0.0
        Weight decay coefficient: each update subtracts ``lr * weight_decay`` times the parameter.
    warmup : int, default=0
        Number of updates over which the rate rises from near 0.

    Notes
    -----
    There are fast parameters z and their average x. Gradients g are evaluated, and parameters trained,
    in between, at :math:`y = (1 - \beta_1) z + \beta_1 x`; x is what predicts [1]_. With the mean square
    :math:`\nu` as `Adam`'s, at update t,

    .. math:: u = \sqrt{1 - \beta_2^t} \, \frac{g}{\sqrt{\nu} + \varepsilon}
              + \mathrm{weight\_decay} \cdot y, \qquad
              z \leftarrow z - \mathrm{lr}_t \, u, \qquad
              x \leftarrow (1 - c_t) x + c_t z, \qquad
              c_t = \frac{w_t}{w_1 + \dots + w_t}

    with weights :math:`w_t = \min(1, t / \mathrm{warmup})^2`, which are the squared rates of a
    constant `lr`. The only slots are :math:`\nu` and :math:`z - x`, which start at zero. Where eps is
    added differs from the authors' code: see `Adam`.

    The running statistics of normalizations belong to y, not to x.

    References
    ----------
    .. [1] A. Defazio et al., "The Road Less Scheduled", NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import ScheduleFreeAdamW
    >>> optimizer, weight = ScheduleFreeAdamW(lr=1.0, beta1=0.5), np.zeros(1)
    >>> state = optimizer.init(weight)
    >>> for _ in range(2):
    ...     delta, state = optimizer.update(np.array([-3.0]), state, weight)
    ...     weight = weight + delta
    >>> weight.round(4), optimizer.averaged(weight, state).round(4)  # z was 1, then 2
    (array([1.75]), array([1.5]))
    """

    slots = ("nu", "apart")
    averaging = ("apart",)
    squares = True

    _parameter_constraints = {
        "lr": RATE,
        "beta1": [Interval(Real, 0, 1, closed="left")],
        "beta2": [Interval(Real, 0, 1, closed="left")],
        "eps": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": DECAY,
        "warmup": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        lr: Rate = 2.5e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Rate = 0.0,
        warmup: int = 0,
    ) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.weight_decay = weight_decay
        self.warmup = warmup

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *scheduled(self.weight_decay))

    def learning_rate(self, progress: Progress) -> float:
        rate = super().learning_rate(progress)
        return rate * min(1.0, (progress.step + 1) / self.warmup) if self.warmup else rate

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr, beta1, n = self.learning_rate(progress), float(self.beta1), int(self.warmup)
        risen = min(count, n)
        total = risen * (risen + 1) * (2 * risen + 1) / (6 * n * n) + (count - risen) if n else count
        part = (min(1.0, count / n) ** 2 if n else 1.0) / total
        decay, scale = rate_of(self.weight_decay, progress), math.sqrt(1.0 - float(self.beta2) ** count)
        trained, fast = -lr * (1.0 - beta1 * (1.0 - part)), -lr * (1.0 - part)
        return {
            "lr": lr,
            "pull": beta1 * part,
            "step": trained * scale,
            "decay": trained * decay,
            "keep": 1.0 - part,
            "fast_step": fast * scale,
            "fast_decay": fast * decay,
        }

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        # All in terms of y and of apart = z - x: y is x + (1 - beta1) * apart, and z is y + beta1 * apart.
        nu = moving_average(slots[0], ops.square(gradient), self.beta2)
        direction, apart = gradient / (ops.sqrt(nu) + self.eps), slots[1]
        delta = hyper["pull"] * apart + hyper["step"] * direction
        moved = hyper["keep"] * apart + hyper["fast_step"] * direction
        if self.weight_decay:
            delta = delta + hyper["decay"] * param
            moved = moved + hyper["fast_decay"] * param
        return delta, (nu, moved)

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        part = 1.0 - float(self.beta1)
        return {path: param - part * slots["apart"][path] for path, param in params.items()}
