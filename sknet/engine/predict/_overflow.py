"""The warning about predictions that have overflowed."""

from typing import Any

import numpy as np

from sknet._arrays import all_finite
from sknet._warnings import warn_caller
from sknet.device import active, device_of, namespace, to_host

__all__ = ["warn_of_overflow"]


def warn_of_overflow(result: Any, X: Any, who: str) -> None:
    """Warn if predictions are NaN or infinite although the inputs are finite."""
    if _is_finite(result) or not all(map(_is_finite, _values_of(X))):
        return
    found = to_host(result)
    wrong = int((~np.isfinite(found.reshape(len(found), -1))).any(axis=1).sum())
    warn_caller(
        f"{wrong} of {len(found)} predictions of {who} are NaN or infinite although X is finite: numbers "
        "overflow inside the network. Scale the inputs as for the fit.",
        RuntimeWarning,
    )


def _values_of(X: Any) -> list[Any]:
    inputs = X.values() if isinstance(X, dict) else [X]
    return [x.data if hasattr(x, "tocsr") else x for x in inputs]


def _is_finite(array: Any) -> bool:
    if type(array) is np.ndarray:
        return all_finite(array)
    with active(device_of(array)):
        return bool(to_host(namespace(array).isfinite(array).all()))
