"""Adam and its variants."""

import math
from functools import lru_cache
from itertools import accumulate
from numbers import Integral, Real
from operator import mul
from typing import Any

import numpy as np

from sknet import ops
from sknet._params import Interval, described_by
from sknet.core import Tensor
from sknet.optim._base import Hyper, Named, Optimizer, Slots, moving_average
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import DECAY, RATE, Rate, rate_of, scheduled

_CONSTRAINTS = {
    "lr": RATE,
    "beta1": [Interval(Real, 0, 1, closed="left")],
    "beta2": [Interval(Real, 0, 1, closed="left")],
    "eps": [Interval(Real, 0, None, closed="neither")],
}


BLOCK = 64  # steps whose numbers are computed at once, and kept for other epochs and fits


class _Moments(Optimizer):
    """Base of the optimizers with means of the gradient and of its square: Adam's step and update."""

    slots = ("mu", "nu")
    squares = True

    _parameter_constraints = _CONSTRAINTS

    def __init__(self, lr: Rate = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        self.lr = lr
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        # Both bias corrections are in the step: the rule then takes one number for them.
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": _step_size(lr, float(self.beta1), float(self.beta2), count)}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mu, nu = self._means(gradient, slots)
        return ops.scaled_quotient(hyper["step"], mu, ops.sqrt(nu) + self.eps), (mu, nu)

    def _means(self, gradient: Tensor, slots: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        mu = moving_average(slots[0], gradient, self.beta1)
        return mu, moving_average(slots[1], ops.square(gradient), self.beta2)


class Adam(_Moments):
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

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        kept = _kept(self.lr if callable(self.lr) else float(self.lr))
        if kept is None:
            return super().hyper_table(progress, n_steps)
        return _table(self, kept, progress.step, n_steps)


@described_by(Adam)
class AdamW(_Moments):
    r"""Adam with decoupled weight decay: the decay is not part of the gradient.

    Parameters
    ----------
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

    _parameter_constraints = {**_CONSTRAINTS, "weight_decay": DECAY}

    def __init__(
        self,
        lr: Rate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: Rate = 1e-2,
    ) -> None:
        super().__init__(lr, beta1, beta2, eps)
        self.weight_decay = weight_decay

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *scheduled(self.weight_decay))

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        hyper = super().hyper(count, progress)
        return {**hyper, "decay": -hyper["lr"] * rate_of(self.weight_decay, progress)}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        if callable(self.lr) or callable(self.weight_decay):
            return super().hyper_table(progress, n_steps)
        lr = float(self.lr)
        return _table(self, lr, progress.step, n_steps, -lr * float(self.weight_decay))

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        step, slots = super().rule(gradient, param, slots, hyper)
        return step + hyper["decay"] * param, slots


def _step_size(lr: float, beta1: float, beta2: float, count: int) -> float:
    return -lr * math.sqrt(1.0 - beta2**count) / (1.0 - beta1**count)


KeptRate = float | tuple[Any, ...]
"""A number, or the type of a schedule, whose rates depend on the step alone, and its arguments."""


def _kept(rate: Any) -> KeptRate | None:
    """Return what the numbers of a rate are kept by; None if they are not kept."""
    if type(rate) in (int, float):
        return rate
    # A subclass may have rates of its own.
    found = tuple(_kept(getattr(rate, name)) for name in vars(type(rate)).get("_rates_depend_on", ()))
    return (type(rate), *found) if found and None not in found else None


def _rate(kept: Any) -> Any:
    return kept[0](*map(_rate, kept[1:])) if isinstance(kept, tuple) else kept


def _table(optimizer: _Moments, lr: KeptRate, first: int, n_steps: int, *others: float) -> np.ndarray:
    """Return the numbers of the steps after the first ones, as `hyper` gives them for each: to the bit."""
    start, stop = first // BLOCK * BLOCK, first + n_steps
    given = lr, float(optimizer.beta1), float(optimizer.beta2), others
    found = _block(*given, start)
    if stop - start > BLOCK:
        found = np.concatenate([_block(*given, before) for before in range(start, stop, BLOCK)])
    return found[first - start : stop - start]


@lru_cache(256)
def _block(lr: KeptRate, beta1: float, beta2: float, others: tuple[float, ...], before: int) -> np.ndarray:
    """Return the numbers of a block of steps: ndarray of shape (BLOCK, n_numbers)."""
    rate = _rate(lr)
    rates = [(rate_of(rate, Progress(step)), step + 1) for step in range(before, before + BLOCK)]
    found = np.array([(lr, _step_size(lr, beta1, beta2, count), *others) for lr, count in rates])
    found.flags.writeable = False  # it is shared
    return found


class Adamax(_Moments):
    r"""Adam with a decaying maximum of the gradient instead of the root mean square.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2e-3
        Learning rate.
    beta1 : float, default=0.9
        Decay rate of the moving average of the gradient, in [0, 1).
    beta2 : float, default=0.999
        Decay rate of the largest gradient, in [0, 1).
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
    squares = False

    def __init__(self, lr: Rate = 2e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> None:
        super().__init__(lr, beta1, beta2, eps)

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        lr = self.learning_rate(progress)
        return {"lr": lr, "step": -lr / (1.0 - float(self.beta1) ** count)}

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        mu = moving_average(slots[0], gradient, self.beta1)
        largest = ops.maximum(self.beta2 * slots[1], ops.abs(gradient))
        return ops.scaled_quotient(hyper["step"], mu, largest + self.eps), (mu, largest)


@described_by(Adam)
class NAdam(_Moments):
    r"""Adam with Nesterov momentum.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2e-3
        Learning rate.
    momentum_decay : float, default=4e-3
        Rate at which the momentum rises from half of `beta1` to all of it; with 0 it stays at half.

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

    _parameter_constraints = {**_CONSTRAINTS, "momentum_decay": [Interval(Real, 0, None, closed="left")]}

    def __init__(
        self,
        lr: Rate = 2e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        momentum_decay: float = 4e-3,
    ) -> None:
        super().__init__(lr, beta1, beta2, eps)
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
        mu, nu = self._means(gradient, slots)
        step = hyper["step"] * gradient + hyper["ahead"] * mu
        return step / (ops.sqrt(nu) + self.eps), (mu, nu)


def _momentum(beta1: float, decay: float, count: int) -> float:
    return beta1 * (1.0 - 0.5 * math.pow(0.96, count * decay))


def _product(beta1: float, decay: float, count: int) -> float:
    # Every momentum is below beta1, so the product is negligible against 1 here.
    if beta1 == 0.0 or count * math.log(beta1) < -40.0:
        return 0.0
    products: list[float] = _products(beta1, decay, 1 << count.bit_length())
    return products[count - 1]


@lru_cache(maxsize=32)
def _products(beta1: float, decay: float, n: int) -> list[float]:
    momenta = [_momentum(beta1, decay, count) for count in range(1, n + 1)]
    return list(accumulate(momenta, mul))


@described_by(Adam)
class RAdam(_Moments):
    r"""Adam that adapts the step only once the variance of the mean square is small enough.

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
        mu, nu = self._means(gradient, slots)
        return ops.scaled_quotient(hyper["adaptive"], mu, ops.sqrt(nu) + self.eps) + hyper["plain"] * mu, (
            mu,
            nu,
        )


@described_by(Adam)
class ScheduleFreeAdamW(_Moments):
    r"""AdamW with averaging of the parameters instead of a learning-rate schedule.

    Parameters
    ----------
    lr : float, Schedule or callable, default=2.5e-3
        Learning rate, usually several times `AdamW`'s. A schedule works, but is not needed.
    beta1 : float, default=0.9
        Position at which gradients are evaluated, from the fast parameters (0) to their average (1).
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

    _parameter_constraints = {
        **_CONSTRAINTS,
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
        super().__init__(lr, beta1, beta2, eps)
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
