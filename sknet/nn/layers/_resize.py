"""Layers that resize images or rearrange channels: interpolation, and channels to space."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from sknet._constraints import WHOLE, shown
from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import interpolate, permute_dims, reshape

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample"]

FACTOR = [Interval(Integral, 1, None, closed="left")]


class Upsample(Module):
    """Resize signals, images or volumes by interpolation.

    Parameters
    ----------
    size : int or tuple of int, default=None
        The new size.
    scale_factor : float or tuple of float, default=None
        How many times as large; give either this or `size`.
    mode : {"nearest", "linear", "bilinear", "trilinear", "bicubic"}, default="nearest"
        How, see `sknet.ops.interpolate`.
    align_corners : bool, default=False
        Whether the centers of corner pixels stay in the corners; not for "nearest".

    Raises
    ------
    ValueError
        If not exactly one of `size` and `scale_factor` is given.

    Notes
    -----
    The input is of shape (n, channels, ...), with one to three more axes; "linear" is for one, "bilinear"
    and "bicubic" for two, "trilinear" for three.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Upsample(scale_factor=2, mode="bilinear")(np.ones((5, 3, 8, 8), np.float32)).shape
    (5, 3, 16, 16)
    """

    _parameter_constraints = {
        "size": [*FACTOR, tuple, list, None],
        "scale_factor": [Interval(Real, 0, None, closed="neither"), tuple, list, None],
        "mode": [StrOptions({"nearest", "linear", "bilinear", "trilinear", "bicubic"})],
        "align_corners": ["boolean"],
    }

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool = False,
    ) -> None:
        check_arguments(self, size=size, scale_factor=scale_factor, mode=mode, align_corners=align_corners)
        if (size is None) == (scale_factor is None):
            raise ValueError("Upsample: exactly one of size and scale_factor must be given")
        self.size = size
        for name, given in (("size", size), ("scale_factor", scale_factor)):
            for each in given if isinstance(given, (tuple, list)) else ():
                if not (isinstance(each, (int, float)) and 0 < each < WHOLE):
                    raise ValueError(
                        f"The {name!r} parameter of Upsample must hold positive numbers. Got {shown(given)} "
                        "instead."
                    )
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners

    def forward(self, x: Any) -> Tensor:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)


class PixelShuffle(Module):
    """Rearrange channels into space: more pixels, and fewer channels.

    Parameters
    ----------
    upscale_factor : int
        How many times as high and wide.

    Notes
    -----
    From shape (..., channels * r * r, height, width) to (..., channels, height * r, width * r) (W. Shi et
    al., CVPR 2016).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.PixelShuffle(2)(np.arange(4.0).reshape(1, 4, 1, 1)).numpy()
    array([[[[0., 1.],
             [2., 3.]]]])
    """

    _parameter_constraints = {"upscale_factor": FACTOR}

    def __init__(self, upscale_factor: int) -> None:
        check_arguments(self, upscale_factor=upscale_factor)
        self.upscale_factor = int(upscale_factor)

    def forward(self, x: Any) -> Tensor:
        x, r = as_tensor(x), self.upscale_factor
        if x.ndim < 3 or x.shape[-3] % (r * r):
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., {r * r} * channels, height, width), "
                f"got {x.shape}"
            )
        *rest, channels, height, width = x.shape
        parts = reshape(x, (*rest, channels // (r * r), r, r, height, width))
        return reshape(_turned(parts, (0, 3, 1, 4, 2)), (*rest, channels // (r * r), height * r, width * r))


class PixelUnshuffle(Module):
    """Rearrange space into channels: fewer pixels, and more channels; the inverse of `PixelShuffle`.

    Parameters
    ----------
    downscale_factor : int
        The factor by which height and width are divided.

    Notes
    -----
    From shape (..., channels, height * r, width * r) to (..., channels * r * r, height, width).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.PixelUnshuffle(2)(np.ones((1, 3, 8, 6))).shape
    (1, 12, 4, 3)
    """

    _parameter_constraints = {"downscale_factor": FACTOR}

    def __init__(self, downscale_factor: int) -> None:
        check_arguments(self, downscale_factor=downscale_factor)
        self.downscale_factor = int(downscale_factor)

    def forward(self, x: Any) -> Tensor:
        x, r = as_tensor(x), self.downscale_factor
        if x.ndim < 3 or x.shape[-2] % r or x.shape[-1] % r:
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., channels, {r} * height, {r} * width), "
                f"got {x.shape}"
            )
        *rest, channels, height, width = x.shape
        parts = reshape(x, (*rest, channels, height // r, r, width // r, r))
        return reshape(_turned(parts, (0, 2, 4, 1, 3)), (*rest, channels * r * r, height // r, width // r))


class ChannelShuffle(Module):
    """Mix the channels of several groups: each group of the output has some of every group of the input.

    Parameters
    ----------
    groups : int
        How many groups, which divide the channels.

    Notes
    -----
    The input is of shape (n, channels, ...) (X. Zhang et al., "ShuffleNet", CVPR 2018).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.ChannelShuffle(2)(np.arange(4.0).reshape(1, 4, 1)).numpy().ravel()
    array([0., 2., 1., 3.])
    """

    _parameter_constraints = {"groups": FACTOR}

    def __init__(self, groups: int) -> None:
        check_arguments(self, groups=groups)
        self.groups = int(groups)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim < 2 or x.shape[1] % self.groups:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.groups} * k, ...), got {x.shape}"
            )
        n, channels, *rest = x.shape
        parts = reshape(x, (n, self.groups, channels // self.groups, *rest))
        return reshape(permute_dims(parts, (0, 2, 1, *range(3, parts.ndim))), x.shape)


def _turned(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return x with its last axes in another order."""
    first = x.ndim - len(order)
    return permute_dims(x, (*range(first), *[first + axis for axis in order]))
