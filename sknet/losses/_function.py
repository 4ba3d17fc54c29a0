"""A loss that a function computes."""

from collections.abc import Callable
from typing import Any

from sknet._constraints import Taking
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.losses._base import Loss, _target_shapes
from sknet.losses._classification import LogLoss


class FunctionLoss(Loss):
    """A function ``function(y_true, output)`` as a loss, with the log loss's link in classifications."""

    tasks = ("binary", "multiclass", "multilabel", "regression")
    _parameter_constraints = {"function": [Taking(2, "y_true and the output")], "task": [str]}

    def __init__(self, function: Callable[[Tensor, Tensor], Any], task: str = "regression") -> None:
        self.function = function
        self.task = task

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if y.shape in _target_shapes(z.shape):
            z, y = self.pair(z, y)
        name = getattr(self.function, "__qualname__", repr(self.function))
        try:
            found = as_tensor(self.function(y, z))
        except Exception as error:
            error.add_note(
                f"in the loss {name}: y_true has shape {y.shape} and the output {z.shape}, and it returns "
                f"one value per row, shape {z.shape[:1]}"
            )
            raise
        if found.shape != z.shape[:1]:
            raise ShapeError(
                f"the loss {name} returned an array of shape {found.shape} for y_true of shape {y.shape} and "
                f"an output of shape {z.shape}: return one value per row, shape {z.shape[:1]}. Sum over the "
                "outputs of a row, axis=1, and not over rows, which are weighted before they are averaged"
            )
        return found

    def predict(self, output: Tensor) -> Tensor:
        return as_tensor(output) if self.task == "regression" else self._log_loss.predict(output)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        if self.task == "regression":
            super().check_target(y, name=name, n_outputs=n_outputs)
        else:
            self._log_loss.check_target(y, name=name, n_outputs=n_outputs)

    def for_task(self, task: str) -> Loss:
        super().for_task(task)
        return FunctionLoss(self.function, task)

    @property
    def _log_loss(self) -> LogLoss:
        return LogLoss(multilabel=self.task == "multilabel")
