"""Convolutions channel by channel in native code, with the bits of `sknet.ops`, once it is loaded."""

from typing import Any

import numpy as np

from sknet._config import native_setting
from sknet.compile.executors.native._loaded import Runner, UnsupportedError, plane_runner

__all__ = ["NativePlanes", "native_planes"]

CONVOLVED, WEIGHT = 0, 1  # `Work`, which is not imported before native code is worthwhile


class NativePlanes:
    """What `sknet.ops` calls for convolutions in which every channel has a kernel of its own.

    Parameters
    ----------
    runner : Runner
        Of this process.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def note(self, seconds: float) -> None:
        """Count time that convolutions have taken without native code."""
        self._runner.note(seconds)

    def convolved(self, task: Any, x: Any, w: Any, out: Any, rooms: Any) -> bool:
        """Write a convolution of images with kernels.

        Parameters
        ----------
        task : Depthwise
            Where the windows are.
        x : ndarray of shape (N, C, H, W)
            Images.
        w : ndarray of shape (C, 1, h, w)
            Kernels.
        out : ndarray of shape (N, C, rows, columns)
            The result.
        rooms : sequence of ndarray
            Temporary arrays: padded images and sums.

        Returns
        -------
        bool
            False, with nothing written, if NumPy has to do it.
        """
        kernels = np.ascontiguousarray(w)
        per_kernel, _, *within = kernels.strides
        return self._done(CONVOLVED, task, x, (kernels, (0, per_kernel, *within)), out, rooms)

    def weight(self, task: Any, x: Any, g: Any, sums: Any, rooms: Any) -> bool:
        """Write the sums over samples of images times gradients.

        Parameters
        ----------
        task, x : Depthwise, ndarray
            As for `convolved`.
        g : ndarray of shape (N, C, rows, columns)
            The gradient of the result.
        sums : ndarray of shape (C, h, w, places)
            Overwritten.
        rooms : sequence of ndarray
            Temporary arrays: padded images and images of the gradient.

        Returns
        -------
        bool
            As for `convolved`.
        """
        return self._done(WEIGHT, task, x, (g, g.strides), sums, rooms)

    def _done(self, work: int, task: Any, x: Any, given: Any, out: Any, rooms: Any) -> bool:
        (other, steps), (padded, spread, *_) = given, rooms
        arrays = x, other, out, padded, spread
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
            ],
            np.int64,
        )
        steps_of = self._runner.steps
        assert steps_of is not None
        steps_of(fields.ctypes.data, x.itemsize, work)
        return True


class _Noting(NativePlanes):
    """Native code that is not loaded yet."""

    def _done(self, work: int, task: Any, x: Any, given: Any, out: Any, rooms: Any) -> bool:
        return False


def native_planes() -> NativePlanes | None:
    """Return native code for convolutions channel by channel.

    Returns
    -------
    NativePlanes or None
        One that does nothing yet if it is not loaded, None if there is no native code.
    """
    setting = native_setting()
    if setting == "never":
        return None
    try:
        found = plane_runner()
    except UnsupportedError:
        return None
    if setting == "always":
        try:
            found.wait()
        except Exception:  # whatever is wrong with Numba or its cache: a fit that needs it warns
            return None
    return NativePlanes(found) if found.is_ready(0.0) else _Noting(found)
