"""Convolution layers."""

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any

from sknet._constraints import shown
from sknet._fields import ABSENT, Named, Params
from sknet._params import Interval, StrOptions, described_by
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import Parameter, Registered, draw_bias, draw_weight
from sknet.nn.init import Initializer, scheme
from sknet.ops import conv1d, conv2d, conv_transpose1d, conv_transpose2d, pad

__all__ = ["Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"]

Size = int | tuple[int, ...]

COUNT = [Interval(Integral, 1, None, closed="left")]
STEPS = [*COUNT, tuple]
EDGES = [Interval(Integral, 0, None, closed="left"), tuple]
AXES = {1: "length", 2: "height, width"}


class _Convolution(Module):
    """Base of the convolutions: a weight with a kernel for every pair of channels, and a bias.

    Parameters
    ----------
    in_channels : int
        Channels of the input.
    out_channels : int
        Channels of the output: filters.
    kernel_size : int or tuple of int
        Length of a kernel.
    stride : int or tuple of int, default=1
        Distance between neighbouring windows.
    padding : int, tuple of int, "same" or "valid", default=0
        Number of elements added before and after; "same" keeps the size, for a stride of 1.
    dilation : int or tuple of int, default=1
        Distance between the elements of a kernel.
    groups : int, default=1
        Number of groups into which the channels are divided, each convolved on its own;
        `in_channels` gives a depthwise convolution.
    bias : bool, default=True
        Whether to add a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default="zeros"
        Elements to add before and after: zeros, the elements mirrored at the outermost one, the outermost
        element, or the elements from the other end.
    init : Initializer or str, default=None
        Scheme of weight and bias, an object or its name; None is that of `init.version`,
        `HeNormal` by the inputs of a filter, with a bias of zeros (K. He et al., ICCV 2015).
    device : str or Device, default=None
        Device of the parameters; None is the CPU.
    output_padding : int or tuple of int, default=0
        Number of elements added at the end of the output, less than the larger of stride and dilation.
    """

    weight: Any = Registered()
    bias: Any = Registered()

    rank: int
    function: Callable[..., Tensor]

    _parameter_constraints = {
        "in_channels": COUNT,
        "out_channels": COUNT,
        "kernel_size": STEPS,
        "stride": STEPS,
        "padding": EDGES,
        "output_padding": EDGES,
        "dilation": STEPS,
        "groups": COUNT,
        "bias": ["boolean"],
        "padding_mode": [StrOptions({"zeros", "reflect", "replicate", "circular"})],
    }

    padding_mode = "zeros"
    _stored_fields = {
        "weight": Named("Parameter"),
        "bias": [Params("out_channels"), None],
        "padding_mode": [StrOptions({"zeros", "reflect", "replicate", "circular"}), ABSENT],
        "output_padding": [*EDGES, ABSENT],
    }

    def _check_stored(self) -> None:
        if self.in_channels % self.groups or self.weight.shape != self._weight_shape(
            _lengths(self, "kernel_size")
        ):
            raise ValueError(f"{self!r} cannot have a weight of shape {self.weight.shape}")

    def _make(
        self, init: "Initializer | str | None", device: "str | Device | None", **arguments: Any
    ) -> None:
        """Check and store the arguments of a constructor, which are its ``locals()``; make the parameters."""
        check_arguments(self, **arguments)
        bias = arguments.pop("bias")
        vars(self).update(arguments)
        self.in_channels, self.out_channels = int(arguments["in_channels"]), int(arguments["out_channels"])
        first, second = self.in_channels, self.out_channels
        if first % self.groups or second % self.groups:
            raise ValueError(
                f"{type(self).__name__}: groups={self.groups} must divide in_channels={first} and "
                f"out_channels={second}"
            )
        kernel = _lengths(self, "kernel_size")
        for name in ("stride", "padding", "dilation", "output_padding"):
            if isinstance(arguments.get(name), tuple):
                _lengths(self, name)
        found = scheme(init, self, "conv")
        n_elements = math.prod(kernel)
        fans: Any = {
            "fan_in": first // self.groups * n_elements,
            "fan_out": second // self.groups * n_elements,
        }
        shape = self._weight_shape(kernel)
        self.weight = Parameter(
            shape=shape, draw=partial(draw_weight, found, shape=shape, **fans), device=device
        )
        self.bias = None
        if bias:
            draw = partial(draw_bias, found, shape=(second,), **fans)
            self.bias = Parameter(shape=(second,), draw=draw, device=device)

    def _weight_shape(self, kernel: tuple[int, ...]) -> tuple[int, ...]:
        return (self.out_channels, self.in_channels // self.groups, *kernel)

    def _options(self) -> dict[str, Any]:
        names = ("stride", "padding", "output_padding", "dilation", "groups")
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim <= self.rank or x.shape[-self.rank - 1] != self.in_channels:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.in_channels}, {AXES[self.rank]}), "
                f"got {x.shape}{self._advice(x.shape)}"
            )
        options = self._options()
        if self.padding_mode != "zeros":
            x = pad(x, self._padded(options.pop("padding")), self.padding_mode)
        return type(self).function(x, self.weight, self.bias, **options)

    def _advice(self, shape: tuple[int, ...]) -> str:
        """Return the end of a message about the shape of an input: where its channels are."""
        if len(shape) == self.rank + 1:
            return ". It seems to have no axis of channels: X[:, None] adds one"
        if len(shape) == self.rank + 2 and shape[-1] == self.in_channels:
            return ". Its channels seem to be last: np.moveaxis(X, -1, 1) puts them first"
        return ""

    def _padded(self, padding: Any) -> list[tuple[int, int]]:
        """Return how many elements come before and after each axis."""
        if padding == "valid":
            return [(0, 0)] * self.rank
        if padding != "same":
            return [(n, n) for n in _lengths(self, "padding")]
        whole = [
            (n - 1) * step
            for n, step in zip(_lengths(self, "kernel_size"), _lengths(self, "dilation"), strict=True)
        ]
        if any(step != 1 for step in _lengths(self, "stride")):
            raise ValueError(f"{self!r}: padding 'same' is for a stride of 1")
        return [(n // 2, n - n // 2) for n in whole]

    def extra_repr(self) -> str:
        usual = {"padding": 0, "output_padding": 0}
        options = {k: v for k, v in self._options().items() if v != usual.get(k, 1)}
        options |= {} if self.bias is not None else {"bias": False}
        options |= {} if self.padding_mode == "zeros" else {"padding_mode": self.padding_mode}
        others = "".join(f", {name}={value!r}" for name, value in options.items())
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size!r}{others}"


def _lengths(layer: Any, name: str) -> tuple[int, ...]:
    """Return one number for each axis of an argument that is a number or one for each axis."""
    value = vars(layer)[name]
    values = value if isinstance(value, tuple) else (value,) * layer.rank
    for each in values:
        check_arguments(layer, **{name: None if isinstance(each, tuple) else each})
    if len(values) != layer.rank:
        raise ValueError(
            f"The {name!r} parameter of {type(layer).__name__} must be an int or a tuple of {layer.rank}. "
            f"Got {shown(value)} instead."
        )
    return tuple(int(each) for each in values)


class _Forward(_Convolution):
    _parameter_constraints = {
        **_Convolution._parameter_constraints,
        "padding": [*EDGES, StrOptions({"same", "valid"})],
    }

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        _Convolution._make(**locals())


class _Transposed(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        _Convolution._make(**locals())

    def _weight_shape(self, kernel: tuple[int, ...]) -> tuple[int, ...]:
        return (self.in_channels, self.out_channels // self.groups, *kernel)


@described_by(_Convolution)
class Conv1d(_Forward):
    """Convolution of signals.

    Attributes
    ----------
    weight : Parameter of shape (out_channels, in_channels / groups, length)
        The kernels, as in PyTorch.
    bias : Parameter of shape (out_channels,), or None
        One number per filter.

    Notes
    -----
    The input is of shape (n, in_channels, length); `sknet.ops.conv1d` has the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Conv1d(3, 8, 3, padding=1)
    >>> layer
    Conv1d(3, 8, kernel_size=3, padding=1)
    >>> layer(np.ones((5, 3, 16), np.float32)).shape
    (5, 8, 16)
    """

    rank = 1
    function = staticmethod(conv1d)


@described_by(_Convolution)
class Conv2d(_Forward):
    """Convolution of images.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Rows and columns of a kernel.

    Attributes
    ----------
    weight : Parameter of shape (out_channels, in_channels / groups, rows, columns)
        The kernels, as in PyTorch.
    bias : Parameter of shape (out_channels,), or None
        One number per filter.

    Notes
    -----
    The input is of shape (n, in_channels, height, width); `sknet.ops.conv2d` has the formula.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Conv2d(3, 8, 3, padding=1)
    >>> layer
    Conv2d(3, 8, kernel_size=3, padding=1)
    >>> layer(np.ones((5, 3, 16, 16), np.float32)).shape
    (5, 8, 16, 16)
    """

    rank = 2
    function = staticmethod(conv2d)


@described_by(_Convolution)
class ConvTranspose1d(_Transposed):
    """Transposed convolution of signals, the adjoint of a convolution.

    Parameters
    ----------
    out_channels : int
        Channels of the output.
    stride : int or tuple of int, default=1
        Distance in the output between neighbouring inputs.
    padding : int or tuple of int, default=0
        Number of elements to crop at both ends of the output.
    groups : int, default=1
        Number of groups into which the channels are divided, each convolved on its own.
    init : Initializer or str, default=None
        Scheme of weight and bias, as for `Conv1d`.

    Attributes
    ----------
    weight : Parameter of shape (in_channels, out_channels / groups, length)
        The kernels, as in PyTorch.
    bias : Parameter of shape (out_channels,), or None
        One number per channel.

    Notes
    -----
    The input is of shape (n, in_channels, length); see `sknet.ops.conv_transpose1d` for the size of the
    output.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.ConvTranspose1d(8, 3, 4, stride=2, padding=1)
    >>> layer(np.ones((5, 8, 16), np.float32)).shape
    (5, 3, 32)
    """

    rank = 1
    function = staticmethod(conv_transpose1d)


@described_by(_Convolution)
class ConvTranspose2d(_Transposed):
    """Transposed convolution of images, the adjoint of a convolution.

    Parameters
    ----------
    out_channels : int
        Channels of the output.
    kernel_size : int or tuple of int
        Rows and columns of a kernel.
    stride : int or tuple of int, default=1
        Distance in the output between neighbouring inputs.
    padding : int or tuple of int, default=0
        Number of elements to crop at both ends of the output.
    groups : int, default=1
        Number of groups into which the channels are divided, each convolved on its own.
    init : Initializer or str, default=None
        Scheme of weight and bias, as for `Conv2d`.

    Attributes
    ----------
    weight : Parameter of shape (in_channels, out_channels / groups, rows, columns)
        The kernels, as in PyTorch.
    bias : Parameter of shape (out_channels,), or None
        One number per channel.

    Notes
    -----
    The input is of shape (n, in_channels, height, width); see `sknet.ops.conv_transpose2d` for the size of
    the output.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)
    >>> layer(np.ones((5, 8, 16, 16), np.float32)).shape
    (5, 3, 32, 32)
    """

    rank = 2
    function = staticmethod(conv_transpose2d)
