"""Lion."""

from numbers import Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import RATE, Rate


class Lion(Optimizer):
    r"""Steps of equal size in the direction of the sign of a mean gradient.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-4
        Learning rate: the size of every component of a step; usually a third to a tenth of `Adam`'s.
    beta1 : float, default=0.9
        Weight of the mean in the direction, in [0, 1); the gradient has the rest.
    beta2 : float, default=0.99
        Decay rate of the moving average of the gradient, in [0, 1).

    Notes
    -----
    With gradient g and mean :math:`\mu` [1]_,

    .. math:: \Delta = -\mathrm{lr} \, \mathrm{sign}(\beta_1 \mu + (1 - \beta_1) g), \qquad
              \mu \leftarrow \beta_2 \mu + (1 - \beta_2) g.

    The authors use it with three to ten times `AdamW`'s weight decay: ``WeightDecay(Lion(), 0.1)``.

    References
    ----------
    .. [1] X. Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Lion
    >>> optimizer, weight = Lion(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, -1000.0]), optimizer.init(weight), weight)
    >>> delta
    array([-0.01,  0.01])
    """

    slots = ("mu",)

    _parameter_constraints = {
        "lr": RATE,
        "beta1": [Interval(Real, 0, 1, closed="left")],
        "beta2": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(self, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.99) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        direction = ops.sign(moving_average(slots[0], gradient, self.beta1))
        return hyper["step"] * direction, (moving_average(slots[0], gradient, self.beta2),)
