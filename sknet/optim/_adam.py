"""Adam, and Adam with decoupled weight decay."""

import math
from functools import lru_cache
from numbers import Real

import numpy as np

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer, moving_average
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import DECAY, RATE, Rate, rate_of, scheduled

_CONSTRAINTS = {
    "lr": RATE,
    "beta1": [Interval(Real, 0, 1, closed="left")],
    "beta2": [Interval(Real, 0, 1, closed="left")],
    "eps": [Interval(Real, 0, None, closed="neither")],
}


BLOCK = 64  # steps whose numbers are computed at once, and kept for other epochs and fits


class Adam(Optimizer):
    r"""Adam: steps along the mean gradient, divided by the root mean square.

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
    With gradient g, mean :math:`\mu` and mean square :math:`\nu`, at update t (the first is 1),

    .. math:: \mu \leftarrow \beta_1 \mu + (1 - \beta_1) g, \qquad
              \nu \leftarrow \beta_2 \nu + (1 - \beta_2) g^2, \qquad
              \Delta = -\mathrm{lr} \, \frac{\sqrt{1 - \beta_2^t}}{1 - \beta_1^t} \,
              \frac{\mu}{\sqrt{\nu} + \varepsilon}.

    This is the order of computation at the end of section 2 of [1]_, and scikit-learn's. Algorithm
    1 there, and PyTorch, add the constant after the bias correction of the mean square: the same eps
    counts :math:`\sqrt{1 - \beta_2^t}` times as much there.

    Gradients are squared. In float32 a component beyond 1.8e19 would overflow, and its parameter
    would never move again: a `Model` raises an error instead.

    References
    ----------
    .. [1] D. P. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import Adam
    >>> optimizer, weight = Adam(lr=0.01), np.array([1.0, 1.0])
    >>> delta, state = optimizer.update(np.array([0.1, -1000.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.01,  0.01])
    >>> state.count
    1
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
        return _corrected(self, count, progress)

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        if callable(self.lr):
            return super().hyper_table(progress, n_steps)
        return _table(self, float(self.lr), progress.step, n_steps)

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        return _adam_rule(self, gradient, slots, hyper)


class AdamW(Optimizer):
    r"""Adam with decoupled weight decay: the decay is not part of the gradient.

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
    weight_decay : float, Schedule or callable, default=1e-2
        Weight decay coefficient: each update subtracts ``lr * weight_decay`` times the parameter.

    Notes
    -----
    `Adam`'s step minus :math:`\mathrm{lr} \cdot \mathrm{weight\_decay} \cdot \theta` [1]_. As in
    PyTorch, the decay follows the learning rate, and all parameters decay, biases included.

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import AdamW
    >>> optimizer, weight = AdamW(lr=0.1, weight_decay=0.5), np.array([1.0])
    >>> delta, state = optimizer.update(np.array([0.0]), optimizer.init(weight), weight)
    >>> delta.round(4)
    array([-0.05])
    """

    slots = ("mu", "nu")
    squares = True

    _parameter_constraints = {**_CONSTRAINTS, "weight_decay": DECAY}

    def __init__(
        self,
        lr: Rate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Rate = 1e-2,
    ) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.weight_decay = weight_decay

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *scheduled(self.weight_decay))

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        hyper = _corrected(self, count, progress)
        return {**hyper, "decay": -hyper["lr"] * rate_of(self.weight_decay, progress)}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        if callable(self.lr) or callable(self.weight_decay):
            return super().hyper_table(progress, n_steps)
        lr = float(self.lr)
        return _table(self, lr, progress.step, n_steps, -lr * float(self.weight_decay))

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        step, slots = _adam_rule(self, gradient, slots, hyper)
        return step + hyper["decay"] * param, slots


def _corrected(optimizer: Adam | AdamW, count: int, progress: Progress) -> dict[str, float]:
    # Both bias corrections are in the step: the rule then takes one number for them.
    lr = optimizer.learning_rate(progress)
    return {"lr": lr, "step": _step_size(lr, float(optimizer.beta1), float(optimizer.beta2), count)}


def _step_size(lr: float, beta1: float, beta2: float, count: int) -> float:
    return -lr * math.sqrt(1.0 - beta2**count) / (1.0 - beta1**count)


def _table(optimizer: Adam | AdamW, lr: float, first: int, n_steps: int, *others: float) -> np.ndarray:
    """Return the numbers of the steps after the first ones, as `hyper` gives them for each: to the bit."""
    start, stop = first // BLOCK * BLOCK, first + n_steps
    given = lr, float(optimizer.beta1), float(optimizer.beta2), others
    blocks = [_block(*given, before) for before in range(start, stop, BLOCK)]
    return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks))[first - start : stop - start]


@lru_cache(256)
def _block(lr: float, beta1: float, beta2: float, others: tuple[float, ...], before: int) -> np.ndarray:
    """Return the numbers of a block of steps: ndarray of shape (BLOCK, n_numbers)."""
    counts = range(before + 1, before + BLOCK + 1)
    found = np.array([(lr, _step_size(lr, beta1, beta2, count), *others) for count in counts])
    found.flags.writeable = False  # it is shared
    return found


def _adam_rule(
    optimizer: Adam | AdamW, gradient: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
) -> tuple[Tensor, tuple[Tensor, ...]]:
    mu = moving_average(slots[0], gradient, optimizer.beta1)
    nu = moving_average(slots[1], ops.square(gradient), optimizer.beta2)
    return ops.scaled_quotient(hyper["step"], mu, ops.sqrt(nu) + optimizer.eps), (mu, nu)
