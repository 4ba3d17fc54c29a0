"""Combinators: optimizers that wrap another and change its gradients or its steps."""

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from sknet import ops
from sknet._constraints import is_integer
from sknet._params import Interval, RealNotInt
from sknet.core import Tensor
from sknet.optim._base import Hyper, Hypers, Named, Optimizer, Shapes, Slots, Updated
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import POSITIVE

T = TypeVar("T")
PREFIX = "optimizer."
Own = tuple[Tensor, ...]


class Combinator(Optimizer, ABC):
    """Abstract base of the optimizers that wrap another one and change what it does.

    The wrapped optimizer is the parameter `optimizer`. Its slots and numbers have the prefix
    ``optimizer.``, as its parameters have ``optimizer__``.

    A combinator defines `before`, which is called before the wrapped optimizer, `after`, which is called
    after it, or both; `numbers` if numbers of its own change from update to update; and `own_slots`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, Combinator
    >>> class Ascent(Combinator):
    ...     def __init__(self, optimizer):
    ...         self.optimizer = optimizer
    ...
    ...     def before(self, gradient, own, hyper):
    ...         return -gradient, own
    >>> optimizer, weight = Ascent(SGD(lr=0.5)), np.zeros(1)
    >>> optimizer.update(np.ones(1), optimizer.init(weight), weight)[0]
    array([0.5])
    """

    own_slots: tuple[str, ...] = ()
    _parameter_constraints: dict[str, list[Any]] = {"optimizer": [Optimizer]}

    optimizer: Optimizer

    # -- what a combinator defines ----------------------------------------------------------------

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        """Return the gradient for the wrapped optimizer, and the combinator's own new slots.

        The `gradient` is that of one parameter, or of many in one flat array; `own` has a slot for each name
        in `own_slots`, and `hyper` all numbers.
        """
        return gradient, own

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        """Return the wrapped optimizer's step as it is to be applied, and the combinator's own new slots.

        The new parameter is `param` plus the `delta` that is returned; `own` are the slots of `before`, and
        `hyper` has all numbers.
        """
        return delta, own

    def kept(self, old: Tensor, new: Tensor, hyper: Hyper) -> Tensor:
        """Return a slot of the wrapped optimizer after an update: the `old` or the `new`, as `hyper` says."""
        return new

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        """Return the combinator's own numbers that change from update to update; `hyper` returns all.

        `count` is the number of the update, from 1, and `progress` that of the fit. There are always the same
        names, in the same order.
        """
        return {}

    # -- the wrapped optimizer --------------------------------------------------------------------

    @property
    def slots(self) -> tuple[str, ...]:
        return (*self.own_slots, *(PREFIX + name for name in self.optimizer.slots))

    @property
    def averaging(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(PREFIX + name for name in self.optimizer.averaging)

    @property
    def elementwise(self) -> bool:
        return self.optimizer.elementwise

    @property
    def measures(self) -> bool:
        return self.optimizer.measures

    @property
    def squares(self) -> bool:  # type: ignore[override]
        return self.optimizer.squares

    @property
    def kind(self) -> Any:
        return type(self), self.optimizer.kind

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return self.optimizer.schedules

    def learning_rate(self, progress: Progress) -> float:
        return self.optimizer.learning_rate(progress)

    def check_parameters(self, shapes: Shapes) -> None:
        self.optimizer.check_parameters(shapes)

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        inner = self.optimizer.hyper(count, progress)
        return {**self.numbers(count, progress), **{PREFIX + name: x for name, x in inner.items()}}

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        inner = self.optimizer.hyper_table(progress, n_steps)
        if type(self).numbers is Combinator.numbers:
            return inner
        first = progress.step
        own = [
            tuple(self.numbers(step + 1, Progress(step, *progress[1:])).values())
            for step in range(first, first + n_steps)
        ]
        return np.column_stack([np.array(own, np.float64), inner])

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        return {PREFIX + name: x for name, x in self.optimizer.marks(path, shape).items()}

    def measure(
        self, gradients: Sequence[Tensor], slots: Sequence[tuple[Tensor, ...]], hyper: Hyper
    ) -> dict[str, Tensor]:
        if not self.optimizer.measures:
            return {}
        n = len(self.own_slots)
        given = [self.before(g, s[:n], hyper)[0] for g, s in zip(gradients, slots, strict=True)]
        found = self.optimizer.measure(given, [s[n:] for s in slots], inside(hyper))
        return {PREFIX + name: x for name, x in found.items()}

    # -- the update -------------------------------------------------------------------------------

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        named = {name: {"": slot} for name, slot in zip(self.slots, slots, strict=True)}
        deltas, after = self.rules({"": gradient}, {"": param}, named, {"": hyper})
        return deltas[""], tuple([after[name][""] for name in self.slots])

    def rules(self, gradients: Named, params: Named, slots: Slots, hypers: Hypers) -> Updated:
        own = {path: tuple([slots[name][path] for name in self.own_slots]) for path in params}
        given: dict[str, Tensor] = {}
        for path, gradient in gradients.items():
            given[path], own[path] = self.before(gradient, own[path], hypers[path])
        numbers = {path: inside(hyper) for path, hyper in hypers.items()}
        deltas, new = self.optimizer.rules(given, params, inside(slots), numbers)
        for path, param in params.items():
            deltas[path], own[path] = self.after(deltas[path], param, own[path], hypers[path])
        after = {name: {path: own[path][i] for path in params} for i, name in enumerate(self.own_slots)}
        for name, values in new.items():
            old = slots[PREFIX + name]
            after[PREFIX + name] = {path: self.kept(old[path], x, hypers[path]) for path, x in values.items()}
        return deltas, after

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        return self.optimizer.averages(params, inside(slots))


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
    Slow weights :math:`\phi` follow the fast weights :math:`\theta`, which then continue from there [1]_:
    every k updates :math:`\phi \leftarrow \phi + \alpha (\theta - \phi)` and :math:`\theta \leftarrow \phi`.
    The slot is :math:`\theta - \phi`. The optimizer's own slots stay as they are.

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


class _Averaging(Combinator):
    own_slots = ("lag",)
    averaging = ("lag",)

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        # average <- keep * average + (1 - keep) * (param + delta), for lag = average - param
        return delta, (hyper["keep"] * (own[0] - delta),)

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        return {path: param + slots["lag"][path] for path, param in params.items()}


class EMA(_Averaging):
    r"""Predicts with an exponential moving average of the parameters trained by another optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        Trains the parameters.
    decay : float, default=0.999
        Decay rate of the average, in [0, 1).

    Notes
    -----
    With parameters :math:`\theta_1, \theta_2, \dots` after each update, the average after update t is

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

    _parameter_constraints = {"optimizer": [Optimizer], "decay": [Interval(Real, 0, 1, closed="left")]}

    def __init__(self, optimizer: Optimizer, decay: float = 0.999) -> None:
        self.optimizer = optimizer
        self.decay = decay

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        decay = float(self.decay)
        return {"keep": 1.0 - (1.0 - decay) / (1.0 - decay**count)}


class SWA(_Averaging):
    r"""Stochastic weight averaging: predicts with the mean of the parameters over the end of a fit.

    Parameters
    ----------
    optimizer : Optimizer
        Trains the parameters, towards the end preferably with a high, constant learning rate.
    start : int or float, default=0.75
        Start of averaging: after a number of updates (int), or after a fraction of the fit (float). Until
        then the trained parameters predict.
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
        if is_integer(self.start):
            return int(self.start) + 1
        if progress.total_steps is None:
            raise ValueError(
                f"SWA(start={self.start}) starts after a fraction of the fit, but progress.total_steps is "
                "None: the number of updates of this fit is not known. Give start as an int."
            )
        return math.ceil(self.start * progress.total_steps) + 1


class ClipNorm(Combinator):
    r"""Clips the gradient by its norm over all parameters before an optimizer sees it.

    Parameters
    ----------
    optimizer : Optimizer
        Receives the clipped gradient.
    max_norm : float, default=1.0
        The maximum norm.

    Notes
    -----
    With gradients g of all parameters together [1]_,

    .. math:: g \leftarrow g \cdot \frac{c}{\max(c, \lVert g \rVert_2)}.

    A gradient within the limit is not changed at all. PyTorch adds 1e-6 to the norm.

    References
    ----------
    .. [1] R. Pascanu, T. Mikolov and Y. Bengio, "On the difficulty of training recurrent neural
       networks", ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, ClipNorm
    >>> optimizer, params = ClipNorm(SGD(lr=1.0), max_norm=1.0), {"a": np.zeros(1), "b": np.zeros(1)}
    >>> gradients = {"a": np.array([30.0]), "b": np.array([40.0])}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas
    {'a': array([-0.6]), 'b': array([-0.8])}
    """

    measures = True
    squares = True

    _parameter_constraints = {"optimizer": [Optimizer], "max_norm": [POSITIVE]}

    def __init__(self, optimizer: Optimizer, max_norm: float = 1.0) -> None:
        self.optimizer = optimizer
        self.max_norm = max_norm

    def measure(
        self, gradients: Sequence[Tensor], slots: Sequence[tuple[Tensor, ...]], hyper: Hyper
    ) -> dict[str, Tensor]:
        max_norm = float(self.max_norm)
        norm = ops.sqrt(ops.sum_squares(*gradients))
        own = {"scale": max_norm / ops.maximum(norm, max_norm)}
        return {**own, **super().measure(gradients, slots, {**hyper, **own})}

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return gradient * hyper["scale"], own


class ClipValue(Combinator):
    """Clips every component of the gradient before an optimizer sees it.

    Parameters
    ----------
    optimizer : Optimizer
        Receives the clipped gradient.
    max_value : float, default=1.0
        The maximum absolute value of a component.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, ClipValue
    >>> optimizer, weight = ClipValue(SGD(lr=1.0), max_value=0.5), np.zeros(3)
    >>> delta, state = optimizer.update(np.array([0.1, 2.0, -9.0]), optimizer.init(weight), weight)
    >>> delta
    array([-0.1, -0.5,  0.5])
    """

    _parameter_constraints = {"optimizer": [Optimizer], "max_value": [POSITIVE]}

    def __init__(self, optimizer: Optimizer, max_value: float = 1.0) -> None:
        self.optimizer = optimizer
        self.max_value = max_value

    def before(self, gradient: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return ops.clip(gradient, -float(self.max_value), float(self.max_value)), own


def inside(named: Mapping[str, T], prefix: str = PREFIX) -> dict[str, T]:
    """Return what is `named` for the wrapped optimizer, without the `prefix`."""
    return {name.removeprefix(prefix): x for name, x in named.items() if name.startswith(prefix)}


def _chosen(hyper: Hyper, if_due: Tensor, otherwise: Tensor) -> Tensor:
    due = hyper["due"]
    if not isinstance(due, Tensor):
        return if_due if due > 0 else otherwise
    return ops.where(ops.greater(due, 0.0), if_due, otherwise)
