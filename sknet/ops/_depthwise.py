"""Convolutions in which every channel has one kernel of its own, by a product for each element of the kernel.

Columns of windows would be multiplied with a single row, so making them takes longer than the products. Every
element of a result is a sum in a fixed order, whose products and sums are rounded one by one, so native code,
which goes over each image once, leaves the same bits.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from sknet.device import Namespace
from sknet.ops._windows import Pair, Windows, shaped

__all__ = ["Depthwise"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, Any]]

CACHE = 1 << 20  # bytes of temporary arrays at a time
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
        each = (math.prod(windows.padded) + 2 * math.prod(_places(windows))) * itemsize
        together = max(1, min(CACHE // max(each, 1), channels))
        samples = max(1, min(CACHE // max(each * channels, 1), n_samples))
        return cls(windows, n_samples, channels, samples, together)

    @staticmethod
    def fits(channels: int, filters: int, groups: int, dtype: Any) -> bool:
        """Tell whether a convolution is one of these."""
        return channels == filters == groups > 1 and dtype.char in DTYPES

    def scratch(self, dtype: Any) -> Arrays:
        """Shape and dtype of the temporary arrays of `convolved`: padded images, sums and products."""
        n_places = math.prod(_places(self.windows))
        sizes = self._padded_size, n_places, n_places
        return [((self.samples * self.together * size,), dtype) for size in sizes]

    def scratch_of_weight(self, dtype: Any) -> Arrays:
        """Shape and dtype of those of `weight`: padded images, images of the gradient, products and sums."""
        n_places, images = math.prod(_places(self.windows)), max(self.together, 8)
        sizes = [images * size for size in (self._padded_size, n_places, n_places)]
        sums = self.channels * math.prod(self.windows.kernel) * n_places
        return [((size,), dtype) for size in (*sizes, sums)]

    @property
    def width(self) -> int:
        """Columns that are computed of an image, the excess ones included."""
        return _places(self.windows)[1]

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
            shape = (*x[samples, channels].shape[:2], math.prod(_places(self.windows)))
            total, product = shaped(total, shape), shaped(product, shape)
            for number, (i, j, view) in enumerate(views):
                factor = w[channels, 0, i, j].reshape(-1, 1)
                xp.multiply(view, factor, out=product if number else total)
                if number:
                    xp.add(total, product, out=total)
            found = total.reshape(*shape[:2], *_places(self.windows))[..., :columns]
            if bias is None:
                out[samples, channels] = found
            else:
                xp.add(found, bias[channels], out=out[samples, channels])

    def weight(self, xp: Namespace, x: Any, g: Any, scratch: Any) -> Any:
        """Return the gradient of the kernels, of shape (C, h, w), given that of the result."""
        native = xp.native_passes()
        kernel, n_places = self.windows.kernel, math.prod(_places(self.windows))
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
        shape = (1, x.shape[1], math.prod(_places(self.windows)))
        product = shaped(product, shape)[0]
        spread = shaped(images, (x.shape[1], *_places(self.windows)))
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
        flat, length = image.reshape(*lead, -1), math.prod(_places(windows))
        for i, j, index in windows.elements():
            if windows.stride == (1, 1):
                start = i * windows.dilation[0] * width + j * windows.dilation[1]
                yield i, j, flat[..., start : start + length]
            else:
                yield i, j, image[:, :, :rows][index].reshape(*lead, length)


def _places(windows: Windows) -> Pair:
    """Rows and columns of windows, with the excess ones for a stride of 1."""
    rows, columns = windows.grid
    return (rows, windows.padded[1]) if windows.stride == (1, 1) else (rows, columns)
