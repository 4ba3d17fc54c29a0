"""Lookahead."""

from numbers import Integral, Real

from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own
from sknet.optim.schedules import Progress


class Lookahead(Combinator):
    r"""Slow weights that every few updates move towards the fast weights of another optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        Updates the fast weights.
    every : int, default=5
        Number of updates between two moves of the slow weights.
    part : float, default=0.5
        The fraction of the distance that they move, in (0, 1].

    Notes
    -----
    Slow weights :math:`\phi` follow the fast weights :math:`\theta`, which then continue from there
    [1]_: every k updates :math:`\phi \leftarrow \phi + \alpha (\theta - \phi)` and
    :math:`\theta \leftarrow \phi`. The slot is :math:`\theta - \phi`. The optimizer's own slots stay
    as they are.

    References
    ----------
    .. [1] M. Zhang, J. Lucas, G. Hinton and J. Ba, "Lookahead Optimizer: k steps forward, 1 step
       back", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, Lookahead
    >>> optimizer, weight = Lookahead(SGD(lr=1.0), every=2), np.zeros(1)
    >>> state = optimizer.init(weight)
    >>> for _ in range(2):
    ...     delta, state = optimizer.update(np.array([-1.0]), state, weight)
    ...     weight = weight + delta
    ...     print(weight)
    [1.]
    [1.]
    """

    own_slots = ("ahead",)

    _parameter_constraints = {
        "optimizer": [Optimizer],
        "every": [Interval(Integral, 1, None, closed="left")],
        "part": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(self, optimizer: Optimizer, every: int = 5, part: float = 0.5) -> None:
        self.optimizer = optimizer
        self.every = every
        self.part = part

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        returns = count % self.every == 0
        return {"back": 1.0 - float(self.part) if returns else 0.0, "keep": 0.0 if returns else 1.0}

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        ahead = own[0] + delta
        return delta - hyper["back"] * ahead, (hyper["keep"] * ahead,)
