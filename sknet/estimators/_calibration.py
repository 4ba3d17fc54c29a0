"""Temperatures: probabilities that are as sure as the held-out rows justify."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._constraints import shown
from sknet._warnings import warn_caller
from sknet.core import Tensor, no_grad
from sknet.device import active, to_host
from sknet.engine.extend import predict_raw
from sknet.losses.extend import Columns

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["best_temperature", "check_calibration", "temperature_of"]

LARGEST = 100.0  # with which nearly nothing is left of the outputs; the smallest is its reciprocal


def check_calibration(fit: "Fit") -> None:
    """Raise a ValueError if a fit cannot be calibrated as its estimator asks for."""
    if fit.recipe.calibrate is None:
        return
    asked, loss = f"calibrate={fit.recipe.calibrate!r}", fit.recipe.loss
    if not (loss.has_probabilities and hasattr(loss, "tempered")):
        raise ValueError(
            f"{asked} needs a loss with probabilities from logits, got {shown(loss)}: use 'log_loss', or set "
            "calibrate=None"
        )
    if fit.validation is None:
        raise ValueError(
            f"{asked} needs rows to validate on, and there are none: give X_val and y_val, set "
            "early_stopping=True or validation_split, with an optimizer that goes step by step; or set "
            "calibrate=None"
        )


def temperature_of(fit: "Fit") -> Any:
    """Return the temperature for which the log loss of the held-out rows is smallest."""
    if fit.recipe.calibrate is None or fit.validation is None:
        return None
    model, batches = fit.model, fit.validation.batches
    with active(model.device, model.precision):
        parts = [batches.take(chosen).X for chosen, _ in batches.parts(None)]
        outputs = np.concatenate([to_host(predict_raw(model, part)) for part in parts]).astype(np.float64)
    y, weight = to_host(batches.y), None if batches.weight is None else to_host(batches.weight)
    loss: Any = fit.loss
    if weight is not None and weight.ndim > 1:  # a weight for each position of a sequence
        outputs = outputs.reshape(-1, outputs.shape[-1])
        y, weight = y.reshape(-1), weight.reshape(-1)
    if not isinstance(loss, Columns):
        return best_temperature(loss, outputs, y, weight)
    each = enumerate(loss.parts(outputs))
    return tuple(best_temperature(loss.loss, part, y[:, k], weight) for k, part in each)


def best_temperature(loss: Any, outputs: Any, y: Any, weight: Any) -> float:
    """Return the temperature for which the weighted log loss is smallest."""
    from scipy.optimize import minimize_scalar  # it takes long to load, and is seldom needed

    likelihood = loss.likelihood

    def log_loss(logarithm: float) -> float:
        with no_grad(), np.errstate(under="ignore"):  # with low temperatures, what is certain has no loss
            values = likelihood.values(loss.tempered(Tensor(outputs), math.exp(logarithm)), Tensor(y))
            return float(np.average(values.data, weights=weight))

    # The loss is convex in the reciprocal of the temperature, so it has no second minimum.
    bound = math.log(LARGEST)
    found = minimize_scalar(log_loss, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-9})
    if found.x < 1e-3 - bound:
        warn_caller(
            f"the temperature is left at 1: the log loss of the {len(y)} held-out rows gets ever smaller "
            "with lower temperatures, since all are predicted right. Hold out more rows.",
            UserWarning,
        )
        return 1.0
    return math.exp(found.x) if found.fun <= log_loss(0.0) else 1.0
