"""Padding layers: more elements around signals, images and volumes."""

from numbers import Integral, Real
from typing import Any, ClassVar

from sknet._constraints import WHOLE, shown
from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import pad

__all__ = ["Pad1d", "Pad2d", "Pad3d"]

Widths = int | tuple[int | tuple[int, int], ...]

EDGE = [Interval(Integral, 0, None, closed="left"), tuple, list]

AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


class _Pad(Module):
    """What all three have: widths at both ends of the last axes, and what they are filled with."""

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
        each = [given] * self.rank if isinstance(given, Integral) else list(given)
        pairs = [(width, width) if isinstance(width, Integral) else width for width in each]
        are_pairs = all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs)
        are_counts = are_pairs and all(
            isinstance(n, Integral) and 0 <= int(n) < WHOLE for pair in pairs for n in pair
        )
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
        What is added: `value`; the elements mirrored at the outermost one; the outermost
        element; or the elements from the other end.
    value : float, default=0.0
        What "constant" adds.

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


class Pad2d(_Pad):
    """Add elements around images.

    Parameters
    ----------
    padding : int or tuple of two
        A number for all ends, or for each of height and width a number or a pair (before, after).
    mode : {"constant", "reflect", "replicate", "circular"}, default="constant"
        What is added: `value`; the elements mirrored at the outermost one; the outermost
        element; or the elements from the other end.
    value : float, default=0.0
        What "constant" adds.

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


class Pad3d(_Pad):
    """Add elements around volumes.

    Parameters
    ----------
    padding : int or tuple of three
        A number for all ends, or for each of depth, height and width a number or a pair (before, after).
    mode : {"constant", "reflect", "replicate", "circular"}, default="constant"
        What is added: `value`; the elements mirrored at the outermost one; the outermost
        element; or the elements from the other end.
    value : float, default=0.0
        What "constant" adds.

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
