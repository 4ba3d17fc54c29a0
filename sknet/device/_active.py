"""Making a device current; of several GPUs, only one is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sknet.device._backend import backend
from sknet.device._device import Device

__all__ = ["active", "on_device"]

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner", bound=Any)


def active(device: Device) -> AbstractContextManager[Any]:
    """Make a device current, so that it is the GPU that computes.

    Parameters
    ----------
    device : Device
        The device.

    Returns
    -------
    context manager
        For a ``with`` block; on the host it does nothing.

    Raises
    ------
    DeviceError
        If the kind of device is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device, active
    >>> with active(Device("cpu")):
    ...     print(np.ones(2))
    [1. 1.]
    """
    return backend(device.kind).activate(device)


def on_device(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Let a method run with its object's `device` current.

    Parameters
    ----------
    method : callable
        A method of a class whose objects have a `device`.

    Returns
    -------
    callable
        The method, with the same arguments and result.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device, on_device
    >>> class Ones:
    ...     device = Device("cpu")
    ...     @on_device
    ...     def make(self, n):
    ...         return np.ones(n)
    >>> Ones().make(2)
    array([1., 1.])
    """

    @wraps(method)
    def placed(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.device.kind == "cpu":  # the only one; a context manager would slow down small steps
            return method(self, *args, **kwargs)
        with active(self.device):
            return method(self, *args, **kwargs)

    return placed
