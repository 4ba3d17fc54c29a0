"""RMSprop."""

from numbers import Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim._sgd import momentum_step
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import RATE, Rate


class RMSprop(Optimizer):
    r"""Gradient descent with each gradient divided by the root of its moving mean square.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-3
        Learning rate.
    rho : float, default=0.99
        Decay rate of the moving average of the squared gradient, in [0, 1).
    momentum : float, default=0.0
        Momentum coefficient, in [0, 1].
    eps : float, default=1e-8
        Added to the denominator for numerical stability.

    Notes
    -----
    With gradient g, mean square :math:`\nu` and velocity v [1]_,

    .. math:: \nu \leftarrow \rho \nu + (1 - \rho) g^2, \qquad
              v \leftarrow \mu v - \mathrm{lr} \, g / (\sqrt{\nu} + \varepsilon), \qquad \Delta = v.

    The constant is added after the root, as in PyTorch; the rate is part of the velocity, as in
    `SGD`.

    References
    ----------
    .. [1] T. Tieleman and G. Hinton, "Lecture 6.5: rmsprop", Coursera, Neural Networks for Machine
       Learning, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import RMSprop
    >>> optimizer, weight = RMSprop(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.001, 1000.0]), optimizer.init(weight), weight)
    >>> delta.round(3)
    array([-0.1, -0.1])
    """

    slots = ("nu", "velocity")
    squares = True

    _parameter_constraints = {
        "lr": RATE,
        "rho": [Interval(Real, 0, 1, closed="left")],
        "momentum": [Interval(Real, 0, 1, closed="both")],
        "eps": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, lr: Rate = 1e-3, rho: float = 0.99, momentum: float = 0.0, eps: float = 1e-8) -> None:
        self.lr = lr
        self.rho = rho
        self.momentum = momentum
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        nu = moving_average(slots[0], ops.square(gradient), self.rho)
        step = ops.scaled_quotient(hyper["step"], gradient, ops.sqrt(nu) + self.eps)
        delta, (velocity,) = momentum_step(step, slots[1], self.momentum)
        return delta, (nu, velocity)
