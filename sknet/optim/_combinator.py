"""The base of the combinators, which wrap another optimizer."""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sknet.core import Tensor
from sknet.optim._base import Hyper, Hypers, Optimizer, Updated
from sknet.optim._root import Named, Shapes, Slots
from sknet.optim.schedules import Progress, Schedule

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

        Parameters
        ----------
        gradient : Tensor of shape (...)
            Of one parameter, or of many in one flat array.
        own : tuple of Tensor of shape (...)
            One for each name in `own_slots`.
        hyper : dict of str to float or Tensor
            All numbers.

        Returns
        -------
        gradient : Tensor of shape (...)
            What the wrapped optimizer receives.
        own : tuple of Tensor of shape (...)
            New slots.
        """
        return gradient, own

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        """Return the wrapped optimizer's step as it is to be applied, and the combinator's own new slots.

        Parameters
        ----------
        delta : Tensor of shape (...)
            The step.
        param : Tensor of shape (...)
            The parameter before it.
        own : tuple of Tensor of shape (...)
            From `before`.
        hyper : dict of str to float or Tensor
            All numbers.

        Returns
        -------
        delta : Tensor of shape (...)
            The new parameter is ``param + delta``.
        own : tuple of Tensor of shape (...)
            New slots.
        """
        return delta, own

    def kept(self, old: Tensor, new: Tensor, hyper: Hyper) -> Tensor:
        """Return a slot of the wrapped optimizer after an update: the `old` or the `new`, as `hyper` says."""
        return new

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        """Return the combinator's own numbers that change from update to update; `hyper` returns all.

        Parameters
        ----------
        count : int
            Number of the update, counted from 1.
        progress : Progress
            The progress of the fit.

        Returns
        -------
        dict of str to float
            Always the same names, in the same order.
        """
        return {}

    # -- the wrapped optimizer --------------------------------------------------------------------

    @property
    def slots(self) -> tuple[str, ...]:
        return (*self.own_slots, *(PREFIX + name for name in self.optimizer.slots))

    @property
    def averaging(self) -> tuple[str, ...]:
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


def inside(named: Mapping[str, T], prefix: str = PREFIX) -> dict[str, T]:
    """Return what is `named` for the wrapped optimizer, without the `prefix`."""
    return {name.removeprefix(prefix): x for name, x in named.items() if name.startswith(prefix)}
