"""Variants of Adam: Adamax, NAdam and RAdam."""

import math
from functools import lru_cache
from itertools import accumulate
from numbers import Real
from operator import mul

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import RATE, Rate

_CONSTRAINTS = {
    "lr": RATE,
    "beta1": [Interval(Real, 0, 1, closed="left")],
    "beta2": [Interval(Real, 0, 1, closed="left")],
    "eps": [Interval(Real, 0, None, closed="neither")],
}


class Adamax(Optimizer):
    r"""Adam with a decaying maximum of the gradient instead of the root mean square.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2e-3
        Learning rate.
    beta1 : float, default=0.9
        Decay rate of the moving average of the gradient, in [0, 1).
    beta2 : float, default=0.999
        How slowly the largest gradient shrinks, from 0 to below 1.
    eps : float, default=1e-8
        Added to the largest gradient, so that nothing is divided by 0.

    Notes
    -----
    With gradient g, mean :math:`\mu` and largest gradient u, at update t, as Algorithm 2 of [1]_,

    .. math:: \mu \leftarrow \beta_1 \mu + (1 - \beta_1) g, \qquad
              u \leftarrow \max(\beta_2 u, |g|), \qquad
              \Delta = -\frac{\mathrm{lr}}{1 - \beta_1^t} \, \frac{\mu}{u + \varepsilon}.

    PyTorch adds eps to the absolute gradient.

    References
    ----------
    .. [1] D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Adamax
    >>> optimizer, weight = Adamax(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, -1000.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.01,  0.01])
    """

    slots = ("mu", "largest")

    _parameter_constraints = _CONSTRAINTS

    def __init__(self, lr: Rate = 2e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr / (1.0 - float(self.beta1) ** count)}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mu = moving_average(slots[0], gradient, self.beta1)
        largest = ops.maximum(self.beta2 * slots[1], ops.abs(gradient))
        return ops.scaled_quotient(hyper["step"], mu, largest + self.eps), (mu, largest)


class NAdam(Optimizer):
    r"""Adam with Nesterov momentum.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2e-3
        Learning rate.
    beta1 : float, default=0.9
        Decay rate of the moving average of the gradient, in [0, 1).
    beta2 : float, default=0.999
        Decay rate of the moving average of the squared gradient, in [0, 1).
    eps : float, default=1e-8
        Added to the denominator for numerical stability.
    momentum_decay : float, default=4e-3
        How fast the momentum rises from half of `beta1` to all of it; 0 leaves it at half.

    Notes
    -----
    With the momentum of update t, :math:`m_t = \beta_1 (1 - \tfrac{1}{2} 0.96^{t \psi})`, its product
    :math:`M_t = m_1 \cdots m_t`, and `Adam`'s mean :math:`\mu` and mean square :math:`\nu` [1]_,

    .. math:: \Delta = -\mathrm{lr} \, \frac{\sqrt{1 - \beta_2^t}}{\sqrt{\nu} + \varepsilon} \left(
              \frac{1 - m_t}{1 - M_t} g + \frac{m_{t+1}}{1 - M_{t+1}} \mu \right).

    The same as PyTorch's, except for where eps is added: see `Adam`.

    References
    ----------
    .. [1] T. Dozat, "Incorporating Nesterov Momentum into Adam", ICLR Workshop 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import NAdam
    >>> optimizer, weight = NAdam(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, -1000.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.0105,  0.0105])
    """

    slots = ("mu", "nu")
    squares = True

    _parameter_constraints = {**_CONSTRAINTS, "momentum_decay": [Interval(Real, 0, None, closed="left")]}

    def __init__(
        self,
        lr: Rate = 2e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        momentum_decay: float = 4e-3,
    ) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.momentum_decay = momentum_decay

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr, beta1, decay = self.learning_rate(progress), float(self.beta1), float(self.momentum_decay)
        now, next_one = _momentum(beta1, decay, count), _momentum(beta1, decay, count + 1)
        product = _product(beta1, decay, count)
        step = -lr * math.sqrt(1.0 - float(self.beta2) ** count)
        ahead = step * next_one / (1.0 - product * next_one)
        return {"lr": lr, "step": step * (1.0 - now) / (1.0 - product), "ahead": ahead}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mu = moving_average(slots[0], gradient, self.beta1)
        nu = moving_average(slots[1], ops.square(gradient), self.beta2)
        step = hyper["step"] * gradient + hyper["ahead"] * mu
        return step / (ops.sqrt(nu) + self.eps), (mu, nu)


def _momentum(beta1: float, decay: float, count: int) -> float:
    return beta1 * (1.0 - 0.5 * math.pow(0.96, count * decay))


def _product(beta1: float, decay: float, count: int) -> float:
    """Return the product of all momenta up to an update."""
    # Every momentum is below beta1, so the product is negligible against 1 here.
    if beta1 == 0.0 or count * math.log(beta1) < -40.0:
        return 0.0
    products: list[float] = _products(beta1, decay, 1 << count.bit_length())
    return products[count - 1]


@lru_cache(maxsize=32)
def _products(beta1: float, decay: float, n: int) -> list[float]:
    momenta = [_momentum(beta1, decay, count) for count in range(1, n + 1)]
    return list(accumulate(momenta, mul))


class RAdam(Optimizer):
    r"""Adam that adapts the step only once the variance of the mean square is small enough.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-3
        Learning rate.
    beta1 : float, default=0.9
        Decay rate of the moving average of the gradient, in [0, 1).
    beta2 : float, default=0.999
        Decay rate of the moving average of the squared gradient, in [0, 1).
    eps : float, default=1e-8
        Added to the denominator for numerical stability.

    Notes
    -----
    With `Adam`'s mean :math:`\mu` and mean square :math:`\nu`, at update t [1]_,

    .. math:: \rho_\infty = \frac{2}{1 - \beta_2} - 1, \qquad
              \rho_t = \rho_\infty - \frac{2 t \beta_2^t}{1 - \beta_2^t}, \qquad
              r_t = \sqrt{\frac{(\rho_t - 4)(\rho_t - 2) \rho_\infty}
                               {(\rho_\infty - 4)(\rho_\infty - 2) \rho_t}},

    the step is `Adam`'s times :math:`r_t` where :math:`\rho_t > 5`, as in PyTorch, and
    :math:`-\mathrm{lr} \, \mu / (1 - \beta_1^t)` before: five steps, for the default `beta2`.

    References
    ----------
    .. [1] L. Liu et al., "On the Variance of the Adaptive Learning Rate and Beyond", ICLR 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import RAdam
    >>> optimizer, weight = RAdam(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, -1.0]), optimizer.init(weight), weight)
    >>> delta
    array([-0.001,  0.01 ])
    """

    slots = ("mu", "nu")
    squares = True

    _parameter_constraints = _CONSTRAINTS

    def __init__(self, lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr, power = self.learning_rate(progress), float(self.beta2) ** count
        step = -lr / (1.0 - float(self.beta1) ** count)
        last = 2.0 / (1.0 - float(self.beta2)) - 1.0
        now = last - 2.0 * count * power / (1.0 - power)
        if now <= 5.0:
            return {"lr": lr, "adaptive": 0.0, "plain": step}
        rectified = (now - 4.0) * (now - 2.0) * last / ((last - 4.0) * (last - 2.0) * now)
        return {"lr": lr, "adaptive": step * math.sqrt(rectified * (1.0 - power)), "plain": 0.0}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mu = moving_average(slots[0], gradient, self.beta1)
        nu = moving_average(slots[1], ops.square(gradient), self.beta2)
        return ops.scaled_quotient(hyper["adaptive"], mu, ops.sqrt(nu) + self.eps) + hyper["plain"] * mu, (
            mu,
            nu,
        )
