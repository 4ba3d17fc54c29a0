"""Native code for operations of many passes in NumPy: convolutions, pools, norms, LSTMs and erfc."""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from sknet._config import native_core
from sknet._native import Core, needed
from sknet._parallel import Sharing
from sknet.compile.native._instructions import (
    Loop,
    Product,
    Tile,
    Work,
    address_of,
    loop_of,
    loop_of_products,
)

FIELDS = 50  # of what describes a step


def _differs(array: Any, dtype: Any) -> bool:
    """Tell whether an array is there, and is of another dtype or not contiguous."""
    return array is not None and not (
        array.dtype == dtype and array.flags.c_contiguous and array.flags.aligned
    )


# Works on channels, and fields of norms: those with arrays, and those with a number for each row.
OF_CHANNELS = (Work.SUMS_OF_ROWS, Work.SCALED_ROWS)
N_ROWS, OF_ELEMENTS, OF_ROWS = 5, (0, 3, 4), (1, 2, 11, 12, 14, 15)
LEAST, MOST = 1 << 17, 8  # elements of a share, and shares


def _share_out(fields: Any, size: int, work: int) -> None:
    """Do shares of a pass, with one thread of BLAS each; `fields` describe it for each share and thread."""
    n_shares, n_rooms, _ = fields.shape
    step, of_thread, _ = fields.strides
    with Sharing(core := needed()):
        core.share(address_of(fields), n_shares, step, of_thread, size, n_rooms, work)


def _do_in_shares(
    steps: Callable[[int, int, int], int],
    work: int,
    fields: Any,
    size: int,
    length: tuple[int, int],
    moves: Any,
) -> None:
    """Do a work on rows, in shares of these if it has many elements."""
    # `length` is the field with the number of rows and the number of all elements; `moves` are fields with
    # addresses, and bytes from one row to the next in each.
    field, n_elements = length
    rows = int(fields[field])
    n_shares = min(MOST, n_elements // LEAST, rows)
    if n_shares < 2:
        steps(address_of(fields), size, work)
        return
    starts = np.arange(n_shares + 1) * rows // n_shares
    shares = np.tile(fields, (n_shares, 1))
    for place, step in moves:
        if fields[place]:
            shares[:, place] += starts[:-1] * step
    shares[:, field] = np.diff(starts)
    each = np.broadcast_to(shares[:, np.newaxis], (n_shares, n_shares, len(fields)))
    _share_out(each, size, work)


# The description of images, that of the result behind it, and that of products behind both.
OF_RESULT, OF_PRODUCTS = len(vars(Tile)), 2 * len(vars(Tile))
LEFT, RIGHT, OUT = (OF_PRODUCTS + i for i in (Product.LEFT, Product.RIGHT, Product.OUT))
N_FIELDS = OF_PRODUCTS + Product.APART + 1


@lru_cache(maxsize=256)
def _differences(shares: Any, steps: tuple[int, int, int], rooms: tuple[tuple[int, int], ...]) -> Any:
    """Return what is added to each field, for each share and thread."""
    found = np.zeros((shares.n_shares, shares.n_rooms, N_FIELDS), np.int64)
    for i, each in enumerate(found):
        samples = shares.samples(i)
        places = [Tile.X, OF_RESULT + Tile.X, OF_PRODUCTS + Product.SUMS]
        each[:, places] = samples.start * steps[0], samples.start * steps[1], i * steps[2]
        each[:, OF_PRODUCTS + Product.SAMPLES] = samples.stop - samples.start
    for field, step in rooms:
        found[:, :, field] = np.arange(shares.n_rooms) * step
    found.flags.writeable = False
    return found


def _tile(task: Any, x: Any, tiles: Any, room: Any, corner: Any, bias: Any = None) -> list[int]:
    n, *sizes = x.shape
    places = address_of(tiles), 0, address_of(room), address_of(bias)
    return [address_of(x), *x.strides, *places, n, *sizes, *corner, *task.grid]


SIZE = 4  # bytes of an element of erfc


@cache
def _loop(function: Any, dtype: Any) -> Loop | None:
    return loop_of(function, (dtype, dtype))


class NativePasses:
    """Native passes of operations: two kinds of convolutions, pools, erfc, norms, and LSTMs."""

    def __init__(self, core: Core) -> None:
        self._pass = core.passes

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
        fields = np.array([*places, *exp, 0, 0, 0, SIZE, SIZE], np.int64)
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
                address_of(bias),
            ],
            np.int64,
        )
        self._pass(fields.ctypes.data, x.itemsize, work)
        return True

    # -- convolutions with kernels of three by three -----------------------------------------------

    def convolved_by_tiles(self, task: Any, x: Any, kernels: Any, out: Any, bias: Any, scratch: Any) -> bool:
        """Write a convolution of images with kernels of three by three."""
        planes, _, tiles, products = scratch
        numbers = None if bias is None else np.ascontiguousarray(bias)
        if out.strides[3] != out.itemsize or not kernels.flags.c_contiguous:
            return False
        first = _tile(task, x, tiles, planes, task.corner)
        second = _tile(task, out, products, planes, (0, 0), numbers)
        given = x, out, kernels, tiles, products
        return self._by_tiles(
            task, given, [*first, *second], None, ((RIGHT, tiles), (OUT, products)), scratch
        )

    def weight_by_tiles(self, task: Any, x: Any, g: Any, sums: Any, scratch: Any) -> bool:
        """Write the gradient of transformed kernels, see `convolved_by_tiles`."""
        planes, _, tiles, slopes, product = scratch
        first = _tile(task, x, tiles, planes, task.corner)
        second = _tile(task, g, slopes, planes, (0, 0))
        given, rooms = (x, g, slopes, tiles, product), ((LEFT, slopes), (RIGHT, tiles), (OUT, product))
        return self._by_tiles(task, given, [*first, *second], sums, rooms, scratch)

    def _by_tiles(self, task: Any, arrays: Any, tiles: Any, sums: Any, rooms: Any, scratch: Any) -> bool:
        """Compute all shares; `rooms` are what products read and write, and where that is said."""
        x, result, *_ = arrays
        loop = loop_of_products(x.dtype)
        if loop is None or not all(a.flags.aligned and a.dtype == x.dtype for a in arrays):
            return False
        share = address_of(sums), 0, task.part, task.groups, task.apart * x.itemsize
        product = [*loop, *map(address_of, arrays[2:]), *[0] * 13, *share]
        planes, _, of_images, of_results, *_ = scratch
        own = (
            *((Tile.ROOM, planes), (OF_RESULT + Tile.ROOM, planes)),
            *((Tile.TILES, of_images), (OF_RESULT + Tile.TILES, of_results)),
        )
        apart = tuple([(field, room.strides[0]) for field, room in (*own, *rooms)])
        steps_of = x.strides[0], result.strides[0], 0 if sums is None else sums.strides[0]
        fields = _differences(task.shares, steps_of, apart) + np.array([*tiles, *product], np.int64)
        _share_out(fields, x.itemsize, Work.BY_TILES)
        return True

    # -- largest elements of windows that do not overlap -------------------------------------------

    def largest(self, windows: Any, x: Any, out: Any) -> bool:
        return self._pooled(Work.LARGEST, windows, x, out, None, None)

    def put_largest(self, windows: Any, g: Any, x: Any, top: Any, out: Any) -> bool:
        """Write each window's gradient to the first of its largest elements, and zero to all others."""
        return self._pooled(Work.PUT_LARGEST, windows, x, out, top, g)

    def _pooled(self, work: int, windows: Any, x: Any, out: Any, *more: Any) -> bool:
        arrays = x, out, *more
        if windows.padding != ((0, 0), (0, 0)) or windows.dilation != (1, 1) or not windows.are_apart:
            return False
        if x.dtype.char not in "fd" or not x.size or any(_differs(a, x.dtype) for a in arrays):
            return False
        samples, channels, *size = x.shape
        where = samples * channels, *size, *windows.kernel, *windows.stride, *windows.grid, windows.tile
        fields = np.array([*map(address_of, arrays), *where], np.int64)
        moves = [(i, a.strides[1]) for i, a in enumerate(arrays) if a is not None]
        _do_in_shares(self._pass, work, fields, x.itemsize, (len(arrays), x.size), moves)
        return True

    # -- layer norms and batch norms ---------------------------------------------------------------

    def norm(self, x: Any, w: Any, b: Any, eps: float, block: int, rooms: Any, out: Any) -> bool:
        return self._normalized(Work.NORM, x, (w, b, out, None), eps, (block, block, 0), rooms)

    def norm_gradient(
        self, g: Any, x: Any, w: Any, eps: float, block: int, group: int, rooms: Any, dx: Any
    ) -> bool:
        apart = block * g.strides[0] if len(g) == len(x) else 0
        return self._normalized(Work.NORM_GRADIENT, x, (w, None, dx, g), eps, (block, group, apart), rooms)

    def sums_of_rows(self, x: Any, g: Any, centers: Any, sums: Any, products: Any) -> bool:
        """Write sums of rows, and of squares of their deviations from their means."""
        # With a gradient g: sums of its rows, and of their products with centered ones.
        rest = [None, None, None, centers, None, None, products, sums]
        return self._over_rows(Work.SUMS_OF_ROWS, [x, None, None, None, g], rest, len(x))

    def scaled_rows(self, x: Any, g: Any, numbers: Any, out: Any) -> bool:
        """Write rows centered, scaled and shifted, or the gradient of a norm."""
        center, factor, shift, slope = (*numbers, None)[:4]
        return self._over_rows(
            Work.SCALED_ROWS, [x, slope, shift, out, g], [None, None, None, center, factor, None], len(x)
        )

    def _normalized(
        self, work: int, x: Any, more: Any, eps: float, blocks: tuple[int, int, int], rooms: Any
    ) -> bool:
        (_, width), (block, *groups) = x.shape, blocks
        products, numbers, *sums = rooms
        constants = np.ones(width, x.dtype), np.array([width, eps], x.dtype)
        of_groups = [*sums[0]] if sums else [None, None]
        rest = [*constants, products, *numbers[:3], *of_groups]
        return self._over_rows(work, [x, *more], rest, block, groups)

    def _over_rows(self, work: int, first: Any, rest: Any, block: int, groups: Any = (0, 0)) -> bool:
        """Call the function that has such work; `first` and `rest` are what it is described by, in order."""
        x = first[0]
        loop = loop_of_products(x.dtype)
        if loop is None or not x.size or x.dtype.char != "f":
            return False
        if any(_differs(a, x.dtype) for a in (*first, *rest)):
            return False
        (rows, width), size = x.shape, x.itemsize
        rest = [*rest, *[None] * (8 - len(rest))]
        strides = [0, 0, 0, width * size, *[size] * 5]
        fields = np.array(
            [
                *(*map(address_of, first), rows, width, min(block, rows), *map(address_of, rest), *groups),
                *(*loop, 0, 0, 0, 1, 0, width, 1, *strides),
            ],
            np.int64,
        )
        if work in OF_CHANNELS:
            moves = [*[(i, width * size) for i in OF_ELEMENTS], *[(i, size) for i in OF_ROWS]]
            _do_in_shares(self._pass, work, fields, size, (N_ROWS, x.size), moves)
        else:
            self._pass(address_of(fields), size, work)
        return True

    # -- LSTMs -------------------------------------------------------------------------------------

    def has_steps(self, dtype: Any) -> bool:
        """Tell whether all steps of an LSTM can be computed in one call."""
        found = loop_of(np.tanh, (dtype, dtype)), loop_of_products(dtype)
        return None not in found and dtype.char in "fd"

    def lstm_forward(self, z: Any, q: Any, b: Any, gates: Any, cell: Any, hidden: Any, new_cell: Any) -> bool:
        if z.strides[1] != z.itemsize or z.dtype != gates.dtype or not z.flags.aligned:
            return False
        states = (cell, new_cell, hidden, None, None, None, None)
        return self._step(Work.LSTM_FORWARD, z, z.strides[0], (q, b, gates, *states))

    def lstm_steps(self, z: Any, w: Any, b: Any, first: Any, reverse: bool, memory: tuple[Any, ...]) -> bool:
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
                *(address_of(given), given.strides[0], *map(address_of, arrays), rows, width),
                *(*tanh, 0, 0, 0, size, size),
                *(z.shape[1], z_step, *lengths, address_of(first), address_of(slabs)),
                *(address_of(out), out.strides[0], out_step, *loop, 0, 0, 0),
                *(gates.strides[0], cells.strides[0]),
                *(len(slabs), rows, inner, length, 0, slabs.strides[0], length * size),
                *(inner * size, size, length * size, size, outer * size, size),
            ],
            np.int64,
        )
        self._pass(address_of(fields), size, work)
        return True

    def _step(self, work: int, z: Any, row: int, arrays: tuple[Any, ...]) -> bool:
        gates, cell = arrays[2], arrays[3]
        dtype, size = gates.dtype, gates.itemsize
        tanh = loop_of(np.tanh, (dtype, dtype))
        if tanh is None or dtype.char not in "fd" or not cell.size:
            return False
        places = [address_of(z), row]
        for x in arrays:
            if _differs(x, dtype):
                return False
            places.append(address_of(x))
        loop = *tanh, 0, 0, 0, size, size
        fields = np.zeros(FIELDS, np.int64)
        fields[: len(places) + 2 + len(loop)] = [*places, *cell.shape, *loop]
        self._pass(fields.ctypes.data, size, work)
        return True


def native_passes() -> NativePasses | None:
    """Return native code for what NumPy makes in many passes; None if there is none, or by the setting."""
    return None if native_core() is None else _passes()


@cache
def _passes() -> NativePasses:
    return NativePasses(needed())
