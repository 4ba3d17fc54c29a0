"""Arrays of other namespaces, under scikit-learn's ``array_api_dispatch``: results are like X.

Networks compute with NumPy or on a device of sknet's own. An array of any other namespace of the array API
standard becomes a NumPy array at the door, and what is computed from it goes back to where it came from.
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any

import numpy as np

from sknet._frames import is_collection
from sknet._late import above
from sknet.device import device_of, is_array, to_host

__all__ = ["as_host", "follows_namespace", "is_on_device", "note_namespace", "on_host"]

# Whether a method is called by another, with what that has converted.
_is_converted: ContextVar[bool] = ContextVar("sknet.estimators.is_converted", default=False)


def follows_namespace(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of an estimator return arrays of the namespace, and on the device, of its X."""

    @wraps(method)
    def called(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if "_namespace" in self.__dict__ and not _is_converted.get():
            _check_namespace(self, X, method.__name__)
        if type(X) is np.ndarray:
            return method(self, X, *args, **kwargs)
        if is_collection(X):
            return above("map_blocks")(called, self, X, *args, **kwargs)
        if not _is_foreign(X):
            return method(self, X, *args, **kwargs)
        from sklearn.utils._array_api import get_namespace_and_device  # loads what NumPy does not need

        xp, _, device = get_namespace_and_device(X)

        def like(result: Any) -> Any:
            if isinstance(result, (list, tuple)):
                return type(result)(like(part) for part in result)
            if isinstance(result, dict):
                return {name: like(part) for name, part in result.items()}
            is_number = isinstance(result, np.ndarray) and result.dtype.kind in "biuf"
            return xp.asarray(result, device=device) if is_number else result

        given = {name: as_host(value) for name, value in kwargs.items()}
        token = _is_converted.set(True)
        try:
            return like(method(self, as_host(X), *map(as_host, args), **given))
        finally:
            _is_converted.reset(token)

    return called


def note_namespace(estimator: Any, X: Any) -> None:
    """Remember the namespace and device of the inputs of a fit, if they are not NumPy's or sknet's own."""
    vars(estimator).pop("_namespace", None)
    if type(X) is not np.ndarray and _is_foreign(X):
        estimator._namespace = _place_of(X)


def _check_namespace(estimator: Any, X: Any, method: str) -> None:
    """Raise what scikit-learn asks of an estimator that was fitted in another namespace than X's."""
    if _dispatches() and _place_of(X) != estimator._namespace:
        name, (fitted, there), (given, here) = type(estimator).__name__, estimator._namespace, _place_of(X)
        raise ValueError(
            f"Inputs passed to {name}.{method}() must use the same namespace and the same device as those "
            f"passed to fit(): fitted with {fitted} on device {there}, got {given} on device {here}. Convert "
            "X, or turn array_api_dispatch off."
        )


def _place_of(X: Any) -> tuple[str, str]:
    from sklearn.utils._array_api import get_namespace_and_device

    xp, _, device = get_namespace_and_device(X)
    return xp.__name__.rpartition("array_api_compat.")[2], str(device)


def as_host(x: Any) -> Any:
    """Return an array of another namespace as a NumPy array, and anything else as it is."""
    if type(x) is np.ndarray or not _is_foreign(x):
        return x
    from sklearn.utils._array_api import _convert_to_numpy, get_namespace

    return _convert_to_numpy(x, get_namespace(x)[0])


def on_host(x: Any) -> Any:
    """Return an array of another namespace, of a device or of Dask as a NumPy array and all else as it is."""
    x = as_host(x.compute() if is_collection(x) else x)
    return to_host(x) if type(x) is not np.ndarray and is_array(x) else x


def _is_foreign(x: Any) -> bool:
    """Tell whether x is of a namespace that is not ours, and scikit-learn has been told to dispatch on it."""
    kind = type(x)
    has_namespace = hasattr(kind, "__array_namespace__") or kind.__module__ == "torch"
    return has_namespace and not is_array(x) and _dispatches()


def _dispatches() -> bool:
    """Tell whether scikit-learn has been told to; a predictor does without it."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn is not None and bool(sklearn.get_config()["array_api_dispatch"])


def is_on_device(X: Any) -> bool:
    """Tell whether X is an array of a device that scikit-learn's own checks cannot read."""
    return not isinstance(X, np.ndarray) and is_array(X) and device_of(X).kind != "cpu"
