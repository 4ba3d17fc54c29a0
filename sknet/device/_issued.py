"""Work that is issued on a device again and again: launch by launch at first, then as one graph."""

from collections.abc import Callable
from typing import NoReturn

from sknet.device._backend import backend
from sknet.device._device import Device
from sknet.exceptions import DeviceError

__all__ = ["Issued"]


class Issued:
    """Work on a device: launches at first, and from the second time on one graph of them, if that can be.

    Parameters
    ----------
    launches : callable
        Issues the work.
    device : Device
        Where it runs.

    Attributes
    ----------
    refusal : str or None
        Why there is no graph; None before it is tried.

    Examples
    --------
    >>> from sknet.device import Device, Issued
    >>> work = Issued(lambda: print("launched"), Device("cpu"))
    >>> for _ in range(2):
    ...     work()
    launched
    launched
    >>> work.refusal
    "device 'cpu' has no graphs"
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError("work on a device cannot be pickled or copied: make it again from what issues it")

    def __init__(self, launches: Callable[[], None], device: Device) -> None:
        self._run, self._launches, self._device = launches, launches, device
        self._is_warm = False  # until kernels are compiled and loaded
        self.refusal: str | None = None

    def __call__(self) -> None:
        if self._is_warm and self._run is self._launches and self.refusal is None:
            try:
                self._run = backend(self._device.kind).captured(self._launches, self._device)
            except DeviceError as error:
                self.refusal = str(error)
        self._run()
        self._is_warm = True
