"""Arrays of other namespaces, under scikit-learn's ``array_api_dispatch``: results are like X.

Networks compute with NumPy or on a device of sknet's own. An array of any other namespace of the array API
standard becomes a NumPy array at the door, and what is computed from it goes back to where it came from.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn import get_config

from sknet.device import is_array

__all__ = ["as_host", "follows_namespace"]


def follows_namespace(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of an estimator return arrays of the namespace, and on the device, of its X.

    Parameters
    ----------
    method : callable
        ``method(self, X)``, which knows NumPy and sknet's devices.

    Returns
    -------
    callable
        The method for any namespace.
    """

    @wraps(method)
    def called(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if type(X) is np.ndarray or not _is_foreign(X):
            return method(self, X, *args, **kwargs)
        from sklearn.utils._array_api import get_namespace_and_device  # loads what NumPy does not need

        xp, _, device = get_namespace_and_device(X)

        def like(result: Any) -> Any:
            if isinstance(result, (list, tuple)):
                return type(result)(like(part) for part in result)
            is_number = isinstance(result, np.ndarray) and result.dtype.kind in "biuf"
            return xp.asarray(result, device=device) if is_number else result

        return like(method(self, as_host(X), *args, **kwargs))

    return called


def as_host(x: Any) -> Any:
    """Return an array of another namespace as a NumPy array, and anything else as it is.

    Parameters
    ----------
    x : object
        What a user passed as X, y or weights.

    Returns
    -------
    object
        The same values.
    """
    if type(x) is np.ndarray or not _is_foreign(x):
        return x
    from sklearn.utils._array_api import _convert_to_numpy, get_namespace

    return _convert_to_numpy(x, get_namespace(x)[0])


def _is_foreign(x: Any) -> bool:
    """Tell whether x is of a namespace that is not ours, and scikit-learn has been told to dispatch on it."""
    kind = type(x)
    has_namespace = hasattr(kind, "__array_namespace__") or kind.__module__ == "torch"
    return has_namespace and not is_array(x) and bool(get_config()["array_api_dispatch"])
