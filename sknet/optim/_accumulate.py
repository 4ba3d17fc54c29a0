"""Gradient accumulation: one update from several batches."""

from numbers import Integral

import numpy as np

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import PREFIX, Combinator, Own
from sknet.optim.schedules import Progress


class Accumulate(Combinator):
    r"""Gradient accumulation: one update from the mean gradient of several batches.

    Parameters
    ----------
    optimizer : Optimizer
        Receives the mean gradient.
    every : int, default=2
        The number of batches per update.

    Notes
    -----
    For batches of equal size and without sample weights, ``every`` updates are one update with the
    joined batch, unless a layer (such as `BatchNorm`) computes over the batch. The L2 penalty is
    divided by the rows of a batch, not of the joined one. Fewer batches left at the end of an epoch
    count towards the first update of the next.

    Schedules of the wrapped optimizer, and their total number of steps, count its updates.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, Accumulate
    >>> optimizer, weight = Accumulate(SGD(lr=1.0), every=2), np.zeros(1)
    >>> state = optimizer.init(weight)
    >>> for gradient in (-1.0, -3.0):
    ...     delta, state = optimizer.update(np.array([gradient]), state, weight)
    ...     print(delta)
    [0.]
    [2.]
    """

    own_slots = ("total",)

    _parameter_constraints = {
        "optimizer": [Optimizer],
        "every": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, optimizer: Optimizer, every: int = 2) -> None:
        self.optimizer = optimizer
        self.every = every

    def learning_rate(self, progress: Progress) -> float:
        return self.optimizer.learning_rate(self._inner(progress))

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        inner = self.optimizer.hyper((count - 1) // self.every + 1, self._inner(progress))
        due = float(count % self.every == 0)
        return {"due": due, **{PREFIX + name: value for name, value in inner.items()}}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        counts = np.arange(progress.step + 1, progress.step + n_steps + 1)
        updates = (counts - 1) // self.every
        rows = self.optimizer.hyper_table(self._inner(progress), int(updates[-1] - updates[0]) + 1)
        return np.column_stack([counts % self.every == 0, rows[updates - updates[0]]])

    def _inner(self, progress: Progress) -> Progress:
        total = progress.total_steps
        total = None if total is None else total // self.every
        return progress._replace(step=progress.step // self.every, total_steps=total)

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        total = own[0] + gradient
        return total / self.every, (total,)

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        [total] = own
        zero = ops.zeros_like(delta)
        return _chosen(hyper, delta, zero), (_chosen(hyper, zero, total),)

    def kept(self, old: Tensor, new: Tensor, hyper: Hyper) -> Tensor:
        return _chosen(hyper, new, old)


def _chosen(hyper: Hyper, if_due: Tensor, otherwise: Tensor) -> Tensor:
    due = hyper["due"]
    if not isinstance(due, Tensor):
        return if_due if due > 0 else otherwise
    return ops.where(ops.greater(due, 0.0), if_due, otherwise)
