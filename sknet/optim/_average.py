"""Averages of the trained parameters, for prediction."""

import math
from numbers import Integral, Real

import numpy as np

from sknet._params import Interval, RealNotInt
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own
from sknet.optim._root import Named, Slots
from sknet.optim.schedules import Progress


class EMA(Combinator):
    r"""Predicts with an exponential moving average of the parameters trained by another optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        Trains the parameters.
    decay : float, default=0.999
        Decay rate of the average, in [0, 1).

    Notes
    -----
    With parameters :math:`\theta_1, \theta_2, \dots` after each update, the average after update t
    is

    .. math:: \bar\theta_t = \frac{1 - d}{1 - d^t} \sum_{i \le t} d^{t - i} \theta_i ,

    bias-corrected as `Adam`'s averages are: the initial parameters do not contribute. The slot is
    :math:`\bar\theta - \theta`, which starts at zero and stays precise where the two are close.

    The running statistics of normalizations belong to the trained parameters, not to the average.
    In a fit that converges the two agree.

    See Also
    --------
    SWA : The arithmetic mean over the last part of a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import EMA, SGD
    >>> optimizer, weight = EMA(SGD(lr=1.0), decay=0.5), np.zeros(1)
    >>> state = optimizer.init(weight)
    >>> for gradient in (-1.0, -2.0):
    ...     delta, state = optimizer.update(np.array([gradient]), state, weight)
    ...     weight = weight + delta
    >>> weight, optimizer.averaged(weight, state)  # 3, and a third of 1 plus two thirds of 3
    (array([3.]), array([2.33333333]))
    """

    own_slots = ("lag",)
    averaging = ("lag",)

    _parameter_constraints = {"optimizer": [Optimizer], "decay": [Interval(Real, 0, 1, closed="left")]}

    def __init__(self, optimizer: Optimizer, decay: float = 0.999) -> None:
        self.optimizer = optimizer
        self.decay = decay

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        decay = float(self.decay)
        return {"keep": 1.0 - (1.0 - decay) / (1.0 - decay**count)}

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return _follow(delta, own, hyper)

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        return _ahead(params, slots)


class SWA(Combinator):
    r"""Stochastic weight averaging: predicts with the mean of the parameters over the end of a fit.

    Parameters
    ----------
    optimizer : Optimizer
        Trains the parameters, towards the end preferably with a high, constant learning rate.
    start : int or float, default=0.75
        When averaging starts: after a number of updates (int), or after a fraction of the fit (float).
        Until then the trained parameters predict.
    every : int, default=1
        Number of updates between two contributions to the mean.

    Notes
    -----
    The original method averages at the ends of epochs [1]_: set `every` to the number of batches of an
    epoch. A fraction refers to all `max_iter` epochs, even if the fit stops earlier; where training
    continues in several calls, give an int.

    The running statistics of normalizations belong to the trained parameters, not to the mean.

    References
    ----------
    .. [1] P. Izmailov, D. Podoprikhin, T. Garipov, D. Vetrov and A. G. Wilson, "Averaging Weights
       Leads to Wider Optima and Better Generalization", UAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, SWA
    >>> optimizer, weight = SWA(SGD(lr=1.0), start=1), np.zeros(1)
    >>> state = optimizer.init(weight)
    >>> for gradient in (-1.0, -1.0, -1.0):
    ...     delta, state = optimizer.update(np.array([gradient]), state, weight)
    ...     weight = weight + delta
    >>> weight, optimizer.averaged(weight, state)  # 3, and the mean of 2 and 3
    (array([3.]), array([2.5]))
    """

    own_slots = ("lag",)
    averaging = ("lag",)

    _parameter_constraints = {
        "optimizer": [Optimizer],
        "start": [Interval(Integral, 0, None, closed="left"), Interval(RealNotInt, 0, 1, closed="both")],
        "every": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, optimizer: Optimizer, start: int | float = 0.75, every: int = 1) -> None:
        self.optimizer = optimizer
        self.start = start
        self.every = every

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        past = count - self._first(progress)  # 0 for the first update of the mean
        if past < 0:
            return {"keep": 0.0}
        taken, rest = divmod(past, self.every)
        return {"keep": 1.0 if rest else taken / (taken + 1.0)}

    def _first(self, progress: Progress) -> int:
        if isinstance(self.start, (int, np.integer)):
            return int(self.start) + 1
        if progress.total_steps is None:
            raise ValueError(
                f"SWA(start={self.start}) starts after a fraction of the fit, but progress.total_steps is "
                "None: the number of updates of this fit is not known. Give start as an int."
            )
        return math.ceil(self.start * progress.total_steps) + 1

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return _follow(delta, own, hyper)

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        return _ahead(params, slots)


def _follow(delta: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
    # average <- keep * average + (1 - keep) * (param + delta), for lag = average - param
    return delta, (hyper["keep"] * (own[0] - delta),)


def _ahead(params: Named, slots: Slots) -> dict[str, Tensor]:
    return {path: param + slots["lag"][path] for path, param in params.items()}
