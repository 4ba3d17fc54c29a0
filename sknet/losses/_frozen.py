"""The loss of a frozen predictor whose fit had a loss of the user's own: graphs of its links."""

from collections.abc import Mapping, Sequence
from inspect import getattr_static
from numbers import Integral, Real
from types import FunctionType, MethodType
from typing import Any

from sknet._params import Interval, InvalidParameterError
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, Scaling

__all__ = ["FrozenLoss"]


class FrozenLoss(Loss):
    """Links of a loss, as graphs: what a predictor needs of it where the loss's class does not exist."""

    _parameter_constraints = {
        "name": [str],
        "tasks": [list],
        "heads": [dict],
        "n_outputs": [Interval(Integral, 1, None, closed="left")],
        "middle": [Interval(Real, None, None, closed="neither")],
        "has_probabilities": ["boolean"],
        "of_probabilities": ["boolean"],
        "base": [Loss, None],
        "scales": [list, None],
    }

    def __init__(
        self,
        name: str,
        tasks: Sequence[str],
        heads: Mapping[str, Any],
        n_outputs: int = 1,
        middle: float = 0.0,
        has_probabilities: bool = True,
        of_probabilities: bool = False,
        base: Loss | None = None,
        scales: Sequence[Any] | None = None,
    ) -> None:
        self.name = name
        self.tasks = tasks  # type: ignore[misc, assignment]
        self.heads = heads
        self.n_outputs = n_outputs
        self.middle = middle
        self.has_probabilities = has_probabilities  # type: ignore[misc]
        self.of_probabilities = of_probabilities  # type: ignore[misc]
        self.base = base
        self.scales = scales

    def _check_stored(self) -> None:
        if not all(isinstance(task, str) for task in self.tasks):
            raise ValueError("its tasks must be names")

    def validate(self) -> None:
        super().validate()
        kinds = [bool, float, bool] if self.scales is None else [type(x) for x in self.scales]
        if kinds != [bool, float, bool]:
            raise InvalidParameterError(f"the scales of a FrozenLoss must be {Scaling._fields}, got {kinds}")
        if "predict" not in self.heads or not all(callable(head) for head in self.heads.values()):
            raise InvalidParameterError("the heads of a FrozenLoss must be functions, one called 'predict'")

    @property
    def outputs_per_target(self) -> int:
        """Outputs of the network for each column of the targets."""
        return self.n_outputs

    @property
    def scaling(self) -> Scaling | None:
        """The dependence of the loss on the unit of the targets."""
        return None if self.scales is None else Scaling(*self.scales)

    @property
    def threshold(self) -> float:
        """The output that separates two classes, where a single output stands for both."""
        return self.middle

    def __getattr__(self, name: str) -> Any:
        heads, base = vars(self).get("heads", {}), vars(self).get("base")
        if name in heads:
            return heads[name]
        if base is None or name.startswith("__") or not hasattr(base, name):
            raise AttributeError(f"the loss {vars(self).get('name')!r} has no {name!r}")
        method = getattr_static(type(base), name, None)
        # Its methods ask for what the loss has in place of its own.
        return MethodType(method, self) if isinstance(method, FunctionType) else getattr(base, name)

    def predict(self, output: Tensor) -> Tensor:
        found: Tensor = self.heads["predict"](as_tensor(output))
        return found

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        raise TypeError(f"a frozen predictor only predicts: the values of {self.name} need its class")
