"""Convolutions by columns: a copy and a matrix product.

The elements of all windows become columns, with as many rows as a kernel has elements (K. Chellapilla et al.,
"High performance convolutional neural networks for document processing", 2006). Some samples are done at a
time, so that the columns stay in the cache; if there are many, several threads take shares of them.
"""

import math
from typing import Any, NamedTuple

from sknet.device import Namespace
from sknet.ops._shares import Shares
from sknet.ops._windows import Pair, Windows, shaped

__all__ = ["Columns"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

CACHE = 1 << 22  # bytes of columns at a time
LARGE = 16  # an image is large if it has this many times more positions than a kernel has elements
WASTE = 1.25  # whole rows, which are copied faster than windows, may cost up to this many times the work
GRAIN = 1 << 24  # multiplications that are worth a share


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
        together = rows * columns < LARGE * x[1] * math.prod(windows.kernel)
        whole_rows = together and not adjoint and rows > 1 and windows.stride == (1, 1)
        whole_rows = whole_rows and width <= WASTE * columns
        depth = x[1] * math.prod(windows.kernel) + filters * together
        n_bytes = depth * rows * (width if whole_rows else columns) * itemsize
        work = x[0] * filters * x[1] // groups * math.prod(windows.kernel) * rows * columns
        of_sums = of_weight * filters * x[1] // groups * math.prod(windows.kernel) * itemsize
        shares = Shares.of(x[0], n_bytes, CACHE, work // GRAIN, of_sums)
        return cls(windows, groups, x[0], x[1], filters, together, whole_rows, shares)

    @property
    def places(self) -> Pair:
        """Rows and columns of windows, the excess ones included."""
        rows, columns = self.windows.grid
        return rows, self.windows.padded[1] if self.whole_rows else columns

    @property
    def depth(self) -> int:
        """Elements of a kernel."""
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
        """Shape and dtype of those of `weight`."""
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
