"""Native code for norms, with the bits of NumPy's calls."""

from typing import Any

import numpy as np

from sknet._native import Core
from sknet.compile.executors.native._addresses import loop_of_products, place_of
from sknet.compile.executors.native._fields import Work

__all__ = ["NativeNorms"]


class NativeNorms:
    """Native passes of layer norms and batch norms."""

    def __init__(self, core: Core) -> None:
        self._pass = core.passes

    def norm(self, x: Any, w: Any, b: Any, eps: float, block: int, rooms: Any, out: Any) -> bool:
        """Normalize rows, and scale and shift them."""
        return self._normalized(Work.NORM, x, (w, b, out, None), eps, (block, block, 0), rooms)

    def norm_gradient(
        self, g: Any, x: Any, w: Any, eps: float, block: int, group: int, rooms: Any, dx: Any
    ) -> bool:
        """Write the gradient of `norm`."""
        apart = block * g.strides[0] if len(g) == len(x) else 0
        return self._normalized(Work.NORM_GRADIENT, x, (w, None, dx, g), eps, (block, group, apart), rooms)

    def sums_of_products(self, x: Any, g: Any, centers: Any, block: int, room: Any, sums: Any) -> bool:
        """Write sums over rows of the products of centered elements and others, or of their squares."""
        ones = np.ones(x.shape[1], x.dtype)
        arrays = [x, None, None, None, g], [ones, None, room, centers, None, sums]
        return self._over_rows(Work.SUMS_OF_PRODUCTS, *arrays, block)

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
        loop, given = loop_of_products(x.dtype), [a for a in (*first, *rest) if a is not None]
        if loop is None or not x.size or x.dtype.char != "f":
            return False
        if not all(a.dtype == x.dtype and a.flags.c_contiguous and a.flags.aligned for a in given):
            return False
        (rows, width), size = x.shape, x.itemsize
        rest = [*rest, *[None] * (8 - len(rest))]
        strides = [0, 0, 0, width * size, *[size] * 5]
        fields = np.array(
            [
                *(*map(place_of, first), rows, width, min(block, rows), *map(place_of, rest), *groups),
                *(loop.address, loop.data, 0, 0, 0, 1, 0, width, 1, *strides),
            ],
            np.int64,
        )
        self._pass(place_of(fields), size, work)
        return True
