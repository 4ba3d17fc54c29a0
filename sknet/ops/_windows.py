"""Windows of a kernel on an image, which convolutions and pools share.

All computations are on images with two spatial axes; a signal is an image of one row.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sknet._constraints import is_integer, is_whole, shown
from sknet.core import Tensor
from sknet.core import _primitive as kinds
from sknet.exceptions import ShapeError
from sknet.ops._shape import reshape

MOVES = {"stride": kinds.ONES, "padding": kinds.PAIRS, "dilation": kinds.ONES}
Pair = tuple[int, int]
Pairs = tuple[Pair, Pair]


class Windows(NamedTuple):
    """A grid of windows on a padded image of two axes."""

    size: Pair
    kernel: Pair
    stride: Pair
    padding: Pairs
    dilation: Pair

    @property
    def padded(self) -> Pair:
        (top, bottom), (left, right) = self.padding
        return self.size[0] + top + bottom, self.size[1] + left + right

    @property
    def grid(self) -> Pair:
        rows, columns = (
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(self.padded, self.kernel, self.stride, self.dilation, strict=True)
        )
        return rows, columns

    @property
    def inside(self) -> tuple[Any, ...]:
        """Index of the image in the padded one."""
        starts = [before for before, _ in self.padding]
        return (..., *[slice(a, a + n) for a, n in zip(starts, self.size, strict=True)])

    def along(self, axis: int) -> list[tuple[Any, ...]]:
        """Return, for each element of a window along one axis (-2 or -1), its index in all windows."""
        span = self.stride[axis] * (self.grid[axis] - 1) + 1
        starts = range(0, self.dilation[axis] * self.kernel[axis], self.dilation[axis])
        rest = (slice(None),) * (-axis - 1)
        return [(..., slice(a, a + span, self.stride[axis]), *rest) for a in starts]

    def elements(self) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Yield row and column of each element of a window, and its index in all windows."""
        rows, columns = self.along(-2), self.along(-1)
        for i, j in itertools.product(range(self.kernel[0]), range(self.kernel[1])):
            yield i, j, (..., rows[i][1], columns[j][1])

    @property
    def is_whole(self) -> bool:
        """True if nothing is padded or cut off."""
        return self.padded == self.size and self.padding[0][0] == self.padding[1][0] == 0

    @property
    def are_apart(self) -> bool:
        axes = zip(self.stride, self.kernel, self.dilation, strict=True)
        return all(s >= d * (k - 1) + 1 for s, k, d in axes)

    @property
    def tile(self) -> bool:
        """True if every element is in exactly one window."""
        axes = zip(self.kernel, self.grid, self.padded, strict=True)
        return self.stride == self.kernel and all(k * m == n for k, m, n in axes) and self.are_apart


def each_axis(name: str, what: str, value: Any, rank: int, least: int = 1, default: int = 1) -> Pair:
    """Return a number for both axes of an image: one of `value`, which is a number or one for each axis."""
    values = (value,) * rank if is_integer(value) else value
    fits = isinstance(values, Sequence) and len(values) == rank and not isinstance(values, str)
    if not fits or not all(is_whole(n, least) for n in values):
        expected = f"an int >= {least}" + (f" or {rank} of them" if rank > 1 else "")
        raise ValueError(f"{name}: {what} must be {expected}, got {shown(value)}")
    first, second = (default,) * (2 - rank) + tuple(values)
    return int(first), int(second)


def padding_pairs(name: str, padding: Any, rank: int, kernel: Pair, stride: Pair, dilation: Pair) -> Pairs:
    """Return what is added before and after each axis: by number, "valid" (nothing) or "same"."""
    if padding == "valid":
        padding = 0
    if padding == "same":
        if stride != (1, 1):
            raise ValueError(f"{name}: padding='same' needs a stride of 1, got {stride[2 - rank :]}")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        rows, columns = ((total // 2, total - total // 2) for total in totals)
        return rows, columns
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding must be an int >= 0, 'same' or 'valid', got {shown(padding)}")
    row, column = each_axis(name, "padding", padding, rank, least=0, default=0)
    return (row, row), (column, column)


def windows_on(name: str, windows: Windows, rank: int) -> Windows:
    if min(windows.grid) < 1:
        extents = [d * (k - 1) + 1 for d, k in zip(windows.dilation, windows.kernel, strict=True)]
        lengths = [tuple(n[2 - rank :]) for n in (extents, windows.padded)]
        raise ShapeError(f"{name}: a window of {lengths[0]} does not fit on a padded input of {lengths[1]}")
    return windows


def as_image(name: str, x: Tensor, rank: int) -> Tensor:
    """Return x of shape (..., C, L) or (..., C, H, W) as (N, C, H, W)."""
    if x.ndim <= rank:
        axes = "(..., channels, length)" if rank == 1 else "(..., channels, height, width)"
        raise ShapeError(f"{name}: expected an input of shape {axes}, got {x.shape}")
    lead, (channels, *size) = x.shape[: -rank - 1], x.shape[-rank - 1 :]
    shape = (math.prod(lead), channels, *(1,) * (2 - rank), *size)
    return x if x.shape == shape else reshape(x, shape)


def spatial(x: Tensor) -> Pair:
    height, width = x.shape[2:]
    return height, width


def from_image(image: Tensor, like: Tensor, rank: int) -> Tensor:
    """Return (N, C, H, W) in the form of `like`, from which it was made."""
    shape = (*like.shape[: -rank - 1], image.shape[1], *image.shape[4 - rank :])
    return image if image.shape == shape else reshape(image, shape)


def shaped(flat: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of a shape in the first elements of temporary memory."""
    return flat[: math.prod(shape)].reshape(shape)
