"""CUDA devices: CuPy arrays. CuPy is imported when such a device is requested, never before."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from sknet._scipy import SPECIAL_FUNCTIONS, issparse
from sknet.device._backend import Backend, Kernel, register
from sknet.device._device import Device
from sknet.device._namespace import Namespace
from sknet.exceptions import DeviceError

__all__ = ["CupyBackend"]

OLDEST = 14  # the major version of CuPy; CuPy 13 refuses `matmul` of vectors with `out=`
INSTALL = "install CuPy with pip install 'sknet[cuda12]' or 'sknet[cuda13]', or use device='cpu'"

KERNEL_OPTIONS = ("--fmad=false",)  # of NVRTC, in addition to CuPy's own


def _check_nothing(indices: Any, length: int) -> None:
    """Do nothing: a check would synchronise with the device."""


class CupyBackend(Backend):
    """Arrays in the memory of CUDA devices."""

    kind = "cuda"

    def __init__(self) -> None:
        try:
            import cupy
            import cupyx.scipy.sparse
            import cupyx.scipy.special
        except ImportError as error:
            raise DeviceError(
                f"device 'cuda' needs CuPy, which cannot be imported ({error}): {INSTALL}"
            ) from error
        if int(cupy.__version__.partition(".")[0]) < OLDEST:
            raise DeviceError(
                f"device 'cuda' needs CuPy {OLDEST} or later, and CuPy {cupy.__version__} is installed: "
                f"{INSTALL}"
            )
        self._cupy = cupy
        self._sparse = cupyx.scipy.sparse
        functions = {name: getattr(cupy, name) for name in dir(cupy) if not name.startswith("_")}
        special = {name: getattr(cupyx.scipy.special, name) for name in SPECIAL_FUNCTIONS}
        own = {"add_rows_at": self._add_rows_at, "check_indices": _check_nothing}
        self.xp = cast(Namespace, SimpleNamespace(**functions | special | own))

    def _add_rows_at(self, out: Any, rows: Any, values: Any) -> None:
        if (
            out.dtype == np.int64
        ):  # CUDA has atomic addition for unsigned integers only, which gives the same bits
            out, values = out.view(np.uint64), values.astype(np.int64, copy=False).view(np.uint64)
        self._cupy.add.at(out, rows, values)

    @property
    def array_type(self) -> type:
        return self._cupy.ndarray  # type: ignore[no-any-return]

    def check(self, device: Device) -> None:
        try:
            count = self._cupy.cuda.runtime.getDeviceCount()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(
                f"device '{device}' requested, but there is no usable GPU here ({error})"
            ) from error
        if device.index >= count:
            raise DeviceError(f"device '{device}' requested, but there are only {count} CUDA devices here")

    def from_host(self, array: Any, device: Device) -> Any:
        self.check(device)
        with self.activate(device):
            if issparse(array):
                return self._sparse.csr_matrix(array.tocsr())
            return self._cupy.asarray(array)

    def to_host(self, array: Any) -> np.ndarray:
        return array.get()  # type: ignore[no-any-return]

    def device_of(self, array: Any) -> Device:
        values = array.data if self.is_sparse(array) else array
        return Device(self.kind, values.device.id)

    def activate(self, device: Device) -> AbstractContextManager[Any]:
        return self._cupy.cuda.Device(device.index)  # type: ignore[no-any-return]

    def free_memory(self, device: Device) -> int:
        with self.activate(device):
            unused = self._cupy.get_default_memory_pool().free_bytes()
            return int(self._cupy.cuda.runtime.memGetInfo()[0]) + int(unused)

    def kernels(self, source: str, names: Sequence[str], device: Device) -> list[Kernel]:
        # CuPy caches compiled code on disk, by source and options.
        with self.activate(device):
            module = self._cupy.RawModule(code=source, options=KERNEL_OPTIONS, backend="nvrtc")
            return [module.get_function(name) for name in names]

    def is_sparse(self, array: Any) -> bool:
        return bool(self._sparse.issparse(array))


class _Loader:
    """Loads CuPy on demand; `package` lets arrays of an already imported CuPy be recognized."""

    package = "cupy"

    def __call__(self) -> CupyBackend:
        return CupyBackend()


register("cuda", _Loader())
