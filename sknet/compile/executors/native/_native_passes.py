"""Native code for what NumPy makes in many passes, with the same bits, once it is loaded."""

from functools import cache
from typing import Any

import numpy as np

from sknet._config import native_setting
from sknet.compile.executors.native._addresses import Loop, loop_of, loop_of_products, place_of
from sknet.compile.executors.native._loaded import UnsupportedError, pass_runner
from sknet.compile.executors.native._native_norms import NativeNorms
from sknet.compile.executors.native._native_tiles import NativeTiles

__all__ = ["NativePasses", "native_passes"]

FIELDS = 48  # of `_gates`
SIZE = 4  # bytes of an element of erfc
# `Work`, which is not imported before native code is worthwhile
CONVOLVED, WEIGHT, ERFC, LSTM_FORWARD, LSTM_BACKWARD, _, _, LSTM_STEPS = range(8)


@cache
def _loop(function: Any, dtype: Any) -> Loop | None:
    return loop_of(function, (dtype, dtype))


class NativePasses(NativeNorms, NativeTiles):
    """What operations call that have such code: two kinds of convolutions, erfc, norms, and LSTMs.

    Parameters
    ----------
    runner : Runner
        Of this process.
    """

    def convolved(self, task: Any, x: Any, w: Any, bias: Any, out: Any, rooms: Any) -> bool:
        """Write a convolution of images with kernels.

        Parameters
        ----------
        task : Depthwise
            Where the windows are.
        x : ndarray of shape (N, C, H, W)
            Images.
        w : ndarray of shape (C, 1, h, w)
            Kernels.
        bias : ndarray of shape (C, 1, 1) or None
            Added to each result of a kernel.
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
        given = kernels, (0, per_kernel, *within)
        numbers = None if bias is None else np.ascontiguousarray(bias)
        return self._done(CONVOLVED, task, x, given, out, rooms, numbers)

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

    def erfc(self, x: Any, rooms: Any, out: Any) -> bool:
        """Write the complementary error function.

        Parameters
        ----------
        x, out : ndarray of shape (n,), dtype=float32
            Contiguous.
        rooms : ndarray of shape (at least 3, m), dtype=float32
            Temporary arrays for m elements at a time.

        Returns
        -------
        bool
            As for `convolved`.
        """
        exp = _loop(np.exp, x.dtype)
        steps = self._runner.steps
        if steps is None or exp is None or not (x.flags.aligned and out.flags.aligned and x.dtype.isnative):
            return False
        places = x.ctypes.data, out.ctypes.data, x.size, rooms.ctypes.data, rooms.shape[1]
        fields = np.array([*places, exp.address, exp.data, 0, 0, 0, SIZE, SIZE], np.int64)
        steps(fields.ctypes.data, SIZE, ERFC)
        return True

    def lstm_forward(self, z: Any, q: Any, b: Any, gates: Any, cell: Any, hidden: Any, new_cell: Any) -> bool:
        """Compute a step of an LSTM.

        Parameters
        ----------
        z, q : ndarray of shape (n, 4 * size)
            What input and hidden state add to the gates.
        b : ndarray of shape (4 * size,)
            The bias.
        gates : ndarray of shape (n, 4 * size)
            Overwritten with the gates.
        cell : ndarray of shape (n, size)
            The cell state before the step.
        hidden, new_cell : ndarray of shape (n, size)
            Overwritten with the states after it.

        Returns
        -------
        bool
            As for `convolved`.
        """
        if z.strides[1] != z.itemsize or z.dtype != gates.dtype or not z.flags.aligned:
            return False
        states = (cell, new_cell, hidden, None, None, None, None)
        return self._step(LSTM_FORWARD, z, z.strides[0], (q, b, gates, *states))

    def lstm_steps(self, z: Any, w: Any, b: Any, first: Any, reverse: bool, memory: tuple[Any, ...]) -> bool:
        """Compute all steps of an LSTM.

        Parameters
        ----------
        z : ndarray of shape (n, steps, 4 * size)
            What the inputs add to the gates.
        w : ndarray of shape (size, 4 * size) or (slabs, size, 4 * size / slabs)
            The recurrent weights, as a whole or cut into columns, which are multiplied one after the other.
        b : ndarray of shape (4 * size,)
            The bias.
        first : ndarray of shape (n, size)
            The hidden state before the first step.
        reverse : bool
            Whether the last step is the first.
        memory : tuple of ndarray
            Hidden states of all steps, of shape (n, steps, size), with any strides between rows; gates, of
            shape (1 or steps, n, 4 * size), and cell states, (2 or steps + 1, n, size), of which the first is
            read; room for two hidden states and a product, (2, n, size) and (n, 4 * size).

        Returns
        -------
        bool
            As for `convolved`.
        """
        outputs, gates, cells, hidden, product = memory
        loop, size = loop_of_products(w.dtype), z.itemsize
        steps, (rows, width) = self._runner.steps, first.shape
        tanh = _loop(np.tanh, z.dtype)
        slabs = w if w.ndim == 3 else w[np.newaxis]
        length = slabs.shape[2]
        plain = w, b, first, gates, cells, hidden, product
        if steps is None or tanh is None or loop is None or z.dtype.char not in "fd" or not first.size:
            return False
        if not all(x.dtype == z.dtype and x.flags.aligned for x in (z, outputs, *plain)):
            return False
        if not all(x.flags.c_contiguous for x in plain) or z.strides[2] != size or outputs.strides[2] != size:
            return False
        at = -1 if reverse else 0
        sign, (z_row, z_step, _), (row, step, _) = -1 if reverse else 1, z.strides, outputs.strides
        places = map(place_of, (product, b, gates, cells, None, hidden, None, None, None, None))
        fields = np.array(
            [
                *(z[:, at].ctypes.data, z_row, *places, rows, width),
                *(tanh.address, tanh.data, 0, 0, 0, size, size),
                *(z.shape[1], sign * z_step, len(gates), len(cells), first.ctypes.data, w.ctypes.data),
                *(outputs[:, at].ctypes.data, row, sign * step, loop.address, loop.data, 0, 0, 0),
                *(len(slabs), rows, width, length, 0, slabs.strides[0], length * size),
                *(width * size, size, length * size, size, 4 * width * size, size),
            ],
            np.int64,
        )
        steps(fields.ctypes.data, size, LSTM_STEPS)
        return True

    def lstm_backward(self, gates: Any, cell: Any, new_cell: Any, d_hidden: Any, d_cell: Any, d: Any) -> bool:
        """Compute the gradients of the gates and of the cell state before a step of an LSTM.

        Parameters
        ----------
        gates, cell, new_cell : ndarray
            As for `lstm_forward`.
        d_hidden, d_cell : ndarray of shape (n, size)
            Gradients of the states after the step; the second is overwritten.
        d : ndarray of shape (n, 4 * size)
            Overwritten with the gradient of the gates' operands.

        Returns
        -------
        bool
            As for `convolved`.
        """
        room = np.empty_like(cell)
        return self._step(
            LSTM_BACKWARD, None, 0, (None, None, gates, cell, new_cell, None, d_hidden, d_cell, d, room)
        )

    def _step(self, work: int, z: Any, row: int, arrays: tuple[Any, ...]) -> bool:
        steps, gates, cell = self._runner.steps, arrays[2], arrays[3]
        dtype, size = gates.dtype, gates.itemsize
        tanh = _loop(np.tanh, dtype)
        if steps is None or tanh is None or dtype.char not in "fd" or not cell.size:
            return False
        places = [place_of(z), row]
        for x in arrays:
            if x is not None and not (x.dtype == dtype and x.flags.c_contiguous and x.flags.aligned):
                return False
            places.append(place_of(x))
        loop = tanh.address, tanh.data, 0, 0, 0, size, size
        fields = np.zeros(FIELDS, np.int64)
        fields[: len(places) + 2 + len(loop)] = [*places, *cell.shape, *loop]
        steps(fields.ctypes.data, size, work)
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
        run = self._runner.steps
        assert run is not None
        run(fields.ctypes.data, x.itemsize, work)
        return True


class _Noting(NativePasses):
    """Native code that is not loaded yet."""

    def _done(self, *_: Any) -> bool:
        return False


def native_passes() -> NativePasses | None:
    """Return native code for what NumPy makes in many passes.

    Returns
    -------
    NativePasses or None
        One that does nothing yet if it is not loaded, None if there is no native code.
    """
    setting = native_setting()
    if setting == "never":
        return None
    try:
        found = pass_runner()
    except UnsupportedError:
        return None
    if setting == "always":
        try:
            found.wait()
        except Exception:  # whatever is wrong with Numba or its cache: a fit that needs it warns
            return None
    return NativePasses(found) if found.is_ready(0.0) else _Noting(found)
