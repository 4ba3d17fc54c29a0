"""Adagrad and Adadelta."""

from numbers import Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import RATE, Rate

_POSITIVE = Interval(Real, 0, None, closed="neither")


class Adagrad(Optimizer):
    r"""Gradient descent with each gradient divided by the root of the sum of its past squares.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1e-2
        Learning rate.
    eps : float, default=1e-10
        Added to the denominator for numerical stability.

    Notes
    -----
    With gradient g and sum of squares s [1]_,

    .. math:: s \leftarrow s + g^2, \qquad \Delta = -\mathrm{lr} \, g / (\sqrt{s} + \varepsilon).

    The same as PyTorch's with its default parameters; ``lr_decay`` is a schedule here.

    References
    ----------
    .. [1] J. Duchi, E. Hazan and Y. Singer, "Adaptive Subgradient Methods for Online Learning and
       Stochastic Optimization", JMLR 12, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Adagrad
    >>> optimizer, weight = Adagrad(lr=0.1), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.001, 1000.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.1, -0.1])
    """

    slots = ("total",)
    squares = True

    _parameter_constraints = {"lr": RATE, "eps": [_POSITIVE]}

    def __init__(self, lr: Rate = 1e-2, eps: float = 1e-10) -> None:
        self.lr = lr
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        total = slots[0] + ops.square(gradient)
        return ops.scaled_quotient(hyper["step"], gradient, ops.sqrt(total) + self.eps), (total,)


class Adadelta(Optimizer):
    r"""Steps scaled by the size of earlier steps relative to the gradients, almost without a learning rate.

    Parameters
    ----------
    lr : float, Schedule or callable, default=1.0
        Factor of every step; the original method has none.
    rho : float, default=0.9
        Decay rate of the moving averages of squares, in [0, 1).
    eps : float, default=1e-6
        Added to the mean squares; determines the size of the first steps.

    Notes
    -----
    With gradient g, its mean square :math:`\nu` and the mean square s of steps [1]_, as in PyTorch,

    .. math:: \nu \leftarrow \rho \nu + (1 - \rho) g^2, \qquad
              u = \sqrt{\frac{s + \varepsilon}{\nu + \varepsilon}} \, g, \qquad
              s \leftarrow \rho s + (1 - \rho) u^2, \qquad \Delta = -\mathrm{lr} \, u.

    References
    ----------
    .. [1] M. D. Zeiler, "ADADELTA: An Adaptive Learning Rate Method", arXiv:1212.5701, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Adadelta
    >>> optimizer, weight = Adadelta(), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, 1000.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.0032, -0.0032])
    """

    slots = ("nu", "steps")
    squares = True

    _parameter_constraints = {
        "lr": RATE,
        "rho": [Interval(Real, 0, 1, closed="left")],
        "eps": [_POSITIVE],
    }

    def __init__(self, lr: Rate = 1.0, rho: float = 0.9, eps: float = 1e-6) -> None:
        self.lr = lr
        self.rho = rho
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        nu = moving_average(slots[0], ops.square(gradient), self.rho)
        step = ops.sqrt(slots[1] + self.eps) / ops.sqrt(nu + self.eps) * gradient
        steps = moving_average(slots[1], ops.square(step), self.rho)
        return hyper["step"] * step, (nu, steps)
