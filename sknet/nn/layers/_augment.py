"""Random changes of images in training, which keep their class: shifts, flips and covered squares."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.device import to_device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.nn._scope import next_draw
from sknet.ops import dropout_mask, flip, pad, where

__all__ = ["RandomErasing", "RandomFlip", "RandomShift"]


def _coins(x: Tensor, p: float = 0.5) -> Tensor:
    """Draw for every image whether it is changed, with probability p, in a shape that broadcasts."""
    key, step, site = next_draw()
    shape = (x.shape[0], *(1,) * (x.ndim - 1))
    drawn = dropout_mask(shape, 1 - p, key=key, step=step, site=site, dtype=x.dtype, device=x.device)
    return drawn > 0


def _strides(total: int) -> Iterator[int]:
    """Yield the fewest positive numbers whose partial sums are 0 to `total`."""
    stride = 1
    while total > 0:
        yield min(stride, total)
        total -= stride
        stride *= 2


def _cut(x: Tensor, like: Tensor, axis: int, length: int) -> Tensor:
    """Return `length` elements along an axis, which begin for each image at a random one.

    All begins are possible, each as likely as its mirror image, and equally likely if there are a power of
    two. Each coin decides a part of the way, so that only slices are chosen between.
    """
    for stride in _strides(x.shape[axis] - length):
        rest = (slice(None),) * (-1 - axis)
        x = where(_coins(like), x[(..., slice(stride, None), *rest)], x[(..., slice(None, -stride), *rest)])
    return x


class _Augmentation(Module):
    """Base of random changes of images, (n, channels, height, width), in training."""

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim != 4:
            raise ShapeError(
                f"{self!r}: expected images of shape (n, channels, height, width), got {x.shape}"
            )
        return self._changed(x) if self.training else x

    def _changed(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class RandomShift(_Augmentation):
    """Shift each image by up to some pixels along both axes in training.

    Parameters
    ----------
    limit : int, default=2
        Pixels by which an image moves at most, up or down, left or right.
    mode : {"replicate", "constant", "reflect", "circular"}, default="replicate"
        What moves in at the edge, as of `sknet.ops.pad`: the outermost pixel, zeros, the mirrored image, or
        what left on the other side.

    Notes
    -----
    This is the crop of padded images of K. He et al., "Deep residual learning for image recognition", CVPR
    2016, section 4.2. A shift is as likely as the opposite one. Draws are those of `Dropout`: a function of
    key, step and the layer's position in the pass.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> images = np.zeros((100, 1, 5, 5))
    >>> images[:, :, 2, 2] = 1
    >>> shifted, _ = nn.functional_call(nn.RandomShift(1), {}, images, key=(0, 0))
    >>> shifted.numpy().sum(axis=(1, 2, 3)).min()
    np.float64(1.0)
    >>> np.flatnonzero(shifted.numpy().any(axis=(0, 1, 3))).tolist()
    [1, 2, 3]
    """

    _parameter_constraints = {
        "limit": [Interval(Integral, 1, None, closed="left")],
        "mode": [StrOptions({"replicate", "constant", "reflect", "circular"})],
    }

    def __init__(self, limit: int = 2, mode: str = "replicate") -> None:
        check_arguments(self, limit=limit, mode=mode)
        self.limit, self.mode = int(limit), mode

    def _changed(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        wide = pad(x, ((self.limit, self.limit),) * 2, self.mode)
        return _cut(_cut(wide, x, -1, width), x, -2, height)

    def extra_repr(self) -> str:
        """Return the limit and the mode."""
        return f"{self.limit}, mode={self.mode!r}"


class RandomFlip(_Augmentation):
    """Mirror each image, left to right, with probability p in training.

    Parameters
    ----------
    p : float, default=0.5
        Probability, in [0, 1].
    axis : int, default=-1
        What is mirrored: -1 the columns of pixels, left to right; -2 the rows, top to bottom.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.RandomFlip(1.0), {}, np.arange(3.0).reshape(1, 1, 1, 3), key=(0, 0))
    >>> output.numpy().ravel()
    array([2., 1., 0.])
    """

    _parameter_constraints = {
        "p": [Interval(Real, 0, 1, closed="both")],
        "axis": [Interval(Integral, -2, -1, closed="both")],
    }

    def __init__(self, p: float = 0.5, axis: int = -1) -> None:
        check_arguments(self, p=p, axis=axis)
        self.p, self.axis = float(p), int(axis)

    def _changed(self, x: Tensor) -> Tensor:
        return where(_coins(x, self.p), flip(x, self.axis), x)

    def extra_repr(self) -> str:
        """Return the probability and the axis."""
        return f"{self.p}, axis={self.axis}"


class RandomErasing(_Augmentation):
    """Set a square of each image, at a random position, to zero in training.

    Parameters
    ----------
    size : int, default=8
        Length of its sides, in pixels; at the edges of an image less of it may be inside.

    Notes
    -----
    Also called cutout (T. DeVries and G. W. Taylor, arXiv:1708.04552). Zero is the mean of
    standardized images.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> output, _ = nn.functional_call(nn.RandomErasing(2), {}, np.ones((1, 3, 8, 8)), key=(0, 0))
    >>> int((output.numpy() == 0).sum()) in (3, 6, 12)  # at a corner, at an edge, or inside
    True
    """

    _parameter_constraints = {"size": [Interval(Integral, 1, None, closed="left")]}

    def __init__(self, size: int = 8) -> None:
        check_arguments(self, size=size)
        self.size = int(size)

    def _changed(self, x: Tensor) -> Tensor:
        covered = [self._covered(x, axis) for axis in (-2, -1)]
        return where(covered[0] & covered[1], 0.0, x)

    def _covered(self, x: Tensor, axis: int) -> Tensor:
        """Draw for every image which positions along an axis are covered."""
        length = x.shape[axis]
        around = length - (self.size + 1) // 2  # at least half of the sides are inside
        marks = np.zeros(2 * max(around, 0) + self.size, np.float32)
        marks[max(around, 0) : max(around, 0) + self.size] = 1
        shape = [1] * x.ndim
        shape[axis] = len(marks)
        return _cut(Tensor(to_device(marks.reshape(shape), x.device)), x, axis, length) > 0

    def extra_repr(self) -> str:
        """Return the size."""
        return f"{self.size}"
