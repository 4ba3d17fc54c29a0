"""Graphs of what is issued on a CUDA device, which are launched as one."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from sknet._parallel import Lock
from sknet.device._device import Device
from sknet.exceptions import DeviceError

__all__ = ["Graph", "captured"]

_lock = Lock()  # what another thread frees or synchronises can break a capture


class Graph:
    """A graph to be launched on the current stream; it keeps the memory that its work uses."""

    def __init__(self, graph: Any, work: Callable[[], None]) -> None:
        self._graph, self._work = graph, work

    def __call__(self) -> None:
        self._graph.launch()


def captured(cupy: Any, work: Callable[[], None], device: Device) -> Graph:
    """Return a graph of all that `work` issues, as `Backend.captured` says."""
    if cupy.cuda.get_current_stream().is_capturing():
        raise DeviceError(f"work on device '{device}' cannot be captured: the current stream is, by its user")
    try:
        with _lock:
            return Graph(_recorded(cupy, work), work)
    except Exception as error:  # whatever CuPy, CUDA or the work refuses: it can be launched as it is
        raise DeviceError(f"work on device '{device}' cannot be captured: {error}") from error


def _recorded(cupy: Any, work: Callable[[], None]) -> Any:
    stream = cupy.cuda.Stream(non_blocking=True)  # the default stream cannot be captured
    with stream, cupy.cuda.using_allocator(_refuse):
        stream.begin_capture()
        try:
            work()
        except BaseException:
            with suppress(cupy.cuda.runtime.CUDARuntimeError):
                stream.end_capture()
            raise
        return stream.end_capture()


def _refuse(nbytes: int) -> NoReturn:
    """Allocate nothing: the memory would be free again before the graph is launched."""
    raise DeviceError(f"it asks for {nbytes:,} bytes of memory")
