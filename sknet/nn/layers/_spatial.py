"""Layers that change shapes: padding, pooling, resizing and flattening."""

import inspect
import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

from sknet import ops
from sknet._constraints import WHOLE, is_integer, is_whole, shown
from sknet._fields import ABSENT, Either
from sknet._params import Interval, StrOptions, described_by
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.ops import interpolate, pad, permute_dims, reshape

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AvgPool1d",
    "AvgPool2d", "ChannelShuffle", "ChannelsLast", "Flatten", "MaxPool1d", "MaxPool2d", "Pad1d", "Pad2d",
    "Pad3d", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Upsample",
]  # fmt: skip


Widths = int | tuple[int | tuple[int, int], ...]

EDGE = [Interval(Integral, 0, None, closed="left"), tuple, list]

AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


class _Pad(Module):
    """Base of the paddings: widths at both ends of the last axes, and the values there."""

    _parameter_constraints = {
        "padding": EDGE,
        "mode": [StrOptions({"constant", "reflect", "replicate", "circular"})],
        "value": [Interval(Real, None, None, closed="neither")],
    }

    rank: ClassVar[int]

    def __init__(self, padding: Widths, mode: str = "constant", value: float = 0.0) -> None:
        check_arguments(self, padding=padding, mode=mode, value=value)
        self.padding = padding
        self.mode = mode
        self.value = value
        self._widths()

    def _widths(self) -> list[tuple[int, int]]:
        """Return how many elements come before and after each axis."""
        given: Any = self.padding
        each = [given] * self.rank if is_integer(given) else list(given)
        pairs = [(width, width) if is_integer(width) else width for width in each]
        are_pairs = all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs)
        are_counts = are_pairs and all(is_whole(n, 0) for pair in pairs for n in pair)
        if len(pairs) != self.rank or not are_counts:
            name = type(self).__name__
            raise ValueError(
                f"The 'padding' parameter of {name} must be an int, or for each of {self.rank} axes an int "
                f"or a pair (before, after), and none negative. Got {shown(given)} instead."
            )
        return [(int(before), int(after)) for before, after in pairs]

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim <= self.rank:
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., channels, {AXES[self.rank]}), got {x.shape}"
            )
        return pad(x, self._widths(), self.mode, self.value)


class Pad1d(_Pad):
    """Add elements around signals.

    Parameters
    ----------
    padding : int or tuple of one pair
        A number for both ends, or a pair (before, after).
    mode : {"constant", "reflect", "replicate", "circular"}, default="constant"
        Elements to add: `value`; the elements mirrored at the outermost one; the outermost element; or the
        elements from the other end.
    value : float, default=0.0
        Value that "constant" adds.

    Notes
    -----
    The input is of shape (..., channels, length).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Pad1d(1, mode="circular")(np.ones((5, 3, 8), np.float32)).shape
    (5, 3, 10)
    """

    rank = 1


@described_by(Pad1d)
class Pad2d(_Pad):
    """Add elements around images.

    Parameters
    ----------
    padding : int or tuple of two
        A number for all ends, or for each of height and width a number or a pair (before, after).

    Notes
    -----
    The input is of shape (..., channels, height, width).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Pad2d(((1, 1), (0, 2)), mode="reflect")(np.ones((5, 3, 8, 8), np.float32)).shape
    (5, 3, 10, 10)
    """

    rank = 2


@described_by(Pad1d)
class Pad3d(_Pad):
    """Add elements around volumes.

    Parameters
    ----------
    padding : int or tuple of three
        A number for all ends, or for each of depth, height and width a number or a pair (before, after).

    Notes
    -----
    The input is of shape (..., channels, depth, height, width).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Pad3d((1, 2, 2), mode="replicate")(np.ones((5, 3, 4, 8, 8), np.float32)).shape
    (5, 3, 6, 12, 12)
    """

    rank = 3


Size = int | tuple[int, ...]

STEPS = [Interval(Integral, 1, None, closed="left"), tuple]


class _Pool(Module):
    """Base of the pooling layers: a function of `sknet.ops`, and arguments for it.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of a window.
    stride : int or tuple of int, default=None
        Distance between neighbouring windows; None is `kernel_size`.
    padding : int or tuple of int, default=0
        Padding at both ends, at most half a window; it is never the maximum.
    dilation : int or tuple of int, default=1
        Distance between the elements of a window.
    ceil_mode : bool, default=False
        Whether the last window may extend past the end, if it begins before it.
    count_include_pad : bool, default=True
        Whether the padding counts in the means.
    """

    function: Callable[..., Tensor]

    _parameter_constraints = {
        "kernel_size": STEPS,
        "stride": [*STEPS, None],
        "padding": [Interval(Integral, 0, None, closed="left"), tuple],
        "dilation": STEPS,
        "ceil_mode": ["boolean"],
        "count_include_pad": ["boolean"],
        "output_size": [*STEPS, None],
    }
    _stored_fields = {
        "_names": tuple[str, ...],
        **{name: Either(each, ABSENT) for name, each in _parameter_constraints.items()},
    }

    def _check_stored(self) -> None:
        names = tuple(inspect.signature(type(self)).parameters)
        if self._names != names or not set(names) <= vars(self).keys():
            raise ValueError(f"the arguments of {type(self).__name__} are {names}")

    def _keep(self, **arguments: Any) -> None:
        """Check and store the arguments of a constructor, which are its ``locals()``."""
        check_arguments(self, **arguments)
        vars(self).update(arguments, _names=tuple(arguments))

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x, **{name: vars(self)[name] for name in self._names})


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        _Pool._keep(**locals())


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        _Pool._keep(**locals())


class _AdaptivePool(_Pool):
    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        _Pool._keep(**locals())


@described_by(_Pool)
class MaxPool1d(_MaxPool):
    """Maximum of every window of signals, (n, channels, length).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.MaxPool1d(2)(np.ones((5, 3, 8))).shape
    (5, 3, 4)
    """

    function = staticmethod(ops.max_pool1d)


@described_by(_Pool)
class MaxPool2d(_MaxPool):
    """Maximum of every window of images, (n, channels, height, width).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.MaxPool2d(2)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 4, 3)
    """

    function = staticmethod(ops.max_pool2d)


@described_by(_Pool)
class AvgPool1d(_AvgPool):
    """Mean of every window of signals, (n, channels, length).

    Parameters
    ----------
    padding : int or tuple of int, default=0
        Zeros at both ends, at most half a window.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AvgPool1d(2)(np.ones((5, 3, 8))).shape
    (5, 3, 4)
    """

    function = staticmethod(ops.avg_pool1d)


@described_by(_Pool)
class AvgPool2d(_AvgPool):
    """Mean of every window of images, (n, channels, height, width).

    Parameters
    ----------
    padding : int or tuple of int, default=0
        Zeros at both ends, at most half a window.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AvgPool2d(2)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 4, 3)
    """

    function = staticmethod(ops.avg_pool2d)


class AdaptiveAvgPool1d(_AdaptivePool):
    """Mean of a given number of windows that together cover a signal.

    Parameters
    ----------
    output_size : int or None
        Number of windows; None for the length of the input.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AdaptiveAvgPool1d(1)(np.ones((5, 3, 8))).shape
    (5, 3, 1)
    """

    function = staticmethod(ops.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Mean of a given number of windows that together cover an image.

    Parameters
    ----------
    output_size : int, None or tuple of int or None
        Number of windows along each axis; None for its length.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AdaptiveAvgPool2d(1)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 1, 1)
    """

    function = staticmethod(ops.adaptive_avg_pool2d)


class AdaptiveMaxPool1d(_AdaptivePool):
    """Maximum of a given number of windows that together cover a signal.

    Parameters
    ----------
    output_size : int or None
        Number of windows; None for the length of the input.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AdaptiveMaxPool1d(1)(np.ones((5, 3, 8))).shape
    (5, 3, 1)
    """

    function = staticmethod(ops.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """Maximum of a given number of windows that together cover an image.

    Parameters
    ----------
    output_size : int, None or tuple of int or None
        Number of windows along each axis; None for its length.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AdaptiveMaxPool2d(1)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 1, 1)
    """

    function = staticmethod(ops.adaptive_max_pool2d)


FACTOR = [Interval(Integral, 1, None, closed="left")]


class Upsample(Module):
    """Resize signals, images or volumes by interpolation.

    Parameters
    ----------
    size : int or tuple of int, default=None
        The new size.
    scale_factor : float or tuple of float, default=None
        Factor of the size; give either this or `size`.
    mode : {"nearest", "linear", "bilinear", "trilinear", "bicubic"}, default="nearest"
        Interpolation, see `sknet.ops.interpolate`.
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
    """Rearrange channels to pixels, which increases height and width.

    Parameters
    ----------
    upscale_factor : int
        Factor by which height and width are multiplied.

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
        return reshape(_permuted(parts, (0, 3, 1, 4, 2)), (*rest, channels // (r * r), height * r, width * r))


class PixelUnshuffle(Module):
    """Rearrange pixels to channels, which reduces height and width; the inverse of `PixelShuffle`.

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
        return reshape(_permuted(parts, (0, 2, 4, 1, 3)), (*rest, channels * r * r, height // r, width // r))


class ChannelShuffle(Module):
    """Mix the channels of several groups: each group of the output has some of every group of the input.

    Parameters
    ----------
    groups : int
        Number of groups, a divisor of the number of channels.

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


class ChannelsLast(Module):
    """Move the axis of the channels to the end: (n, channels, ...) becomes (n, ..., channels).

    Losses for classes expect logits in this order; convolutions have the channels second.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.ChannelsLast()(np.zeros((2, 3, 8, 5))).shape
    (2, 8, 5, 3)
    """

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim < 2:
            raise ShapeError(f"{self!r}: expected an input of shape (n, channels, ...), got {x.shape}")
        return permute_dims(x, (0, *range(2, x.ndim), 1))


def _permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    first = x.ndim - len(order)
    return permute_dims(x, (*range(first), *[first + axis for axis in order]))


AXIS = [Interval(Integral, None, None, closed="neither")]


class Flatten(Module):
    """Join axes: by default all but the first, so that every sample is a vector.

    Parameters
    ----------
    start_dim : int, default=1
        The first axis to join.
    end_dim : int, default=-1
        The last axis to join.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Flatten()(np.zeros((5, 3, 2))).shape
    (5, 6)
    >>> nn.Flatten(-2)(np.zeros((5, 4, 3, 2))).shape
    (5, 4, 6)
    """

    _parameter_constraints = {"start_dim": AXIS, "end_dim": AXIS}

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        check_arguments(self, start_dim=start_dim, end_dim=end_dim)
        self.start_dim, self.end_dim = int(start_dim), int(end_dim)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0:
            raise ShapeError("Flatten: expected an input of shape (n_samples, ...), got a scalar")
        n = x.ndim
        if n == 1 and (self.start_dim, self.end_dim) == (1, -1):
            return reshape(x, (x.shape[0], 1))
        start, end = (axis + n if axis < 0 else axis for axis in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < n:
            raise ShapeError(f"{self!r}: an input of shape {x.shape} has no axes from start_dim to end_dim")
        # math.prod rather than -1, which is ambiguous for an empty batch
        return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


class Unflatten(Module):
    """Divide one axis into several, the inverse of `Flatten`.

    Parameters
    ----------
    dim : int
        The axis to divide.
    unflattened_size : sequence of int
        Lengths of the axes that replace it; one may be -1, which is inferred.

    Raises
    ------
    ValueError
        If `unflattened_size` holds no lengths, or -1 more than once.
    ShapeError
        If the input has no such axis, or its length does not fit `unflattened_size`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Unflatten(1, (3, -1))(np.zeros((5, 6))).shape
    (5, 3, 2)
    """

    _parameter_constraints = {"dim": AXIS, "unflattened_size": [tuple, list]}
    _stored_fields = {
        "unflattened_size": tuple[int, ...],
    }

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        check_arguments(self, dim=dim, unflattened_size=unflattened_size)
        lengths: tuple[Any, ...] = tuple(unflattened_size)
        are_lengths = all(is_whole(n, -1) for n in lengths)
        if not lengths or not are_lengths or lengths.count(-1) > 1:
            raise ValueError(
                "The 'unflattened_size' parameter of Unflatten must hold lengths, of which one may be -1. "
                f"Got {shown(unflattened_size)} instead."
            )
        self.dim, self.unflattened_size = int(dim), tuple(int(n) for n in lengths)

    def forward(self, x: Any) -> Tensor:
        x, lengths = as_tensor(x), self.unflattened_size
        if not -x.ndim <= self.dim < x.ndim:
            raise ShapeError(f"{self!r}: an input of shape {x.shape} has no axis {self.dim}")
        axis = self.dim % x.ndim
        known = math.prod(n for n in lengths if n != -1)
        if -1 in lengths and known and x.shape[axis] % known == 0:
            lengths = tuple(x.shape[axis] // known if n == -1 else n for n in lengths)
        if math.prod(lengths) != x.shape[axis] or -1 in lengths:
            raise ShapeError(f"{self!r}: axis {self.dim} of an input of shape {x.shape} cannot be divided so")
        return reshape(x, (*x.shape[:axis], *lengths, *x.shape[axis + 1 :]))
