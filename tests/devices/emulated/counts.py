"""What has happened on the emulated device: counts, and faults."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Counts", "counted", "faults", "idle", "late", "use", "without_page_locks"]

_library: ctypes.CDLL | None = None


class Counts(ctypes.Structure):
    """Counts of calls, in the order of the structure in library/emulator.h.

    A graph's launch counts as one, and besides what its nodes do. A call of cuBLAS, cuSPARSE or cuSOLVER, or
    of CUB's compiled functions, counts as one, however many kernels it would launch.
    """

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("kernels", "library_calls", "graph_launches", "graph_nodes"),
            *("allocations", "allocated_bytes", "frees"),
            *(
                "to_device",
                "to_device_bytes",
                "to_host",
                "to_host_bytes",
                "on_device",
                "on_device_bytes",
                "fills",
            ),
            "synchronizations",
        )
    ]

    @property
    def launches(self) -> int:
        """What is issued to the device: kernels, calls of libraries, copies and fills."""
        found: int = self.kernels + self.library_calls + self.on_device + self.fills
        return found

    def named(self) -> dict[str, int]:
        """Return all counts by name, without those that are 0."""
        found: dict[str, int] = {name: getattr(self, name) for name, *_ in self._fields_}
        return {name: count for name, count in found.items() if count}


def use(library: ctypes.CDLL) -> None:
    """Read the counts of this library from now on."""
    global _library
    library.emulator_counts.restype = ctypes.POINTER(Counts)
    library.emulator_next_fault.restype = ctypes.c_char_p
    _library = library


def _loaded() -> Any:
    if _library is None:
        raise RuntimeError(
            "the emulated driver is not installed: run pytest with -p tests.devices.emulated.plugin"
        )
    return _library


@contextmanager
def counted() -> Iterator[Counts]:
    """Count what happens until the end of the block; the counts are there afterwards."""
    now = _loaded().emulator_counts().contents
    before = Counts.from_buffer_copy(now)
    found = Counts()
    yield found
    for name, *_ in Counts._fields_:
        setattr(found, name, getattr(now, name) - getattr(before, name))


@contextmanager
def idle() -> Iterator[None]:
    """Count kernels and calls of libraries without running them: results are not even zeros."""
    _loaded().emulator_set_idle(True)
    try:
        yield
    finally:
        _loaded().emulator_set_idle(False)


@contextmanager
def late(what: str) -> Iterator[None]:
    """Run work as late as CUDA permits.

    Parameters
    ----------
    what : str
        "copies", on streams other than the default one, "computing", on that, or "everything".
    """
    _loaded().emulator_set_late(("copies", "computing", "everything").index(what) + 1)
    try:
        yield
    finally:
        _loaded().emulator_set_late(0)


@contextmanager
def without_page_locks() -> Iterator[None]:
    """Let the system lock no more pages of the host's memory than it has."""
    change = _loaded().emulator_set_pinned_memory
    change(ctypes.c_size_t(0))
    try:
        yield
    finally:
        change(ctypes.c_size_t(1 << 40))


def faults() -> list[str]:
    """Return, once, what no GPU would report: wrong writes, barriers that threads never reach."""
    library = _loaded()
    library.emulator_check_memory()
    found = []
    while text := library.emulator_next_fault():
        found.append(text.decode())
    return found
