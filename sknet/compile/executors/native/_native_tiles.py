"""Native code for convolutions by tiles of images, with the bits of NumPy's calls."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sknet.compile.executors.native._addresses import loop_of_products, place_of
from sknet.compile.executors.native._fields import Product, Tile
from sknet.compile.executors.native._helpers import share_out

__all__ = ["NativeTiles"]

# The description of images, that of the result behind it, and that of products behind both.
OF_RESULT, OF_PRODUCTS = len(Tile), 2 * len(Tile)
LEFT, RIGHT, OUT = (OF_PRODUCTS + i for i in (Product.LEFT, Product.RIGHT, Product.OUT))
N_FIELDS = OF_PRODUCTS + Product.APART + 1


class NativeTiles:
    """Native passes of convolutions with kernels of three by three."""

    _pass: Callable[[int, int, int], int]

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
        share = place_of(sums), 0, task.part, task.groups, task.apart * x.itemsize
        product = [loop.address, loop.data, *map(place_of, arrays[2:]), *[0] * 13, *share]
        planes, _, of_images, of_results, *_ = scratch
        own = (
            *((Tile.ROOM, planes), (OF_RESULT + Tile.ROOM, planes)),
            *((Tile.TILES, of_images), (OF_RESULT + Tile.TILES, of_results)),
        )
        apart = tuple([(field, room.strides[0]) for field, room in (*own, *rooms)])
        steps_of = x.strides[0], result.strides[0], 0 if sums is None else sums.strides[0]
        fields = _differences(task.shares, steps_of, apart) + np.array([*tiles, *product], np.int64)
        share_out(self._pass, fields, x.itemsize)
        return True


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
    places = place_of(tiles), 0, place_of(room), place_of(bias)
    return [place_of(x), *x.strides, *places, n, *sizes, *corner, *task.grid]
