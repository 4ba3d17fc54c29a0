"""Convolutions with kernels of three by three, by four ninths of the products of columns and kernels.

A tile of four by four elements of the image gives two by two elements of the result. Both tile and kernel are
taken to sixteen numbers, which are multiplied one by one, and products are summed over channels by a matrix
product for each of the sixteen: F(2 x 2, 3 x 3) of A. Lavin and S. Gray, "Fast algorithms for convolutional
neural networks", 2016. All maps but the products are sums of a few numbers in a fixed order, so native code,
which goes over each image once, leaves the same bits.

Tiles are read from four planes, which have every other row and column of the padded image: there, each of the
sixteen elements of the tiles in a row is one contiguous piece of memory.

Samples are divided into shares, each of which some thread computes with a single thread of BLAS. How they are
divided depends on sizes alone, so results do not depend on the number of threads.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sknet.device import Namespace
from sknet.ops._shares import Shares
from sknet.ops._windows import Pair, Windows, shaped

__all__ = ["Winograd"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

CACHE = 1 << 21  # bytes of transformed tiles at a time
LEAST = 4  # channels and filters of a group; with fewer, products take too little of the time
GRAIN = 1 << 23  # multiplications that are worth a share
LITTLE = 1 << 22  # multiplications that take less time than it takes to begin
FEWEST = 192  # tiles, for which kernels are transformed
WORTH = 0.8  # products may be at most so many times as long, those of tiles that overlap the edge included
DTYPES = "fd"  # others have too few digits for the sums
POINTS = 16


class Winograd(NamedTuple):
    """A convolution of images with kernels of three by three, by shares of the samples."""

    windows: Windows
    n_samples: int
    channels: int
    filters: int
    groups: int
    shares: Shares

    @classmethod
    def of(
        cls, x: Shape, filters: int, groups: int, windows: Windows, itemsize: int, of_weight: bool = False
    ) -> "Winograd":
        """Choose how to divide the samples. For the gradient of kernels, every share has sums of its own."""
        n_samples, channels = x[:2]
        n_bytes = POINTS * math.prod(_grid(windows)) * (channels + filters) * itemsize
        of_sums = of_weight * POINTS * filters * channels // groups * itemsize
        shares = Shares.of(n_samples, n_bytes, CACHE, _work(x, filters, groups, windows) // GRAIN, of_sums)
        return cls(windows, n_samples, channels, filters, groups, shares)

    @staticmethod
    def fits(x: Shape, filters: int, groups: int, windows: Windows, dtype: Any) -> bool:
        """Tell whether a convolution is faster this way."""
        if windows.kernel != (3, 3) or windows.stride != (1, 1) or windows.dilation != (1, 1):
            return False
        n_samples, channels = x[:2]
        if min(channels, filters) < LEAST * groups or dtype.char not in DTYPES:
            return False
        n_tiles, n_windows = math.prod(_grid(windows)), math.prod(windows.grid)
        are_many = n_samples * n_tiles >= FEWEST and _work(x, filters, groups, windows) >= LITTLE
        return are_many and POINTS * n_tiles <= WORTH * 9 * n_windows

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays: planes, sums, and tiles of images and of the result."""
        places, plane = self.shares.part * math.prod(self.grid), self.shares.part * math.prod(self.plane)
        sizes = (
            4 * self.channels * (plane + self.beyond),
            2 * self.channels * (plane + 1),
            POINTS * (self.channels * places + self.apart),
            POINTS * (self.filters * places + self.apart),
        )
        return [((self.shares.n_rooms, size), dtype) for size in sizes]

    def scratch_of_weight(self, dtype: Any) -> Arrays:
        """Shape and dtype of those of `weight`, which also has products, and sums for each share."""
        more = (self.shares.n_rooms, *self._transformed), (self.shares.n_shares, *self._transformed)
        return [*self.scratch(dtype), *[(shape, dtype) for shape in more]]

    # -- the maps -----------------------------------------------------------------------------

    def convolved(self, xp: Namespace, x: Any, w: Any, out: Any, scratch: Any, bias: Any = None) -> None:
        """Write the convolution of images (N, C, H, W) with kernels (O, C / groups, 3, 3), plus a bias."""
        native = xp.native_passes()
        kernels = _of_kernels(xp, w).reshape(self._transformed)
        if native is not None and native.convolved_by_tiles(self, x, kernels, out, bias, scratch):
            return

        def convolve(share: int, rooms: Any) -> None:
            samples = self.shares.samples(share)
            self._convolve(xp, x[samples], kernels, out[samples], bias, rooms)

        xp.in_threads(convolve, self.shares.n_shares, self.shares.rooms(scratch))

    def weight(self, xp: Namespace, x: Any, g: Any, scratch: Any) -> Any:
        """Return the gradient of the kernels, given that of the result."""
        native = xp.native_passes()
        *rooms, sums = scratch

        def add(share: int, rooms: Any) -> None:
            samples = self.shares.samples(share)
            self._add(xp, x[samples], g[samples], sums[share], rooms)

        if native is None or not native.weight_by_tiles(self, x, g, sums, rooms):
            xp.in_threads(add, self.shares.n_shares, self.shares.rooms(rooms))
        total, *others = sums
        for each in others:
            total += each
        return _to_kernels(xp, total.reshape(4, 4, self.filters, self._transformed[-1]))

    @property
    def part(self) -> int:
        """Samples at a time."""
        return self.shares.part

    @property
    def grid(self) -> Pair:
        """Rows and columns of tiles."""
        return _grid(self.windows)

    @property
    def plane(self) -> Pair:
        """Rows and columns of a plane."""
        rows, columns = self.grid
        return rows + 1, columns + 1

    @property
    def beyond(self) -> int:
        """How many elements are read beyond a plane at most, by vectors of native code."""
        return self.plane[1] + 16

    @property
    def apart(self) -> int:
        """Elements between matrices, into which vectors may reach."""
        return 16

    @property
    def corner(self) -> Pair:
        """What is added above and left of an image."""
        (top, _), (left, _) = self.windows.padding
        return top, left

    @property
    def _transformed(self) -> Shape:
        """Of transformed kernels, by group."""
        return POINTS, self.groups, self.filters // self.groups, self.channels // self.groups

    # -- a share, by NumPy --------------------------------------------------------------------

    def _convolve(self, xp: Namespace, x: Any, kernels: Any, out: Any, bias: Any, rooms: Any) -> None:
        for start in range(0, len(x), self.part):
            samples = slice(start, start + self.part)
            tiles, part = self._tiles(xp, x[samples], rooms), out[samples]
            products = self._matrices(rooms[3], self.filters, tiles.shape[-1])
            xp.matmul(kernels, tiles, out=products)
            images = products.reshape(4, 4, self.filters, len(part), *self.grid)
            _write_images(xp, images, part.transpose(1, 0, 2, 3))
            if bias is not None:
                xp.add(part, bias, out=part)

    def _add(self, xp: Namespace, x: Any, g: Any, total: Any, rooms: Any) -> None:
        product = rooms[4]
        for start in range(0, len(x), self.part):
            samples = slice(start, start + self.part)
            tiles = self._tiles(xp, x[samples], rooms)
            slopes = self._slopes(xp, g[samples], rooms)
            xp.matmul(slopes, tiles.transpose(0, 1, 3, 2), out=product if start else total)
            if start:
                total += product

    def _matrices(self, room: Any, channels: int, places: int) -> Any:
        """Return memory for tiles as matrices, by group."""
        apart = room[: POINTS * (channels * places + self.apart)].reshape(POINTS, -1)
        return apart[:, : -self.apart].reshape(POINTS, self.groups, channels // self.groups, places)

    def _tiles(self, xp: Namespace, x: Any, rooms: Any) -> Any:
        """Return the transformed tiles of images, by group."""
        (height, width), (rows, columns), channels = self.plane, self.grid, self.channels
        length = len(x) * height * width
        planes = self._planes(x, rooms[0])
        sums = shaped(rooms[1], (2, channels, length + 1))
        found = self._matrices(rooms[2], channels, len(x) * rows * columns)
        tiles = found.reshape(4, 4, channels, len(x), rows, columns)
        above, below = planes[..., : length + 1], planes[..., width : width + length + 1]
        for i, (function, *pair) in enumerate(_differences(xp, *above, *below)):
            function(*pair, out=sums)
            before, after = (
                part.reshape(2, channels, len(x), height, width)[..., :rows, :columns]
                for part in (sums[..., :-1], sums[..., 1:])
            )
            for j, (other, *two) in enumerate(_differences(xp, *before, *after)):
                other(*two, out=tiles[i, j])
        return found

    def _planes(self, x: Any, room: Any) -> Any:
        """Return every other row and column of padded images, of shape (2, 2, channels, elements)."""
        n, channels = x.shape[:2]
        (top, left), places = self.corner, n * math.prod(self.plane)
        planes = shaped(room, (2, 2, channels, places + self.beyond))
        planes[...] = 0
        inside = planes[..., :places].reshape(2, 2, channels, n, *self.plane)
        images = x.transpose(1, 0, 2, 3)
        for i in range(2):
            for j in range(2):
                part = images[:, :, (i - top) % 2 :: 2, (j - left) % 2 :: 2]
                y, z = (top + 1 - i) // 2, (left + 1 - j) // 2
                inside[i, j, :, :, y : y + part.shape[2], z : z + part.shape[3]] = part
        return planes

    def _slopes(self, xp: Namespace, g: Any, rooms: Any) -> Any:
        """Return the transformed tiles of the gradient of the result, by group."""
        rows, columns = self.grid
        found = self._matrices(rooms[3], self.filters, len(g) * rows * columns)
        slopes = found.reshape(4, 4, self.filters, len(g), rows, columns)
        upper, lower = slopes[0, ::3], slopes[3, ::3]
        for i, part in enumerate((upper, lower)):
            for j in range(2):
                given = g[:, :, i::2, j::2].transpose(1, 0, 2, 3)
                height, width = given.shape[2:]
                part[j, :, :, :height, :width] = given
                part[j, :, :, height:] = part[j, :, :, :, width:] = 0  # of tiles that overlap the edge
        xp.add(upper, lower, out=slopes[1, ::3])
        xp.subtract(upper, lower, out=slopes[2, ::3])
        xp.negative(lower, out=lower)
        for first, second, third, fourth in slopes:
            xp.add(first, fourth, out=second)
            xp.subtract(first, fourth, out=third)
            xp.negative(fourth, out=fourth)
        return found


@lru_cache(maxsize=256)
def _grid(windows: Windows) -> Pair:
    """Rows and columns of tiles, of which the last may overlap the edge."""
    rows, columns = windows.grid
    return (rows + 1) // 2, (columns + 1) // 2


def _work(x: Shape, filters: int, groups: int, windows: Windows) -> int:
    """Return the number of multiplications."""
    return POINTS * x[0] * math.prod(_grid(windows)) * filters * x[1] // groups


def _differences(xp: Namespace, a: Any, b: Any, c: Any, d: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the functions and operands that transform four elements of a tile."""
    yield xp.subtract, a, c
    yield xp.add, b, c
    yield xp.subtract, c, b
    yield xp.subtract, b, d


def _write_images(xp: Namespace, m: Any, out: Any) -> None:
    """Write the images (filters, n, rows, columns) that tiles (4, 4, filters, n, ...) give; these change."""
    xp.add(m[0], m[1], out=m[0])
    xp.add(m[0], m[2], out=m[0])
    xp.subtract(m[1], m[2], out=m[1])
    xp.subtract(m[1], m[3], out=m[1])
    for i in range(2):
        first, second, third, fourth = m[i]
        xp.add(first, second, out=first)
        xp.subtract(second, third, out=second)
        even, odd = out[:, :, i::2, ::2], out[:, :, i::2, 1::2]
        rows, columns = even.shape[2:]
        xp.add(first[:, :, :rows, :columns], third[:, :, :rows, :columns], out=even)
        columns = odd.shape[3]
        xp.subtract(second[:, :, :rows, :columns], fourth[:, :, :rows, :columns], out=odd)


def _of_kernels(xp: Namespace, w: Any) -> Any:
    """Return transformed kernels, of shape (4, 4, O, C)."""
    contiguous = xp.empty((3, 3, *w.shape[:2]), dtype=w.dtype)  # of which sums take half the time
    contiguous[...] = w.transpose(3, 2, 0, 1)
    return _spread(xp, _spread(xp, contiguous).transpose(1, 0, 2, 3))


def _spread(xp: Namespace, w: Any) -> Any:
    """Return four sums for each three elements along the first axis."""
    outer, middle = (w[0] + w[2]) * 0.5, w[1] * 0.5
    found = xp.empty((4, *w.shape[1:]), dtype=w.dtype)
    found[0], found[3] = w[0], w[2]
    xp.add(outer, middle, out=found[1])
    xp.subtract(outer, middle, out=found[2])
    return found


def _to_kernels(xp: Namespace, u: Any) -> Any:
    """Return the kernels (O, C, 3, 3), the adjoint of `_of_kernels`."""
    return _gathered(xp, _gathered(xp, u).transpose(1, 0, 2, 3)).transpose(2, 3, 1, 0)


def _gathered(xp: Namespace, u: Any) -> Any:
    """Return three sums for each four elements along the first axis, the adjoint of `_spread`."""
    outer = (u[1] + u[2]) * 0.5
    found = xp.empty((3, *u.shape[1:]), dtype=u.dtype)
    xp.add(u[0], outer, out=found[0])
    xp.multiply(u[1] - u[2], 0.5, out=found[1])
    xp.add(outer, u[3], out=found[2])
    return found
