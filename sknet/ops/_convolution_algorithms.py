"""Algorithms of convolutions: columns and a product, products per channel, and Winograd's tiles."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sknet.device import Namespace
from sknet.ops._shares import Shares
from sknet.ops._windows import Pair, Windows, shaped

# -- columns ----------------------------------------------------------------------------------
#
# The elements of all windows become columns, with as many rows as a kernel has elements (K. Chellapilla et
# al., "High performance convolutional neural networks for document processing", 2006). Some samples are done
# at a time, so that the columns stay in the cache; if there are many, several threads take shares of them.

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

COLUMNS_CACHE = 1 << 22  # bytes of columns at a time
LARGE_IMAGE = 16  # an image is large if it has this many times more positions than a kernel has elements
# Whole rows, which are copied faster than windows, may cost up to this many times the work.
COLUMNS_WASTE = 1.25
COLUMNS_GRAIN = 1 << 24  # multiplications that are worth a share


class Columns(NamedTuple):
    """A convolution of images with kernels, some samples at a time."""

    windows: Windows
    groups: int
    n_samples: int
    channels: int
    filters: int
    together: bool
    whole_rows: bool
    shares: Shares

    @classmethod
    def of(
        cls,
        x: Shape,
        filters: int,
        groups: int,
        windows: Windows,
        itemsize: int,
        adjoint: bool = False,
        of_weight: bool = False,
    ) -> "Columns":
        """Choose how to compute it. For the gradient of kernels, every share has sums of its own."""
        rows, columns = windows.grid
        width = windows.padded[1]
        together = rows * columns < LARGE_IMAGE * x[1] * math.prod(windows.kernel)
        whole_rows = together and not adjoint and rows > 1 and windows.stride == (1, 1)
        whole_rows = whole_rows and width <= COLUMNS_WASTE * columns
        depth = x[1] * math.prod(windows.kernel) + filters * together
        n_bytes = depth * rows * (width if whole_rows else columns) * itemsize
        work = x[0] * filters * x[1] // groups * math.prod(windows.kernel) * rows * columns
        of_sums = of_weight * filters * x[1] // groups * math.prod(windows.kernel) * itemsize
        shares = Shares.of(x[0], n_bytes, COLUMNS_CACHE, work // COLUMNS_GRAIN, of_sums)
        return cls(windows, groups, x[0], x[1], filters, together, whole_rows, shares)

    @property
    def places(self) -> Pair:
        """Rows and columns of windows, the excess ones included."""
        rows, columns = self.windows.grid
        return rows, self.windows.padded[1] if self.whole_rows else columns

    @property
    def depth(self) -> int:
        return self.channels // self.groups * math.prod(self.windows.kernel)

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays: padded images, columns, and images of filters."""
        rows, width = self.windows.padded
        n_places = math.prod(self.places)
        sizes = (
            self.channels * (rows + 1) * width,  # one more row, into which the last whole rows reach
            self.groups * self.depth * n_places,
            self.filters * n_places * self.together,
        )
        return [((self.shares.n_rooms, self.shares.part * size), dtype) for size in sizes]

    def scratch_of_weight(self, dtype: Any) -> Arrays:
        """Shape and dtype of the workspace of `weight`."""
        return self.scratch(dtype)

    # -- the maps -----------------------------------------------------------------------------

    def convolved(self, xp: Namespace, x: Any, w: Any, out: Any, scratch: Any, bias: Any = None) -> None:
        """Write the convolution of images (N, C, H, W) with kernels (O, C / groups, h, w), plus a bias."""
        kernels = self._by_group(w)

        def convolve(share: int, rooms: Any) -> None:
            padded, columns, filters = rooms
            for samples in self.shares.parts(share):
                part = out[samples]
                self._multiply_into(xp, kernels, self._columns(x[samples], padded, columns), filters, part)
                if bias is not None:
                    xp.add(part, bias, out=part)

        self._share(xp, convolve, scratch)

    def image(self, xp: Namespace, g: Any, w: Any, out: Any, scratch: Any) -> None:
        """Write the gradient of the images, given that of the result."""
        kernels = self._by_group(w).transpose(0, 2, 1)
        rows, width = self.windows.padded

        def spread(share: int, rooms: Any) -> None:
            padded, columns, filters = rooms
            for samples in self.shares.parts(share):
                part = out[samples]
                n = len(part)
                xp.matmul(kernels, self._spread(g[samples], filters), out=self._matrix(columns, n))
                image = shaped(padded, (self.channels, n, rows, width))
                image[...] = 0
                elements = self._elements(columns, n)
                for i, j, index in self.windows.elements():
                    image[index] += elements[:, i, j]
                part[...] = image[self.windows.inside].transpose(1, 0, 2, 3)

        self._share(xp, spread, scratch)

    def weight(self, xp: Namespace, x: Any, g: Any, scratch: Any) -> Any:
        """Return the gradient of the kernels, given that of the result."""
        totals: list[Any] = [None] * self.shares.n_shares

        def add(share: int, rooms: Any) -> None:
            padded, columns, filters = rooms
            total = xp.zeros((self.groups, self.depth, self.filters // self.groups), dtype=x.dtype)
            for samples in self.shares.parts(share):
                matrix = self._columns(x[samples], padded, columns)
                images = self._spread(g[samples], filters)
                # Columns first: it is a sixth faster than the transposed product.
                part = xp.matmul(matrix, images.transpose(*range(images.ndim - 2), -1, -2))
                total += part if self.together else xp.sum(part, axis=0)
            totals[share] = total

        self._share(xp, add, scratch)
        found, *others = totals
        for total in others:
            found += total
        return found.transpose(0, 2, 1)

    def _share(self, xp: Namespace, work: Any, scratch: Any) -> None:
        """Do the work of all shares. A single one has little work or few samples: BLAS may have threads."""
        rooms = self.shares.rooms(scratch)
        if self.shares.n_shares == 1:
            work(0, rooms[0])
        else:
            xp.in_threads(work, self.shares.n_shares, rooms)

    # -- matrices -----------------------------------------------------------------------------

    def _by_group(self, w: Any) -> Any:
        return w.reshape(self.groups, w.shape[0] // self.groups, math.prod(w.shape[1:]))

    def _matrix(self, columns: Any, n: int) -> Any:
        """Return memory for columns as matrices to multiply, by group (and sample, if not together)."""
        shape = (self.groups, self.depth)
        n_places = math.prod(self.places)
        return shaped(columns, (*shape, n * n_places) if self.together else (n, *shape, n_places))

    def _elements(self, columns: Any, n: int) -> Any:
        """Return the same memory as (channels, rows and columns of a kernel, samples, places)."""
        shape = (self.channels, *self.windows.kernel)
        if self.together:
            return shaped(columns, (*shape, n, *self.places))
        return shaped(columns, (n, *shape, *self.places)).transpose(1, 2, 3, 0, 4, 5)

    def _columns(self, x: Any, padded: Any, columns: Any) -> Any:
        """Fill in the columns of some samples, and return their matrix."""
        n, windows = x.shape[0], self.windows
        rows, width = windows.padded
        image = shaped(padded, (self.channels, n, rows + 1, width))
        image[...] = 0
        image[windows.inside] = x.transpose(1, 0, 2, 3)
        found = self._elements(columns, n)
        if self.whole_rows:
            flat, length = image.reshape(self.channels, n, (rows + 1) * width), math.prod(self.places)
            filled = found.reshape(self.channels, *windows.kernel, n, length)
            for i, j, _ in windows.elements():
                start = i * windows.dilation[0] * width + j * windows.dilation[1]
                filled[:, i, j] = flat[:, :, start : start + length]
        else:
            image = image[:, :, :rows]
            for i, j, index in windows.elements():
                found[:, i, j] = image[index]
        return self._matrix(columns, n)

    def _spread(self, g: Any, filters: Any) -> Any:
        """Return images of filters as matrices that fit those of the columns."""
        n, columns = g.shape[0], self.windows.grid[1]
        if not self.together:
            return g.reshape(n, self.groups, self.filters // self.groups, math.prod(self.places))
        found = shaped(filters, (self.filters, n, *self.places))
        if self.whole_rows:
            found[..., columns:] = 0
        found[..., :columns] = g.transpose(1, 0, 2, 3)
        return found.reshape(self.groups, self.filters // self.groups, n * math.prod(self.places))

    def _multiply_into(self, xp: Namespace, kernels: Any, columns: Any, filters: Any, out: Any) -> None:
        """Write the product of kernels and columns to images of filters, the opposite of `spread`."""
        n = out.shape[0]
        shape = (self.groups, self.filters // self.groups)
        if not self.together:
            xp.matmul(kernels, columns, out=out.reshape(n, *shape, math.prod(self.places)))
            return
        product = shaped(filters, (*shape, columns.shape[-1]))
        xp.matmul(kernels, columns, out=product)
        found = product.reshape(self.filters, n, *self.places)[..., : self.windows.grid[1]]
        out[...] = found.transpose(1, 0, 2, 3)


# -- products per channel ---------------------------------------------------------------------
#
# Columns of windows would be multiplied with a single row, so making them takes longer than the products.
# Every element of a result is a sum in a fixed order, whose products and sums are rounded one by one, so
# native code, which goes over each image once, leaves the same bits.

DEPTHWISE_CACHE = 1 << 20  # bytes of temporary arrays at a time
DTYPES = "fd"  # in others sums would lose digits that a product keeps


class Depthwise(NamedTuple):
    """A convolution of images, some samples and channels at a time."""

    windows: Windows
    n_samples: int
    channels: int
    samples: int
    together: int

    @classmethod
    def of(cls, x: Shape, windows: Windows, itemsize: int) -> "Depthwise":
        """Choose how many images are computed at a time."""
        n_samples, channels = x[:2]
        each = (math.prod(windows.padded) + 2 * math.prod(_depthwise_places(windows))) * itemsize
        together = max(1, min(DEPTHWISE_CACHE // max(each, 1), channels))
        samples = max(1, min(DEPTHWISE_CACHE // max(each * channels, 1), n_samples))
        return cls(windows, n_samples, channels, samples, together)

    @staticmethod
    def fits(channels: int, filters: int, groups: int, dtype: Any) -> bool:
        return channels == filters == groups > 1 and dtype.char in DTYPES

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays of `convolved`: padded images, sums and products."""
        n_places = math.prod(_depthwise_places(self.windows))
        sizes = self._padded_size, n_places, n_places
        return [((self.samples * self.together * size,), dtype) for size in sizes]

    def scratch_of_weight(self, dtype: Any) -> Arrays:
        """Shape and dtype of those of `weight`: padded images, images of the gradient, products and sums."""
        n_places, images = math.prod(_depthwise_places(self.windows)), max(self.together, 8)
        sizes = [images * size for size in (self._padded_size, n_places, n_places)]
        sums = self.channels * math.prod(self.windows.kernel) * n_places
        return [((size,), dtype) for size in (*sizes, sums)]

    @property
    def width(self) -> int:
        """Columns that are computed of an image, the excess ones included."""
        return _depthwise_places(self.windows)[1]

    @property
    def _padded_size(self) -> int:
        rows, width = self.windows.padded
        return (rows + 1) * width  # one more row, into which the last whole rows reach

    # -- the maps -----------------------------------------------------------------------------

    def convolved(self, xp: Namespace, x: Any, w: Any, out: Any, scratch: Any, bias: Any = None) -> None:
        """Write the convolution of images (N, C, H, W) with kernels (C, 1, h, w), plus a bias (C, 1, 1)."""
        native = xp.native_passes()
        if native is not None and native.convolved(self, x, w, bias, out, scratch):
            return
        columns = self.windows.grid[1]
        for samples, channels in self._parts():
            padded, total, product = scratch
            views = self._views(x[samples, channels], padded)
            shape = (*x[samples, channels].shape[:2], math.prod(_depthwise_places(self.windows)))
            total, product = shaped(total, shape), shaped(product, shape)
            for number, (i, j, view) in enumerate(views):
                factor = w[channels, 0, i, j].reshape(-1, 1)
                xp.multiply(view, factor, out=product if number else total)
                if number:
                    xp.add(total, product, out=total)
            found = total.reshape(*shape[:2], *_depthwise_places(self.windows))[..., :columns]
            if bias is None:
                out[samples, channels] = found
            else:
                xp.add(found, bias[channels], out=out[samples, channels])

    def weight(self, xp: Namespace, x: Any, g: Any, scratch: Any) -> Any:
        """Return the gradient of the kernels, of shape (C, h, w), given that of the result."""
        native = xp.native_passes()
        kernel, n_places = self.windows.kernel, math.prod(_depthwise_places(self.windows))
        sums = scratch[3].reshape(self.channels, *kernel, n_places)
        if not self.n_samples:
            sums[...] = 0
        elif native is None or not native.weight(self, x, g, sums, scratch):
            for start in range(0, self.channels, self.together):
                channels = slice(start, min(start + self.together, self.channels))
                self._add_up(xp, x[:, channels], g[:, channels], sums[channels], scratch)
        return xp.sum(sums, axis=-1)

    def _add_up(self, xp: Namespace, x: Any, g: Any, sums: Any, scratch: Any) -> None:
        """Write the sum over samples of images times gradients, for every element of a kernel and place."""
        padded, images, product, _ = scratch
        shape = (1, x.shape[1], math.prod(_depthwise_places(self.windows)))
        product = shaped(product, shape)[0]
        spread = shaped(images, (x.shape[1], *_depthwise_places(self.windows)))
        columns = self.windows.grid[1]
        spread[..., columns:] = 0
        for sample in range(len(x)):
            spread[..., :columns] = g[sample]
            flat = spread.reshape(shape[1:])
            for i, j, view in self._views(x[sample : sample + 1], padded):
                total = sums[:, i, j]
                xp.multiply(view[0], flat, out=product if sample else total)
                if sample:
                    xp.add(total, product, out=total)

    # -- images -------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        for sample in range(0, self.n_samples, self.samples):
            for channel in range(0, self.channels, self.together):
                yield slice(sample, sample + self.samples), slice(channel, channel + self.together)

    def _views(self, x: Any, padded: Any) -> Iterator[tuple[int, int, Any]]:
        """Yield row and column of each element of a kernel, and its factors, of shape (n, c, places)."""
        windows, lead = self.windows, x.shape[:2]
        rows, width = windows.padded
        image = shaped(padded, (*lead, rows + 1, width))
        image[...] = 0
        image[:, :, :rows][windows.inside] = x
        flat, length = image.reshape(*lead, -1), math.prod(_depthwise_places(windows))
        for i, j, index in windows.elements():
            if windows.stride == (1, 1):
                start = i * windows.dilation[0] * width + j * windows.dilation[1]
                yield i, j, flat[..., start : start + length]
            else:
                yield i, j, image[:, :, :rows][index].reshape(*lead, length)


def _depthwise_places(windows: Windows) -> Pair:
    """Rows and columns of windows, with the excess ones for a stride of 1."""
    rows, columns = windows.grid
    return (rows, windows.padded[1]) if windows.stride == (1, 1) else (rows, columns)


# -- Winograd ---------------------------------------------------------------------------------
#
# A tile of four by four elements of the image gives two by two elements of the result. Both tile and kernel
# are taken to sixteen numbers, which are multiplied one by one, and products are summed over channels by a
# matrix product for each of the sixteen: F(2 x 2, 3 x 3) of A. Lavin and S. Gray, "Fast algorithms for
# convolutional neural networks", 2016. Native code does it: by NumPy, all the sums take longer than fewer
# products save.
#
# Tiles are read from four planes, which have every other row and column of the padded image: there, each of
# the sixteen elements of the tiles in a row is one contiguous piece of memory.
#
# Samples are divided into shares, each of which some thread computes with a single thread of BLAS. How they
# are divided depends on sizes alone, so results do not depend on the number of threads.

WINOGRAD_CACHE = 1 << 21  # bytes of transformed tiles at a time
WINOGRAD_LEAST = 4  # channels and filters of a group; with fewer, products take too little of the time
WINOGRAD_GRAIN = 1 << 23  # multiplications that are worth a share
WINOGRAD_LITTLE = 1 << 22  # multiplications that take less time than it takes to begin
WINOGRAD_FEWEST = 192  # tiles, for which kernels are transformed
# Products may be at most so many times as long, those of tiles that overlap the edge included.
WINOGRAD_WORTH = 0.8
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
        n_bytes = POINTS * math.prod(_tile_grid(windows)) * (channels + filters) * itemsize
        of_sums = of_weight * POINTS * filters * channels // groups * itemsize
        shares = Shares.of(
            n_samples,
            n_bytes,
            WINOGRAD_CACHE,
            _winograd_work(x, filters, groups, windows) // WINOGRAD_GRAIN,
            of_sums,
        )
        return cls(windows, n_samples, channels, filters, groups, shares)

    @staticmethod
    def fits(x: Shape, filters: int, groups: int, windows: Windows, dtype: Any) -> bool:
        """Tell whether a convolution is faster this way."""
        if windows.kernel != (3, 3) or windows.stride != (1, 1) or windows.dilation != (1, 1):
            return False
        n_samples, channels = x[:2]
        if min(channels, filters) < WINOGRAD_LEAST * groups or dtype.char not in DTYPES:
            return False
        n_tiles, n_windows = math.prod(_tile_grid(windows)), math.prod(windows.grid)
        are_many = (
            n_samples * n_tiles >= WINOGRAD_FEWEST
            and _winograd_work(x, filters, groups, windows) >= WINOGRAD_LITTLE
        )
        return are_many and POINTS * n_tiles <= WINOGRAD_WORTH * 9 * n_windows

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
        if native is not None:
            kernels = _transformed_kernels(xp, w).reshape(self._transformed)
            if native.convolved_by_tiles(self, x, kernels, out, bias, scratch):
                return
        columns, rooms = self._by_columns(xp, x)
        columns.convolved(xp, x, w, out, rooms, bias)

    def weight(self, xp: Namespace, x: Any, g: Any, scratch: Any) -> Any:
        """Return the gradient of the kernels, given that of the result."""
        native = xp.native_passes()
        *rooms, sums = scratch
        if native is None or not native.weight_by_tiles(self, x, g, sums, rooms):
            columns, rooms = self._by_columns(xp, x)
            return columns.weight(xp, x, g, rooms)
        total, *others = sums
        for each in others:
            total += each
        return _untransformed_kernels(xp, total.reshape(4, 4, self.filters, self._transformed[-1]))

    def _by_columns(self, xp: Namespace, x: Any) -> tuple[Columns, list[Any]]:
        found = Columns.of(x.shape, self.filters, self.groups, self.windows, x.dtype.itemsize)
        return found, [xp.empty(shape, dtype=dtype) for shape, dtype in found.scratch(x.dtype)]

    @property
    def part(self) -> int:
        return self.shares.part

    @property
    def grid(self) -> Pair:
        return _tile_grid(self.windows)

    @property
    def plane(self) -> Pair:
        rows, columns = self.grid
        return rows + 1, columns + 1

    @property
    def beyond(self) -> int:
        """Number of elements that vectors of native code read beyond a plane at most."""
        return self.plane[1] + 16

    @property
    def apart(self) -> int:
        """Elements between matrices, into which vectors may reach."""
        return 16

    @property
    def corner(self) -> Pair:
        """Rows above and columns left of an image that padding adds."""
        (top, _), (left, _) = self.windows.padding
        return top, left

    @property
    def _transformed(self) -> Shape:
        return POINTS, self.groups, self.filters // self.groups, self.channels // self.groups


@lru_cache(maxsize=256)
def _tile_grid(windows: Windows) -> Pair:
    """Rows and columns of tiles, of which the last may overlap the edge."""
    rows, columns = windows.grid
    return (rows + 1) // 2, (columns + 1) // 2


def _winograd_work(x: Shape, filters: int, groups: int, windows: Windows) -> int:
    return POINTS * x[0] * math.prod(_tile_grid(windows)) * filters * x[1] // groups


def _transformed_kernels(xp: Namespace, w: Any) -> Any:
    """Return transformed kernels, of shape (4, 4, O, C)."""
    contiguous = xp.empty((3, 3, *w.shape[:2]), dtype=w.dtype)  # of which sums take half the time
    contiguous[...] = w.transpose(3, 2, 0, 1)
    return _spread_kernels(xp, _spread_kernels(xp, contiguous).transpose(1, 0, 2, 3))


def _spread_kernels(xp: Namespace, w: Any) -> Any:
    """Return four sums for each three elements along the first axis."""
    outer, middle = (w[0] + w[2]) * 0.5, w[1] * 0.5
    found = xp.empty((4, *w.shape[1:]), dtype=w.dtype)
    found[0], found[3] = w[0], w[2]
    xp.add(outer, middle, out=found[1])
    xp.subtract(outer, middle, out=found[2])
    return found


def _untransformed_kernels(xp: Namespace, u: Any) -> Any:
    """Return the kernels (O, C, 3, 3), the adjoint of `_transformed_kernels`."""
    return _gathered_kernels(xp, _gathered_kernels(xp, u).transpose(1, 0, 2, 3)).transpose(2, 3, 1, 0)


def _gathered_kernels(xp: Namespace, u: Any) -> Any:
    """Return three sums for each four elements along the first axis, the adjoint of `_spread`."""
    outer = (u[1] + u[2]) * 0.5
    found = xp.empty((3, *u.shape[1:]), dtype=u.dtype)
    xp.add(u[0], outer, out=found[0])
    xp.multiply(u[1] - u[2], 0.5, out=found[1])
    xp.add(outer, u[3], out=found[2])
    return found
