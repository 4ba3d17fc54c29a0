"""Native code for what NumPy makes in many passes, with the same bits."""

from functools import cache
from typing import Any

import numpy as np

from sknet._config import native_core
from sknet._native import needed
from sknet.compile.executors.native._addresses import Loop, loop_of, place_of
from sknet.compile.executors.native._fields import Work
from sknet.compile.executors.native._native_gates import NativeGates
from sknet.compile.executors.native._native_norms import NativeNorms
from sknet.compile.executors.native._native_tiles import NativeTiles

__all__ = ["NativePasses", "native_passes"]

SIZE = 4  # bytes of an element of erfc


@cache
def _loop(function: Any, dtype: Any) -> Loop | None:
    return loop_of(function, (dtype, dtype))


class NativePasses(NativeNorms, NativeTiles, NativeGates):
    """Native passes of operations: two kinds of convolutions, erfc, norms, and LSTMs."""

    def convolved(self, task: Any, x: Any, w: Any, bias: Any, out: Any, rooms: Any) -> bool:
        """Write a convolution of images with kernels."""
        kernels = np.ascontiguousarray(w)
        per_kernel, _, *within = kernels.strides
        given = kernels, (0, per_kernel, *within)
        numbers = None if bias is None else np.ascontiguousarray(bias)
        return self._done(Work.CONVOLVED, task, x, given, out, rooms, numbers)

    def weight(self, task: Any, x: Any, g: Any, sums: Any, rooms: Any) -> bool:
        """Write the sums over samples of images times gradients."""
        return self._done(Work.WEIGHT, task, x, (g, g.strides), sums, rooms)

    def erfc(self, x: Any, rooms: Any, out: Any) -> bool:
        """Write the complementary error function."""
        exp = _loop(np.exp, x.dtype)
        if exp is None or not (x.flags.aligned and out.flags.aligned and x.dtype.isnative):
            return False
        places = x.ctypes.data, out.ctypes.data, x.size, rooms.ctypes.data, rooms.shape[1]
        fields = np.array([*places, exp.address, exp.data, 0, 0, 0, SIZE, SIZE], np.int64)
        self._pass(fields.ctypes.data, SIZE, Work.ERFC)
        return True

    def _done(self, work: int, task: Any, x: Any, given: Any, out: Any, rooms: Any, bias: Any = None) -> bool:
        (other, steps), (padded, spread, *_) = given, rooms
        arrays = [x, other, out, padded, spread, *([] if bias is None else [bias])]
        if not all(a.dtype == x.dtype and a.flags.aligned and a.dtype.isnative for a in arrays):
            return False
        if not (out.flags.c_contiguous and x.dtype.char in "fd" and x.size and out.size):
            return False
        windows = task.windows
        (top, _), (left, _) = windows.padding
        rows, width = windows.padded
        if min(top, left) < 0 or rows < top + windows.size[0] or width < left + windows.size[1]:
            return False  # windows leave out a part of the image
        fields = np.array(
            [
                *(x.ctypes.data, *x.strides, other.ctypes.data, *steps, out.ctypes.data),
                *(
                    padded.ctypes.data,
                    spread.ctypes.data,
                    *x.shape[:2],
                    *windows.size,
                    top,
                    left,
                    rows + 1,
                    width,
                ),
                *(*windows.kernel, *windows.stride, *windows.dilation, *windows.grid, task.width),
                place_of(bias),
            ],
            np.int64,
        )
        self._pass(fields.ctypes.data, x.itemsize, work)
        return True


def native_passes() -> NativePasses | None:
    """Return native code for what NumPy makes in many passes; None if there is none, or by the setting."""
    return None if native_core() is None else _passes()


@cache
def _passes() -> NativePasses:
    return NativePasses(needed())
