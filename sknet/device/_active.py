"""Making a device current; of several GPUs, only one is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sknet.device._backend import Backend, backend
from sknet.device._device import Device
from sknet.device._precision import products_in

__all__ = ["active", "on_device"]

P = ParamSpec("P")
R = TypeVar("R")
Owner = TypeVar("Owner", bound=Any)


def active(device: Device, precision: str | None = None) -> AbstractContextManager[Any]:
    """Make a device current, so that it is the GPU that computes.

    Parameters
    ----------
    device : Device
        The device.
    precision : str, default=None
        Of products of float32 arrays on a GPU, see `products_in`; None leaves it as it is. The host has none.

    Returns
    -------
    context manager
        For a ``with`` block; on the host it does nothing.

    Raises
    ------
    DeviceError
        If the kind of device is unknown.
    DeviceMemoryError
        In the block, if the device has no memory left; it says what to lower.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device, active
    >>> with active(Device("cpu")):
    ...     print(np.ones(2))
    [1. 1.]
    """
    owner = backend(device.kind)
    return owner.activate(device) if len(owner.memory_errors) == 1 else _computing(owner, device, precision)


@contextmanager
def _computing(owner: Backend, device: Device, precision: str | None) -> Iterator[None]:
    """Make a device current, and errors of its memory say what to lower."""
    products = nullcontext() if precision is None else products_in(precision)
    with owner.activate(device), products, owner.asking(device):
        yield


def on_device(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Let a method run with its object's `device` current, and products in its `precision`, if it has one.

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
        with active(self.device, getattr(self, "precision", None)):
            return method(self, *args, **kwargs)

    return placed
