"""Checks that inputs and targets, and the losses of these, are within the range of a model's dtype."""

from typing import Any

import numpy as np

from sknet.losses import Loss

__all__ = ["check_losses", "check_range"]


def check_range(array: Any, dtype: Any, name: str) -> None:
    """Raise a ValueError if numbers are finite and would be infinite in a dtype."""
    kind = np.dtype(dtype)
    if type(array) is not np.ndarray or array.dtype.kind != "f" or kind.kind != "f" or not array.size:
        return
    if array.dtype.itemsize <= kind.itemsize:
        return
    limit, (low, high) = float(np.finfo(kind).max), (float(array.min()), float(array.max()))
    if max(-low, high) > limit and max(-low, high) < np.inf:
        raise ValueError(_message(name, low, high, f"{kind}, whose largest number is {limit:.2g}"))


def check_losses(loss: Loss, y: Any, dtype: Any) -> None:
    """Raise a ValueError if a loss of targets of this size is infinite in a dtype."""
    scaling = loss.scaling
    if scaling is None or type(y) is not np.ndarray or y.dtype.kind != "f" or not y.size:
        return
    low, high, limit = float(y.min()), float(y.max()), float(np.finfo(dtype).max)
    most = max(-low, high)
    if 1.0 < most < np.inf and scaling.power * np.log2(most) > np.log2(limit):
        what = f"{loss!r} in {np.dtype(dtype)}: their power of {scaling.power:g} is infinite there"
        raise ValueError(_message("y", low, high, what))


def _message(name: str, low: float, high: float, what: str) -> str:
    mend = (
        "Divide y by a constant, or in estimators of networks set scale_target=True; or compute with "
        "dtype='float64'"
        if name == "y"
        else "Scale its columns, for example by StandardScaler, or compute with dtype='float64'"
    )
    return f"{name} has values from {low:.3g} to {high:.3g}, too large for {what}. {mend}"
