"""Facts about a machine beyond `sknet.device`: streams, a limit of memory, counts."""

import importlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from sknet.device import Device, available, backend
from tools.gpu_check._found import Skipped

__all__ = ["Counts", "Cuda", "Machine"]


@dataclass
class Counts:
    """Events while something ran."""

    allocations: int = 0
    reads: int = 0


class Machine:
    """Devices of a registered kind."""

    def __init__(self, kind: str) -> None:
        self.device: Device = available(kind)

    def facts(self) -> dict[str, Any]:
        """Return what describes the device and its libraries."""
        return {"device": str(self.device)}

    def n_devices(self) -> int:
        """Return the number of devices."""
        return 1

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""

    def stream(self) -> AbstractContextManager[Any]:
        """Return a context in which the user's own stream is the current one."""
        raise Skipped(f"devices of kind {self.device.kind!r} have no streams")

    def limited(self, nbytes: int) -> AbstractContextManager[Any]:
        """Return a context in which arrays can have this much memory in all."""
        raise Skipped(f"memory of kind {self.device.kind!r} has no limit")

    def counted(self) -> AbstractContextManager[Any]:
        """Return a context that counts allocations on the device and reads by the host."""
        raise Skipped(f"nothing counts on devices of kind {self.device.kind!r}")


class Cuda(Machine):
    """CUDA devices, through CuPy."""

    def __init__(self) -> None:
        super().__init__("cuda")
        self._cupy = importlib.import_module("cupy")

    def facts(self) -> dict[str, Any]:
        cupy = self._cupy
        runtime, device = cupy.cuda.runtime, cupy.cuda.Device(self.device.index)
        properties = runtime.getDeviceProperties(self.device.index)
        core = importlib.import_module("cupy._core")
        facts: dict[str, Callable[[], Any]] = {
            "name": lambda: properties["name"].decode(),
            "compute capability": lambda: f"{properties['major']}.{properties['minor']}",
            "processors": lambda: properties["multiProcessorCount"],
            "memory, bytes": lambda: properties["totalGlobalMem"],
            "free memory, bytes": lambda: backend("cuda").free_memory(self.device),
            "devices": self.n_devices,
            "CUDA driver": runtime.driverGetVersion,
            "CUDA runtime": runtime.runtimeGetVersion,
            "CuPy": lambda: cupy.__version__,
            "cuBLAS": lambda: cupy.cuda.cublas.getVersion(device.cublas_handle),
            "NVRTC": lambda: ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
            "reduction accelerators": lambda: [str(x) for x in core.get_reduction_accelerators()],
            "routine accelerators": lambda: [str(x) for x in core.get_routine_accelerators()],
            "driver, MIG mode": _driver,
        }
        return {name: _or_error(fact) for name, fact in facts.items()}

    def n_devices(self) -> int:
        return int(self._cupy.cuda.runtime.getDeviceCount())

    def synchronize(self) -> None:
        self._cupy.cuda.Device(self.device.index).synchronize()

    def stream(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._cupy.cuda.Stream(non_blocking=True)
        return stream

    @contextmanager
    def limited(self, nbytes: int) -> Iterator[None]:
        pool = self._cupy.get_default_memory_pool()
        before = pool.get_limit()
        pool.free_all_blocks()
        pool.set_limit(size=pool.total_bytes() + nbytes)
        try:
            with self._cupy.cuda.using_allocator(pool.malloc):  # where another is used, it has no limit
                yield
        finally:
            pool.set_limit(size=before)

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        counts, owner = Counts(), backend("cuda")
        read = owner.to_host

        class Hook(self._cupy.cuda.MemoryHook):  # type: ignore[name-defined]
            name = "tools.gpu_check"

            def malloc_preprocess(self, **_: Any) -> None:
                counts.allocations += 1

        def to_host(array: Any) -> Any:
            counts.reads += 1
            return read(array)

        owner.to_host = to_host  # type: ignore[method-assign]
        try:
            with Hook():
                yield counts
        finally:
            del owner.to_host  # the class's again


def _or_error(fact: Callable[[], Any]) -> Any:
    """Return a fact, or how it could not be found: no fact is worth the others."""
    try:
        return fact()
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version,mig.mode.current", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
