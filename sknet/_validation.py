"""scikit-learn's constraints of parameters, for estimators: its checks of estimators read them."""

from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, Options, RealNotInt, StrOptions
from sklearn.utils._param_validation import InvalidParameterError as _Theirs
from sklearn.utils.validation import _check_monotonic_cst

from sknet._constraints import shown
from sknet.exceptions import InvalidParameterError

__all__ = [
    "Interval", "InvalidEstimatorError", "Options", "RealNotInt", "StrOptions", "check_one_direction",
    "directions_of",
]  # fmt: skip


class InvalidEstimatorError(InvalidParameterError, _Theirs):
    """A parameter of an estimator is invalid: an error of sknet, and of scikit-learn."""


def directions_of(estimator: Any, monotonic_cst: Any) -> np.ndarray | None:
    """Return -1, 0 or 1 for each column that an estimator has seen; None if none is constrained."""
    if monotonic_cst is None:
        return None
    names = getattr(monotonic_cst, "index", ())  # of a Series; a list has a method
    if not callable(names) and any(isinstance(name, str) for name in names):
        monotonic_cst = dict(monotonic_cst)
    if not isinstance(monotonic_cst, dict) and np.asarray(monotonic_cst).dtype.kind not in "biuf":
        raise ValueError(
            f"monotonic_cst must be an array-like of -1, 0 or 1, or a dict of these by column name, got "
            f"{shown(monotonic_cst)}"
        )
    found: np.ndarray = _check_monotonic_cst(estimator, monotonic_cst).ravel()
    return found if found.any() else None


def check_one_direction(task: str, loss: Any) -> None:
    """Raise a ValueError unless a prediction is one number that can rise or fall."""
    if task not in ("binary", "regression"):
        raise ValueError(
            f"monotonic_cst is for numbers, and for the probability of the second of two classes, and the "
            f"targets are {task}: set monotonic_cst=None"
        )
    if loss.outputs_per_target > 1:
        raise ValueError(
            f"monotonic_cst needs a loss with one output for each target, and {loss!r} has "
            f"{loss.outputs_per_target}"
        )
