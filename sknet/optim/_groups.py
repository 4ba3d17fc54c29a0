"""Different optimizers for different parameters."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._params import Composite, InvalidParameterError
from sknet.core import Tensor
from sknet.optim._base import Hyper, Hypers, Optimizer, Updated
from sknet.optim._combinator import inside
from sknet.optim._paths import check_patterns, longest
from sknet.optim._root import Named, Shapes, Slots
from sknet.optim.schedules import Progress, Schedule


class Groups(Composite, Optimizer):
    """Different optimizers for the parameters whose paths match different patterns.

    Parameters
    ----------
    groups : dict of str to Optimizer
        An optimizer for each pattern. The longest matching pattern applies, whatever the order:
        ``"*.bias"`` matches all biases, ``"*"`` everything else. A parameter without a matching pattern is
        an error, and so is a pattern without a matching parameter.

    Notes
    -----
    A grid addresses an optimizer by its pattern: ``optimizer__*.bias__lr``. Slots of the same name share
    one array, since every parameter has one optimizer. The reported learning rate is that of the first
    optimizer.

    ``Groups({"*": ClipNorm(...)})`` clips by the norm of the group's own parameters,
    ``ClipNorm(Groups(...))`` by that of all parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, Groups
    >>> optimizer = Groups({"head.*": SGD(lr=1.0), "*": SGD(lr=0.5)})
    >>> params = {"body": {"weight": np.zeros(1)}, "head": {"weight": np.zeros(1)}}
    >>> gradients = {"body": {"weight": np.ones(1)}, "head": {"weight": np.ones(1)}}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas
    {'body': {'weight': array([-0.5])}, 'head': {'weight': array([-1.])}}
    >>> optimizer.set_params(**{"head.*__lr": 2.0}).groups["head.*"]
    SGD(lr=2.0)
    """

    elementwise = False
    container = "groups"

    _parameter_constraints = {"groups": [dict]}

    def __init__(self, groups: dict[str, Optimizer]) -> None:
        self.groups = groups

    # -- a parameter object -----------------------------------------------------------------------

    def validate(self) -> None:
        super().validate()
        for pattern, optimizer in self.groups.items():
            if not (isinstance(pattern, str) and isinstance(optimizer, Optimizer)):
                raise InvalidParameterError(
                    "The 'groups' parameter of Groups must be a dict of patterns to optimizers that go step "
                    f"by step. Got {shown(optimizer)} for {pattern!r} instead."
                )
            optimizer.validate()
        if not self.groups:
            raise InvalidParameterError("The 'groups' parameter of Groups must not be empty. Got {} instead.")

    # -- the optimizers inside --------------------------------------------------------------------

    @property
    def slots(self) -> tuple[str, ...]:
        return _joined(optimizer.slots for optimizer in self.groups.values())

    @property
    def averaging(self) -> tuple[str, ...]:
        return _joined(optimizer.averaging for optimizer in self.groups.values())

    @property
    def squares(self) -> bool:  # type: ignore[override]
        return any(optimizer.squares for optimizer in self.groups.values())

    @property
    def kind(self) -> Any:
        return type(self), {pattern: optimizer.kind for pattern, optimizer in self.groups.items()}

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(schedule for optimizer in self.groups.values() for schedule in optimizer.schedules)

    def learning_rate(self, progress: Progress) -> float:
        return next(iter(self.groups.values())).learning_rate(progress)

    def hyper(self, count: int, progress: Progress) -> dict[str, float]:
        return {
            f"{i}.{name}": value
            for i, optimizer in enumerate(self.groups.values())
            for name, value in optimizer.hyper(count, progress).items()
        }

    def hyper_table(self, progress: Progress, n_steps: int) -> np.ndarray:
        return np.column_stack([x.hyper_table(progress, n_steps) for x in self.groups.values()])

    def check_parameters(self, shapes: Shapes) -> None:
        check_patterns(list(self.groups), shapes, "groups", "Groups")
        for optimizer, paths in self._members(shapes):
            optimizer.check_parameters({path: shapes[path] for path in paths})

    def _members(self, paths: Iterable[str]) -> list[tuple[Optimizer, list[str]]]:
        """Return each optimizer with the paths of its parameters."""
        found: dict[str, list[str]] = {pattern: [] for pattern in self.groups}
        for path in paths:
            found[self._pattern_of(path)].append(path)
        return [(self.groups[pattern], members) for pattern, members in found.items()]

    def _pattern_of(self, path: str) -> str:
        found = longest(path, self.groups, "groups", "Groups")
        if found is None:
            raise InvalidParameterError(
                "The 'groups' parameter of Groups must have a pattern for every parameter. "
                f"Got {list(self.groups)}, none of which {path!r} matches: '*' matches the rest."
            )
        return found

    # -- the update -------------------------------------------------------------------------------

    def rule(
        self, gradient: Tensor, param: Tensor, slots: tuple[Tensor, ...], hyper: Hyper
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        raise TypeError("Groups has no single rule: call rules with the parameters' paths")

    def rules(self, gradients: Named, params: Named, slots: Slots, hypers: Hypers) -> Updated:
        deltas: dict[str, Tensor] = {}
        after = {name: dict(values) for name, values in slots.items()}
        for i, (optimizer, paths) in enumerate(self._members(params)):
            if not paths:
                continue
            before = {name: {path: slots[name][path] for path in paths} for name in optimizer.slots}
            given, mine = ({path: values[path] for path in paths} for values in (gradients, params))
            found, new = optimizer.updated(given, mine, before, inside(hypers[paths[0]], f"{i}."))
            deltas.update(found)
            for name, values in new.items():
                after[name].update(values)
        return {path: deltas[path] for path in params}, after

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        found = dict(params)
        for optimizer, paths in self._members(params):
            mine = {name: {path: slots[name][path] for path in paths} for name in optimizer.averaging}
            found.update(optimizer.averages({path: params[path] for path in paths}, mine))
        return found


def _joined(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in names for name in part))
