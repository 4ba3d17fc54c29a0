"""Optional predictions: probabilities, deviations, quantiles and intervals, and codes that are decoded."""

import math
from typing import Any

import numpy as np

from sknet import nn
from sknet._constraints import shown
from sknet._frames import all_finite
from sknet._warnings import warn_caller
from sknet.core import Tensor, no_grad
from sknet.estimators._inputs import Sequences, forward_of, is_on_device, with_checked_lengths
from sknet.estimators._targets import DECODER
from sknet.losses._base import mean_loss_of

LARGEST = 100.0  # with which nearly nothing is left of the outputs; the smallest is its reciprocal
FLAT = 1e-9  # differences of log losses below which they are equal


def gives_probabilities(classifier: Any) -> bool:
    loss = classifier._loss
    if loss is not None and not loss.has_probabilities:
        raise AttributeError(
            f"{type(classifier).__name__} has no probabilities with {loss!r}, which trains distances to a "
            "boundary: use decision_function, or train with 'log_loss'"
        )
    return True


def gives_deviations(regressor: Any) -> bool:
    return _learns(regressor, "predict_std", "standard deviations", "loss='gaussian_nll'")


def gives_quantiles(regressor: Any) -> bool:
    return _learns(regressor, "predict_quantiles", "quantiles", "loss=Quantile([0.1, 0.5, 0.9])")


def gives_intervals(regressor: Any) -> bool:
    if _is_conformal(regressor):
        return True
    advice = "loss=Quantile([0.1, 0.5, 0.9]), loss='gaussian_nll' or calibrate='conformal', and fit"
    # Bounds are two numbers: a loss with one output for a target has no interval.
    several = regressor._loss.outputs_per_target > 1
    return _learns(regressor, "predict_interval", "intervals", advice, where=several)


def gives_sets(classifier: Any) -> bool:
    if not _is_conformal(classifier):
        raise AttributeError(
            f"{type(classifier).__name__} predicts sets only if it was fitted with calibrate='conformal'"
        )
    return True


def _is_conformal(predictor: Any) -> bool:
    """Tell whether held-out rows have decided the size of intervals or sets, or shall do so in a fit."""
    targets = getattr(predictor, "_targets", None)
    if targets is not None:
        return getattr(targets, "conformity", None) is not None
    asked = getattr(predictor, "calibrate", None)
    return isinstance(asked, str) and asked == "conformal"


def _learns(regressor: Any, method: str, what: str, advice: str, *, where: bool = True) -> bool:
    if not (where and hasattr(regressor._loss, method)):
        raise AttributeError(
            f"{type(regressor).__name__} has {what} with a loss that learns them alone: use {advice}"
        )
    return True


def check_deviations(loss: Any) -> None:
    if not hasattr(loss, "predict_std"):
        while hasattr(loss, "loss"):  # of standardized targets, or with an offset
            loss = loss.loss
        raise ValueError(
            f"return_std=True needs a loss that learns standard deviations, got {shown(loss)}: use "
            "loss='gaussian_nll', or an ensemble, n_members=5"
        )


def has_decoder(transformer: Any) -> bool:
    """Tell whether there is a way back; raise an AttributeError that says why not."""
    module = transformer._coder()
    # What a factory builds is known after a fit.
    if isinstance(module, nn.Module) and DECODER not in dict(module.named_children()):
        raise AttributeError(
            f"{type(transformer).__name__} has no inverse_transform: {type(module).__name__} has no module "
            f"called {DECODER!r}, which would take what transform returns"
        )
    return True


def _are_plain(codes: Any, dtypes: list[Any]) -> bool:
    """Tell whether codes are valid as they are."""
    is_array = type(codes) is np.ndarray and codes.ndim > 1 and codes.dtype in dtypes
    return is_array and codes.size > 0 and all_finite(codes)


def checked_codes(transformer: Any, X: Any, shape: tuple[int, ...], *, has_steps: bool) -> Any:
    """Return codes as a decoder takes them."""
    codes = X.X if isinstance(X, Sequences) else X
    if not is_on_device(codes):
        dtypes = [np.float32, np.float64]
        if not _are_plain(codes, dtypes):
            from sklearn.utils.validation import check_array  # it takes long to load

            codes = check_array(codes, dtype=dtypes, allow_nd=True, input_name="X", estimator=transformer)
    given = tuple(codes.shape[1:])
    if len(given) != len(shape) if has_steps and len(shape) > 1 else given != shape:
        raise ValueError(
            f"inverse_transform of {type(transformer).__name__} needs codes as transform returns them, of "
            f"shape (n_samples, {', '.join(map(str, shape))}), got {tuple(codes.shape)}"
        )
    forward = forward_of(transformer._coder().get_submodule(DECODER))
    if not isinstance(X, Sequences):
        shapes = getattr(transformer._inputs, "shapes", None)
        if isinstance(shapes, dict) and "lengths" in shapes and "lengths" in (forward or {}):
            raise ValueError(
                f"inverse_transform of {type(transformer).__name__} needs lengths=, which the network was "
                "fitted with and its decoder takes: without them it would return steps of padding"
            )
        return codes
    return with_checked_lengths(codes, X.lengths, forward, has_steps=len(shape) > 1)


def best_temperature(loss: Any, outputs: Any, y: Any, weight: Any, offset: Any = 0.0) -> float:
    """Return the temperature of outputs, without their offset, for which the log loss is smallest."""
    from scipy.optimize import minimize_scalar  # it takes long to load, and is seldom needed

    likelihood = loss.likelihood

    def log_loss(logarithm: float) -> float:
        with no_grad(), np.errstate(under="ignore"):  # with low temperatures, what is certain has no loss
            tempered = loss.tempered(Tensor(outputs), math.exp(logarithm)) + offset
            return mean_loss_of(likelihood, tempered, Tensor(y), weight)

    # The loss is convex in the reciprocal of the temperature, so it has no second minimum.
    bound = math.log(LARGEST)
    found = minimize_scalar(log_loss, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-9})
    lowest = log_loss(-bound)
    # On a flat loss the search may end anywhere; a constant one says nothing.
    if lowest <= found.fun + FLAT and lowest < log_loss(bound) - FLAT:
        warn_caller(
            f"the temperature is left at 1: the log loss of the {len(y)} held-out rows gets ever smaller "
            "with lower temperatures, since all are predicted right. Hold out more rows.",
            UserWarning,
        )
        return 1.0
    return math.exp(found.x) if found.fun < log_loss(0.0) else 1.0
