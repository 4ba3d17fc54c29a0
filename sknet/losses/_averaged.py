"""The loss of an ensemble: what its members predict is averaged."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from sknet import ops
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss
from sknet.losses._wrapped import Wrapping

__all__ = ["Averaged"]

Link = Callable[[Tensor], Tensor]


class Averaged(Wrapping):
    r"""The losses of several networks whose outputs are side by side, and whose predictions are averaged."""

    _parameter_constraints = {"losses": ["array-like"]}

    def _check_stored(self) -> None:
        kinds = {type(each) for each in self.losses}
        if len(kinds) != 1 or not all(isinstance(each, Loss) for each in self.losses):
            raise ValueError("it must have at least one loss, all of one class")

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = losses

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        """The loss of the first member."""
        return self.losses[0]

    @property
    def reporting(self) -> Loss:
        """The losses that are reported."""
        return Averaged([loss.reporting for loss in self.losses])

    def parts(self, output: Any) -> list[Any]:
        """Return the outputs of each member."""
        z = as_tensor(output)
        width = z.shape[-1] // len(self.losses)
        return [z[..., m * width : (m + 1) * width] for m in range(len(self.losses))]

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return _mean(self._each(lambda loss, z: loss.values(z, target), output))

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return self.loss.counts(self.parts(output)[0], target)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        self.loss.check_target(y, name=name, n_outputs=n_outputs)

    # -- predictions ------------------------------------------------------------------------------

    def predict(self, output: Tensor) -> Tensor:
        return self._average("predict", output)

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of what `predict` returns, accurate also where that is nearly 0."""
        logs = ops.stack(self._each(_calling("log_predict"), output), axis=0)
        return ops.logsumexp(logs, axis=0) - math.log(len(self.losses))

    def tempered(self, output: Tensor, temperature: Sequence[Any]) -> Tensor:
        """Return outputs divided by the temperature of their member."""
        parts = zip(self.losses, self.parts(output), temperature, strict=True)
        return ops.concat([_any(loss).tempered(z, each) for loss, z, each in parts], axis=-1)

    def predict_std(self, output: Tensor) -> Tensor:
        """Return the standard deviation of the mixture of what members predict."""
        means = self._each(_calling("predict"), output)
        mean = _mean(means)
        variance = _mean([ops.square(each - mean) for each in means])
        if hasattr(self.loss, "predict_std"):
            own = self._each(_calling("predict_std"), output)
            variance = variance + _mean([ops.square(each) for each in own])
        return ops.sqrt(variance)

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict_quantiles", "predict_interval") or not hasattr(self.losses[0], name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._average_quantiles if name == "predict_quantiles" else self._average_interval

    def _average_quantiles(self, output: Tensor) -> Tensor:
        return self._average("predict_quantiles", output)

    def _average_interval(self, output: Tensor, coverage: float) -> Tensor:
        return self._average("predict_interval", output, coverage)

    # -- decisions --------------------------------------------------------------------------------

    def deciding(self, task: str) -> Link:
        """Return what decides between classes, from outputs: as certain as the mean probability is."""
        if not self.loss.has_probabilities or self.loss.of_probabilities:
            return self._mean_output
        return self.log_predict if task == "multiclass" else self._log_odds

    def _log_odds(self, output: Tensor) -> Tensor:
        return self.log_predict(output) - self.log_predict(-as_tensor(output))

    def _mean_output(self, output: Tensor) -> Tensor:
        return _mean(self.parts(output))

    def _average(self, name: str, output: Tensor, *args: Any) -> Tensor:
        return _mean(self._each(_calling(name, *args), output))

    def _each(self, function: Callable[[Any, Tensor], Tensor], output: Tensor) -> list[Tensor]:
        return [function(loss, z) for loss, z in zip(self.losses, self.parts(output), strict=True)]


def _any(loss: Any) -> Any:
    return loss


def _calling(name: str, *args: Any) -> Callable[[Any, Tensor], Tensor]:
    def call(loss: Any, z: Tensor) -> Tensor:
        found: Tensor = getattr(loss, name)(z, *args)
        return found

    return call


def _mean(each: Sequence[Tensor]) -> Tensor:
    """Return a mean as NumPy's over the first axis: one after the other is added."""
    total = each[0]
    for x in each[1:]:
        total = total + x
    return total / float(len(each))
