"""Numbers: the targets of a regression."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from sknet._constraints import StrOptions
from sknet._fields import ABSENT, FINITE, POSITIVE, Arrays
from sknet.engine import Batches, RSquared, Score
from sknet.losses import Loss
from sknet.losses.extend import Standardized

__all__ = ["RealTargets"]

NARROW = ("float16", "float32")
# Of an exponent, with some that are left for losses of more than a squared deviation, or of less.
MOST_DIGITS = 960


class RealTargets:
    """Targets of a regression, in their own units or standardized."""

    task = "regression"
    mean: Any = None
    scale: Any = None
    dtype = "float64"
    _stored_fields = {
        "n_outputs": POSITIVE,
        "dtype": [StrOptions({"float16", "float32", "float64"}), ABSENT],
        "mean": [Arrays("f", "n_outputs"), Arrays("f"), FINITE, ABSENT],
        "scale": [Arrays("f", "n_outputs"), Arrays("f"), FINITE, ABSENT],
    }

    def __init__(self, y: Any) -> None:
        self.n_outputs = 1 if y.ndim == 1 else y.shape[1]
        if y.dtype in NARROW:
            self.dtype = str(y.dtype)

    def standardize(self, y: Any, weight: Any, *, shifts: bool) -> Self:
        """Learn mean and scale from the rows of a training."""
        y = np.asarray(y, np.float64)
        _, digits = np.frexp(np.abs(y).max(axis=0))
        with np.errstate(under="ignore"):  # what is too small to count, or in its own units denormal
            y = np.ldexp(y, -digits)  # no square overflows or vanishes, and no bit of others changes
            mean = np.average(y, axis=0, weights=weight)
            scale = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight)) if shifts else mean
            # A deviation that rounding alone can have made is none.
            tiny = len(y) * np.finfo(np.float64).eps * np.abs(mean) if shifts else 0.0
            mean, scale = np.ldexp(mean, digits), np.where(scale > tiny, np.ldexp(scale, digits), 1.0)
        self.mean, self.scale = mean if shifts else np.zeros_like(mean), scale
        return self

    def check_reported(self, loss: Loss) -> None:
        """Raise a ValueError if a `loss` in the units of the targets is infinite, or 0."""
        scaling = loss.scaling
        if self.scale is None or scaling is None:
            return
        for scale in self.scale.tolist():
            digits = scaling.power * np.log2(scale)
            if abs(digits) > MOST_DIGITS:
                wrong, found = ("smaller", "infinite") if digits > 0 else ("larger", "0")
                raise ValueError(
                    f"y must be {wrong}: its deviation is {scale:.3g}, and {loss!r} in these units, its "
                    f"power of {scaling.power:g}, is {found} in float64. Multiply y by a constant"
                )

    def encode(self, y: Any) -> Any:
        """Return targets of shape (n_samples, n_outputs)."""
        y = y.reshape(-1, 1) if y.ndim == 1 else y
        if y.shape[1] != self.n_outputs:
            raise ValueError(f"y must have {self.n_outputs} column(s) as in the fit before, got {y.shape[1]}")
        return y if self.scale is None else (y - self.mean) / self.scale

    def trained(self, loss: Loss) -> Loss:
        """Return the loss to train with, for these targets."""
        loss = loss.for_task(self.task)
        if self.scale is None:
            return loss
        return Standardized(loss, tuple(self.mean.tolist()), tuple(self.scale.tolist()), self.dtype)

    def new_score(self, batches: Batches, loss: Any) -> Callable[[], Score]:
        """Return a function that creates an empty score of the rows of `batches`, by the `loss` of a fit."""
        loss = loss if self.scale is None else loss.loss  # of standardized predictions, as the targets are
        return lambda: RSquared(batches.y, batches.weight, loss)

    def head(self, loss: Any) -> Any:
        """Return what makes predictions of raw outputs: a link of the `loss`."""
        return loss.predict

    def restore(self, prediction: Any) -> Any:
        """Return a `prediction` as a reconstruction, which has all columns."""
        return prediction

    def decode(self, prediction: Any) -> Any:
        """Return a `prediction` without the axis of a single target, which is the last."""
        return prediction.reshape(prediction.shape[:-1]) if self.n_outputs == 1 else prediction
