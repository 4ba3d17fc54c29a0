"""Combinators that treat parameters by patterns of their paths."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet._params import Composite
from sknet.core import Tensor
from sknet.exceptions import InvalidParameterError
from sknet.optim._base import Hyper, Hypers, Named, Optimizer, Shapes, Slots, Updated
from sknet.optim._combinators import Combinator, Own, inside
from sknet.optim.schedules import Progress, Schedule
from sknet.optim.schedules._base import DECAY, Rate, rate_of, scheduled


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
    A grid addresses an optimizer by its pattern: ``optimizer__*.bias__lr``. Slots of the same name share one
    array, since every parameter has one optimizer. The reported learning rate is that of the first optimizer.

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
    def averaging(self) -> tuple[str, ...]:  # type: ignore[override]
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


class RateFactors(Combinator):
    r"""Learning rates of chosen parameters, as factors of an optimizer's rate.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer to wrap.
    lr_factors : dict of str to float
        A factor for each pattern of paths, such as ``{"*.bias": 0.1, "0.weight": 6.0}``. The longest
        matching pattern applies, whatever the order; a parameter that matches none has the factor 1.
        A pattern without a matching parameter is an error.

    Notes
    -----
    :math:`\Delta \leftarrow c \Delta`, where c is the factor of the parameter: steps are proportional to
    the learning rate, so this is what a rate of :math:`c \cdot \mathrm{lr}` does. It holds for the weight
    decay of the wrapped optimizer too, as for PyTorch's parameter groups; ``WeightDecay(RateFactors(...))``
    decays at the common rate. The step sizes that `Rprop` keeps have their limits before the factor.

    Unlike `Groups`, which may give every parameter an optimizer of its own, it is elementwise if the
    wrapped optimizer is: one update of one flat array.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, RateFactors
    >>> optimizer = RateFactors(SGD(lr=0.5), {"*.bias": 0.1})
    >>> params = {"0": {"weight": np.zeros(1), "bias": np.zeros(1)}}
    >>> gradients = {"0": {"weight": np.ones(1), "bias": np.ones(1)}}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas
    {'0': {'weight': array([-0.5]), 'bias': array([-0.05])}}
    """

    _parameter_constraints = {"optimizer": [Optimizer], "lr_factors": [dict]}

    def __init__(self, optimizer: Optimizer, lr_factors: Mapping[str, float]) -> None:
        self.optimizer = optimizer
        self.lr_factors = lr_factors

    def validate(self) -> None:
        super().validate()
        check_factors(self.lr_factors, "lr_factors", "RateFactors")

    def check_parameters(self, shapes: Shapes) -> None:
        check_patterns(list(self.lr_factors), shapes, "lr_factors", "RateFactors")
        for path in shapes:
            self._factor(path)
        super().check_parameters(shapes)

    def _factor(self, path: str) -> float:
        return factor_of(path, self.lr_factors, 1.0, "lr_factors", "RateFactors")

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        return {"factor": self._factor(path), **super().marks(path, shape)}

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return delta * hyper["factor"], own

    def averages(self, params: Named, slots: Slots) -> dict[str, Tensor]:
        # How far an average is from its parameter is proportional to the steps, and so to their factor.
        found = self.optimizer.averages(params, inside(slots))
        factors = {path: self._factor(path) for path in found}
        return {
            path: average if factors[path] == 1.0 else params[path] + factors[path] * (average - params[path])
            for path, average in found.items()
        }


class WeightDecay(Combinator):
    r"""Decoupled weight decay in addition to the steps of an optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer to wrap.
    weight_decay : float, Schedule or callable, default=1e-2
        Weight decay coefficient: each update subtracts ``lr * weight_decay`` times the parameter.
    parameters : str, list of str, dict of str to float or None, default=None
        The parameters that decay: patterns of their paths, such as ``"*.weight"``. None selects those
        with two or more axes: neither biases nor the scales of normalizations. A dict has a factor of the
        coefficient for each pattern, ``{"*.weight": 1.0, "0.weight": 4.0}``; the longest matching pattern
        applies, and what matches none does not decay.

    Notes
    -----
    :math:`\Delta \leftarrow \Delta - \mathrm{lr} \cdot \mathrm{weight\_decay} \cdot \theta`: the
    decay is decoupled from the gradient and follows the learning rate [1]_. ``WeightDecay(Adam())``
    is `AdamW` without decay of the biases.

    References
    ----------
    .. [1] I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.optim import SGD, WeightDecay
    >>> optimizer = WeightDecay(SGD(lr=0.5), weight_decay=0.1)
    >>> params = {"weight": np.ones((1, 1)), "bias": np.ones(1)}
    >>> gradients = {"weight": np.zeros((1, 1)), "bias": np.zeros(1)}
    >>> deltas, state = optimizer.update(gradients, optimizer.init(params), params)
    >>> deltas["weight"] + 0.0, deltas["bias"] + 0.0
    (array([[-0.05]]), array([0.]))
    """

    _parameter_constraints = {
        "optimizer": [Optimizer],
        "weight_decay": DECAY,
        "parameters": [str, list, tuple, dict, None],
    }

    def __init__(
        self,
        optimizer: Optimizer,
        weight_decay: Rate = 1e-2,
        parameters: "str | Sequence[str] | Mapping[str, float] | None" = None,
    ) -> None:
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.parameters = parameters

    def validate(self) -> None:
        super().validate()
        if not all(isinstance(pattern, str) for pattern in self._patterns):
            raise InvalidParameterError(
                "The 'parameters' parameter of WeightDecay must be a str, a list of str, a dict of str to "
                f"float or None. Got {shown(self.parameters)} instead."
            )
        if isinstance(self.parameters, dict):
            check_factors(self.parameters, "parameters", "WeightDecay")

    @property
    def _patterns(self) -> tuple[str, ...]:
        given = self.parameters
        return (given,) if isinstance(given, str) else tuple(given or ())

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return (*super().schedules, *scheduled(self.weight_decay))

    def check_parameters(self, shapes: Shapes) -> None:
        check_patterns(self._patterns, shapes, "parameters", "WeightDecay")
        for path, shape in shapes.items():
            self._share(path, shape)
        super().check_parameters(shapes)

    def numbers(self, count: int, progress: Progress) -> dict[str, float]:
        return {"decay": -self.learning_rate(progress) * rate_of(self.weight_decay, progress)}

    def marks(self, path: str, shape: tuple[int, ...]) -> dict[str, float]:
        return {"shrinks": self._share(path, shape), **super().marks(path, shape)}

    def _share(self, path: str, shape: tuple[int, ...]) -> float:
        """Return the factor of the coefficient for a parameter: 0 if it does not decay."""
        if isinstance(self.parameters, dict):
            return factor_of(path, self.parameters, 0.0, "parameters", "WeightDecay")
        return float(len(shape) >= 2 if self.parameters is None else matches(path, self._patterns))

    def after(self, delta: Tensor, param: Tensor, own: Own, hyper: Hyper) -> tuple[Tensor, Own]:
        return delta + hyper["decay"] * (hyper["shrinks"] * param), own


def factor_of(path: str, factors: Mapping[str, float], otherwise: float, parameter: str, owner: str) -> float:
    pattern = longest(path, factors, parameter, owner)
    return otherwise if pattern is None else float(factors[pattern])


def check_factors(factors: Mapping[Any, Any], parameter: str, owner: str) -> None:
    """Raise an InvalidParameterError unless patterns lead to finite numbers that are not negative."""
    for pattern, factor in factors.items():
        is_number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
        if not (isinstance(pattern, str) and is_number and 0 <= factor <= sys.float_info.max):
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {owner} must be a dict of patterns to factors >= 0. "
                f"Got {shown(factor)} for {shown(pattern)} instead."
            )


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path, such as ``"0.weight"``, matches one of some patterns, such as ``"*.weight"``."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def longest(path: str, patterns: Iterable[str], parameter: str, owner: str) -> str | None:
    """Return the longest pattern that a path matches; None if it matches none."""
    found = sorted((pattern for pattern in patterns if fnmatchcase(path, pattern)), key=len)
    if len(found) > 1 and len(found[-1]) == len(found[-2]):
        raise InvalidParameterError(
            f"The {parameter!r} parameter of {owner} must have one longest pattern for every parameter. "
            f"Got {found[-2:]}, of the same length, and {path!r} matches both."
        )
    return found[-1] if found else None


def check_patterns(patterns: Sequence[str], known: Iterable[str], parameter: str, owner: str) -> None:
    """Raise an InvalidParameterError for a pattern that matches none of the known paths."""
    known = list(known)
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in known):
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {owner} must match parameters by their paths. "
                f"Got {shown(pattern)}, which matches none of {known}"
                f"{suggestion(pattern, _patterns_of(known))}"
            )


def _patterns_of(paths: Iterable[str]) -> list[str]:
    """Return the paths, and the patterns for whole modules and for all parameters of one name."""
    found: list[str] = []
    for path in paths:
        first, last = path.split(".", 1)[0], path.rsplit(".", 1)[-1]
        found += [path, f"*.{last}", f"{first}.*"]
    return list(dict.fromkeys(found))
