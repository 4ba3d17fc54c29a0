"""Copies from the host's memory to a device, beside what the device computes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

import numpy as np

__all__ = ["StreamTransfers", "Transfers"]


class Transfers:
    """Copies to a device that need not be done when the next line runs; here they are.

    Work on a device is ordered by marks: what `mark` and `send` return stands for all work until then.

    Parameters
    ----------
    from_host : callable
        Returns a host array as one of the device.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.device import Device, backend
    >>> transfers, there = backend("cpu").transfers(Device("cpu")), np.zeros(3)
    >>> here = transfers.memory(there.nbytes).view(there.dtype)
    >>> here[:] = 1.0
    >>> done = transfers.send([here], [there], after=transfers.mark())
    >>> transfers.follow(done)
    >>> there
    array([1., 1., 1.])
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError("copies to a device cannot be pickled or copied")

    def __init__(self, from_host: Callable[[np.ndarray], Any]) -> None:
        self._from_host = from_host

    def memory(self, nbytes: int) -> np.ndarray:
        """Return memory of the host to copy from, page-locked if the device's driver permits.

        Parameters
        ----------
        nbytes : int
            Its size.

        Returns
        -------
        ndarray of shape (nbytes,), dtype=uint8
            Arbitrary bytes.
        """
        return np.empty(nbytes, np.uint8)

    def mark(self) -> Any:
        """Return a mark after all that the current stream was given to compute."""
        return None

    def send(self, sources: Sequence[np.ndarray], targets: Sequence[Any], after: Any) -> Any:
        """Begin to copy host arrays to C-contiguous arrays of the device.

        Parameters
        ----------
        sources, targets : sequence of array
            Of the same shapes and dtypes. The host must not write to the sources before it has waited for the
            mark that is returned.
        after : mark
            Of the work that still uses the targets.

        Returns
        -------
        mark
            After the copies.
        """
        for source, target in zip(sources, targets, strict=True):
            target[...] = self._from_host(source)

    def follow(self, mark: Any) -> None:
        """Let what the current stream is given from now on wait for a mark."""

    def wait(self, mark: Any) -> None:
        """Let the host wait for a mark."""

    def finish(self) -> None:
        """Let the host wait for all copies; errors of a device that is lost are ignored."""


class StreamTransfers(Transfers):
    """Copies on a stream of their own, by CuPy; events are the marks."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)  # else it waits for the default stream

    def memory(self, nbytes: int) -> np.ndarray:
        try:
            memory = self._cupy.cuda.alloc_pinned_memory(nbytes)
        except self._cupy.cuda.runtime.CUDARuntimeError:  # the system locks no more pages
            return np.empty(nbytes, np.uint8)
        return np.frombuffer(memory, np.uint8, nbytes)

    def mark(self) -> Any:
        return self._marked(self._cupy.cuda.get_current_stream())

    def send(self, sources: Sequence[np.ndarray], targets: Sequence[Any], after: Any) -> Any:
        self._stream.wait_event(after)
        for source, target in zip(sources, targets, strict=True):
            target.set(source, stream=self._stream)
        return self._marked(self._stream)

    def _marked(self, stream: Any) -> Any:
        return stream.record(self._cupy.cuda.Event(disable_timing=True))

    def follow(self, mark: Any) -> None:
        self._cupy.cuda.get_current_stream().wait_event(mark)

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def finish(self) -> None:
        with suppress(self._cupy.cuda.runtime.CUDARuntimeError):
            self._stream.synchronize()
