"""Stochastic gradient descent, and updates scaled by squares or signs of gradients."""

from numbers import Real

import numpy as np

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim.schedules import Progress
from sknet.optim.schedules._base import POSITIVE, RATE, Rate


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

    _parameter_constraints = {"lr": RATE, "eps": [POSITIVE]}

    def __init__(self, lr: Rate = 1e-2, eps: float = 1e-10) -> None:
        self.lr = lr
        self.eps = eps

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

    _parameter_constraints = {"lr": RATE, "rho": [Interval(Real, 0, 1, closed="left")], "eps": [POSITIVE]}

    def __init__(self, lr: Rate = 1.0, rho: float = 0.9, eps: float = 1e-6) -> None:
        self.lr = lr
        self.rho = rho
        self.eps = eps

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        nu = moving_average(slots[0], ops.square(gradient), self.rho)
        step = ops.sqrt(slots[1] + self.eps) / ops.sqrt(nu + self.eps) * gradient
        steps = moving_average(slots[1], ops.square(step), self.rho)
        return hyper["step"] * step, (nu, steps)


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

    The constant is added after the root, as in PyTorch; the rate is part of the velocity, as in `SGD`.

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

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        nu = moving_average(slots[0], ops.square(gradient), self.rho)
        step = ops.scaled_quotient(hyper["step"], gradient, ops.sqrt(nu) + self.eps)
        delta, (velocity,) = momentum_step(step, slots[1], self.momentum)
        return delta, (nu, velocity)


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

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        direction = ops.sign(moving_average(slots[0], gradient, self.beta1))
        return hyper["step"] * direction, (moving_average(slots[0], gradient, self.beta2),)
