"""Learning rates of chosen parameters, as factors of the optimizer's."""

import sys
from collections.abc import Mapping
from typing import Any

from sknet._constraints import shown
from sknet._params import InvalidParameterError
from sknet.core import Tensor
from sknet.optim._base import Hyper, Optimizer
from sknet.optim._combinator import Combinator, Own, inside
from sknet.optim._paths import check_patterns, longest
from sknet.optim._root import Named, Shapes, Slots


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


def factor_of(path: str, factors: Mapping[str, float], otherwise: float, parameter: str, owner: str) -> float:
    """Return the factor of the longest pattern that a path matches."""
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
