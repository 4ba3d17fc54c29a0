"""The meta device: arrays with a shape and a dtype, but no data."""

import math
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from sknet.device._backend import Backend, register
from sknet.device._device import Device
from sknet.device._namespace import Namespace
from sknet.exceptions import DeviceError

__all__ = ["MetaArray", "MetaBackend"]

META = Device("meta")


class MetaArray:
    """An array without data, with the shape and dtype of a real one.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.

    Examples
    --------
    >>> MetaArray((2, 3), "float32").nbytes
    24
    """

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape = tuple(map(int, shape))
        self.dtype = np.dtype(dtype)
        self.device = META

    def __reduce__(self) -> Any:
        return type(self), (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the data would need."""
        return self.size * self.dtype.itemsize

    def astype(self, dtype: DTypeLike) -> "MetaArray":
        """Return an array of this shape and another `dtype`."""
        return MetaArray(self.shape, dtype)

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise DeviceError(
            f"a meta array has no data: got shape {self.shape} on device 'meta'; compute on a real device"
        )


class _MetaNamespace:
    """Only functions that create arrays: operations on meta arrays run the primitives' shape rules."""

    empty = zeros = ones = staticmethod(lambda shape, dtype=float: MetaArray(shape, dtype))
    full = staticmethod(lambda shape, value, dtype: MetaArray(shape, dtype))

    def __getattr__(self, name: str) -> Any:
        raise DeviceError(f"{name!r} needs data, but a meta array has only a shape and a dtype")


class MetaBackend(Backend):
    """Arrays without data."""

    kind = "meta"
    package = "sknet"
    array_type = MetaArray

    def __init__(self) -> None:
        self.xp = cast(Namespace, _MetaNamespace())

    def from_host(self, array: Any, device: Device) -> MetaArray:
        return MetaArray(array.shape, array.dtype)

    def device_of(self, array: Any) -> Device:
        return array.device  # type: ignore[no-any-return]

    def to_host(self, array: Any) -> np.ndarray:
        return array.__array__()  # type: ignore[no-any-return]


register("meta", MetaBackend)
