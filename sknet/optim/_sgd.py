"""Stochastic gradient descent."""

from numbers import Real

import numpy as np

from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import RATE, Rate


class SGD(Optimizer):
    r"""Stochastic gradient descent, optionally with momentum.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-2
        Learning rate.
    momentum : float, default=0.0
        Momentum coefficient, in [0, 1].
    nesterov : bool, default=False
        Whether to use Nesterov momentum. It has no effect without momentum.

    Notes
    -----
    With gradient g, velocity v and momentum :math:`\mu`, in scikit-learn's form [1]_,

    .. math:: v \leftarrow \mu v - \mathrm{lr} \, g, \qquad \Delta = v
              \quad \text{or, with nesterov,} \quad \Delta = \mu v - \mathrm{lr} \, g.

    The rate is part of the velocity, so a change of the rate does not rescale earlier steps. PyTorch
    applies it outside; the two agree as long as the rate is constant.

    References
    ----------
    .. [1] I. Sutskever, J. Martens, G. Dahl and G. Hinton, "On the importance of initialization and
       momentum in deep learning", ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD
    >>> optimizer, weight = SGD(lr=0.1, momentum=0.9), np.array([1.0])
    >>> state = optimizer.init(weight)
    >>> for _ in range(2):
    ...     delta, state = optimizer.update(2 * weight, state, weight)
    ...     weight = weight + delta
    >>> weight
    array([0.46])
    """

    slots = ("velocity",)

    _parameter_constraints = {
        "lr": RATE,
        "momentum": [Interval(Real, 0, 1, closed="both")],
        "nesterov": ["boolean"],
    }

    def __init__(self, lr: Rate = 1e-2, momentum: float = 0.0, nesterov: bool = False) -> None:
        self.lr = lr
        self.momentum = momentum
        self.nesterov = nesterov

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        if callable(self.lr):
            return super().hyper_table(progress, n_steps)
        table = np.empty((n_steps, 2))
        table[:] = float(self.lr), -float(self.lr)
        return table

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        return momentum_step(hyper["step"] * gradient, slots[0], self.momentum, self.nesterov)


def momentum_step(
    step: Tensor, velocity: Tensor, momentum: float, nesterov: bool = False
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return what to add to a parameter, and its new velocity, for a step without momentum."""
    if momentum == 0.0:
        return step, (step,)
    velocity = momentum * velocity + step
    return (momentum * velocity + step if nesterov else velocity), (velocity,)
