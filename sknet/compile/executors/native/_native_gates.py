"""Native code for steps of recurrent networks, with the bits of NumPy's calls."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.compile.executors.native._addresses import loop_of, loop_of_products, place_of
from sknet.compile.executors.native._fields import Work

__all__ = ["NativeGates"]

FIELDS = 50  # of what describes a step


class NativeGates:
    """Native passes of LSTMs."""

    _pass: Callable[[int, int, int], int]

    def has_steps(self, dtype: Any) -> bool:
        """Tell whether all steps of an LSTM can be computed in one call."""
        found = loop_of(np.tanh, (dtype, dtype)), loop_of_products(dtype)
        return None not in found and dtype.char in "fd"

    def lstm_forward(self, z: Any, q: Any, b: Any, gates: Any, cell: Any, hidden: Any, new_cell: Any) -> bool:
        """Compute a step of an LSTM."""
        if z.strides[1] != z.itemsize or z.dtype != gates.dtype or not z.flags.aligned:
            return False
        states = (cell, new_cell, hidden, None, None, None, None)
        return self._step(Work.LSTM_FORWARD, z, z.strides[0], (q, b, gates, *states))

    def lstm_steps(self, z: Any, w: Any, b: Any, first: Any, reverse: bool, memory: tuple[Any, ...]) -> bool:
        """Compute all steps of an LSTM."""
        outputs, gates, cells, hidden, product = memory
        if z.strides[2] != z.itemsize or outputs.strides[2] != z.itemsize:
            return False
        at, sign = (-1, -1) if reverse else (0, 1)
        slabs = w if w.ndim == 3 else w[np.newaxis]
        arrays = product, b, gates, cells, None, hidden, None, None, None, None
        ends = (z[:, at], sign * z.strides[1]), (outputs[:, at], sign * outputs.strides[1])
        return self._steps(Work.LSTM_STEPS, z, ends, arrays, (len(gates), len(cells)), first, slabs)

    def lstm_backward(self, gates: Any, cell: Any, new_cell: Any, d_hidden: Any, d_cell: Any, d: Any) -> bool:
        """Compute the gradients of the gates and of the cell state before a step of an LSTM."""
        room = np.empty_like(cell)
        return self._step(
            Work.LSTM_BACKWARD, None, 0, (None, None, gates, cell, new_cell, None, d_hidden, d_cell, d, room)
        )

    def lstm_back_steps(self, g: Any, w: Any, reverse: bool, slopes: Any, kept: Any, results: Any) -> bool:
        """Compute the gradients of the gates of all steps of an LSTM, and of the states before the first."""
        (gates, cells), (d_hidden, d_cell), (dz, total, d, room) = kept, slopes, results
        at, sign = (0, 1) if reverse else (-1, -1)
        slabs = w if w.ndim == 3 else w[np.newaxis]
        if not g.size or g.strides[2] != g.itemsize or dz.strides[2] != g.itemsize:
            return False
        arrays = None, None, gates, cells, None, total, d_hidden, d_cell, d, room
        ends = (g[:, at], sign * g.strides[1]), (dz[:, at], sign * dz.strides[1])
        return self._steps(Work.LSTM_BACK_STEPS, g, ends, arrays, (len(gates), len(cells)), None, slabs)

    def _steps(
        self, work: int, z: Any, ends: Any, arrays: tuple[Any, ...], lengths: Any, first: Any, slabs: Any
    ) -> bool:
        """Make all steps, from the first inputs and outputs, and bytes to the next, `ends`."""
        (given, z_step), (out, out_step) = ends
        dtype, size = z.dtype, z.itemsize
        tanh, loop = loop_of(np.tanh, (dtype, dtype)), loop_of_products(dtype)
        gates, cells = arrays[2:4]
        others = [x for x in (*arrays[:2], *arrays[4:], first, slabs) if x is not None]
        plain = [gates[0], cells[0], *others]
        rows, width = cells.shape[1:]
        if tanh is None or loop is None or dtype.char not in "fd" or not rows * width:
            return False
        if not all(x.dtype == dtype and x.flags.aligned for x in (given, out, *plain)):
            return False
        if not all(x.flags.c_contiguous for x in plain):
            return False
        _, inner, length = slabs.shape
        outer = len(slabs) * length
        fields = np.array(
            [
                *(place_of(given), given.strides[0], *map(place_of, arrays), rows, width),
                *(tanh.address, tanh.data, 0, 0, 0, size, size),
                *(z.shape[1], z_step, *lengths, place_of(first), place_of(slabs)),
                *(place_of(out), out.strides[0], out_step, loop.address, loop.data, 0, 0, 0),
                *(gates.strides[0], cells.strides[0]),
                *(len(slabs), rows, inner, length, 0, slabs.strides[0], length * size),
                *(inner * size, size, length * size, size, outer * size, size),
            ],
            np.int64,
        )
        self._pass(place_of(fields), size, work)
        return True

    def _step(self, work: int, z: Any, row: int, arrays: tuple[Any, ...]) -> bool:
        gates, cell = arrays[2], arrays[3]
        dtype, size = gates.dtype, gates.itemsize
        tanh = loop_of(np.tanh, (dtype, dtype))
        if tanh is None or dtype.char not in "fd" or not cell.size:
            return False
        places = [place_of(z), row]
        for x in arrays:
            if x is not None and not (x.dtype == dtype and x.flags.c_contiguous and x.flags.aligned):
                return False
            places.append(place_of(x))
        loop = tanh.address, tanh.data, 0, 0, 0, size, size
        fields = np.zeros(FIELDS, np.int64)
        fields[: len(places) + 2 + len(loop)] = [*places, *cell.shape, *loop]
        self._pass(fields.ctypes.data, size, work)
        return True
