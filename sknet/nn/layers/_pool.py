"""Pooling layers."""

import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

from sknet import ops
from sknet._fields import ABSENT, Either
from sknet._params import Interval
from sknet.core import Tensor
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "MaxPool1d",
    "MaxPool2d",
]

Size = int | tuple[int, ...]

STEPS = [Interval(Integral, 1, None, closed="left"), tuple]


class _Pool(Module):
    """What all have: a function of `sknet.ops`, and arguments for it."""

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
        check_arguments(self, **arguments)
        vars(self).update(arguments, _names=tuple(arguments))

    def forward(self, x: Any) -> Tensor:
        return type(self).function(x, **{name: vars(self)[name] for name in self._names})


class MaxPool1d(_Pool):
    """Maximum of every window of signals, (n, channels, length).

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

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.MaxPool1d(2)(np.ones((5, 3, 8))).shape
    (5, 3, 4)
    """

    function = staticmethod(ops.max_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._keep(
            kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
        )


class MaxPool2d(_Pool):
    """Maximum of every window of images, (n, channels, height, width).

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

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.MaxPool2d(2)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 4, 3)
    """

    function = staticmethod(ops.max_pool2d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._keep(
            kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
        )


class AvgPool1d(_Pool):
    """Mean of every window of signals, (n, channels, length).

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of a window.
    stride : int or tuple of int, default=None
        Distance between neighbouring windows; None is `kernel_size`.
    padding : int or tuple of int, default=0
        Zeros at both ends, at most half a window.
    ceil_mode : bool, default=False
        Whether the last window may extend past the end, if it begins before it.
    count_include_pad : bool, default=True
        Whether the padding counts in the means.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AvgPool1d(2)(np.ones((5, 3, 8))).shape
    (5, 3, 4)
    """

    function = staticmethod(ops.avg_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._keep(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


class AvgPool2d(_Pool):
    """Mean of every window of images, (n, channels, height, width).

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of a window.
    stride : int or tuple of int, default=None
        Distance between neighbouring windows; None is `kernel_size`.
    padding : int or tuple of int, default=0
        Zeros at both ends, at most half a window.
    ceil_mode : bool, default=False
        Whether the last window may extend past the end, if it begins before it.
    count_include_pad : bool, default=True
        Whether the padding counts in the means.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.AvgPool2d(2)(np.ones((5, 3, 8, 6))).shape
    (5, 3, 4, 3)
    """

    function = staticmethod(ops.avg_pool2d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._keep(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


class AdaptiveAvgPool1d(_Pool):
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

    def __init__(self, output_size: int | None) -> None:
        self._keep(output_size=output_size)


class AdaptiveAvgPool2d(_Pool):
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

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        self._keep(output_size=output_size)


class AdaptiveMaxPool1d(_Pool):
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

    def __init__(self, output_size: int | None) -> None:
        self._keep(output_size=output_size)


class AdaptiveMaxPool2d(_Pool):
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

    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        self._keep(output_size=output_size)
