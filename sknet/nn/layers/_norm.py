"""Normalisation layers."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter, ones, zeros
from sknet.nn._scope import Registered
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import batch_norm, group_norm, layer_norm, reshape, rms_norm
from sknet.ops._norm import batch_norm_moments

__all__ = ["BatchNorm", "GroupNorm", "LayerNorm", "RMSNorm"]

LENGTH = [Interval(Integral, 1, None, closed="left")]
SMALL = [Interval(Real, 0, None, closed="left")]


class BatchNorm(Module):
    r"""Give every feature mean 0 and variance 1 over the batch, then a learned scale and shift.

    Parameters
    ----------
    num_features : int
        Length of the input's second axis.
    eps : float, default=1e-5
        Added to the variance.
    momentum : float or None, default=0.1
        Weight of a batch in the running statistics; None averages all batches equally.
    device : str or Device, default=None
        Where parameters and buffers live; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (num_features,)
        The scale, at first 1.
    bias : Parameter of shape (num_features,)
        The shift, at first 0.
    running_mean : Tensor of shape (num_features,)
        What prediction takes for the mean, at first 0.
    running_var : Tensor of shape (num_features,)
        What prediction takes for the variance, at first 1; a mean of unbiased variances.
    num_batches : Tensor of shape (), int64
        How many batches the running statistics have seen.

    Notes
    -----
    For input of shape (n, num_features) or (n, num_features, ...), with mean and variance over all
    other axes,

    .. math:: y = \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \gamma + \beta

    (S. Ioffe, C. Szegedy, ICML 2015). The batch's variance is the biased one in the output and the
    unbiased one in `running_var`, as in PyTorch; the paper's algorithm 2 has the latter too.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> norm = nn.BatchNorm(1)
    >>> norm(np.array([[1.0], [3.0]])).numpy()
    array([[-0.999995],
           [ 0.999995]])
    >>> norm.running_mean.numpy()
    array([0.2], dtype=float32)
    """

    weight: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {
        "num_features": LENGTH,
        "eps": SMALL,
        "momentum": [Interval(Real, 0, 1, closed="both"), None],
    }

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, num_features=num_features, eps=eps, momentum=momentum)
        self.num_features = int(num_features)
        self.eps = eps
        self.momentum = momentum
        shape = (self.num_features,)
        self.weight = Parameter(ones(shape, device))
        self.bias = Parameter(zeros(shape, device))
        self.register_buffer("running_mean", zeros(shape, device))
        self.register_buffer("running_var", ones(shape, device))
        self.register_buffer("num_batches", zeros((), device, "int64"))

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.num_features}, ...), got {x.shape}"
            )
        if not self.training:
            return batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps)
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(
                f"{self!r}: training needs at least 2 values per feature, got an input of shape {x.shape}: "
                "use larger batches, or eval()"
            )
        output, center, variance = batch_norm_moments(x, self.weight, self.bias, self.eps)
        self._update(center.detach(), variance.detach() * (count / (count - 1)))
        return output

    def _update(self, center: Tensor, variance: Tensor) -> None:
        seen = self.num_batches + 1
        share = 1.0 / seen.astype(center.dtype) if self.momentum is None else self.momentum
        for name, new in (("running_mean", center), ("running_var", variance)):
            old = getattr(self, name)
            self.set_buffer(name, old + (reshape(new, old.shape) - old) * share)
        self.set_buffer("num_batches", seen)


class LayerNorm(Module):
    r"""Give every sample mean 0 and variance 1 over its last axes, then a learned scale and shift.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the axes to normalise over, the input's last ones.
    eps : float, default=1e-5
        Added to the variance.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape `normalized_shape`
        The scale, at first 1.
    bias : Parameter of shape `normalized_shape`
        The shift, at first 0.

    Notes
    -----
    .. math:: y = \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \gamma + \beta

    with the biased variance (J. L. Ba et al., 2016). It is the same in training and prediction.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.LayerNorm(2)([[1.0, 3.0]]).numpy()
    array([[-0.999995,  0.999995]])
    """

    weight: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {"normalized_shape": LENGTH, "eps": SMALL}

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self.normalized_shape = _lengths(self, normalized_shape, eps)
        self.eps = eps
        self.weight = Parameter(ones(self.normalized_shape, device))
        self.bias = Parameter(zeros(self.normalized_shape, device))

    def forward(self, x: Any) -> Any:
        return _over_last_axes(self, x, layer_norm, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    r"""Divide every sample by its root mean square over its last axes, then scale it.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the axes to normalise over, the input's last ones.
    eps : float, default=1e-6
        Added to the mean square.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape `normalized_shape`
        The scale, at first 1.

    Notes
    -----
    .. math:: y = \frac{x}{\sqrt{\mathrm{E}[x^2] + \epsilon}} \gamma

    (B. Zhang, R. Sennrich, NeurIPS 2019): as good as `LayerNorm` in most networks, and faster.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.RMSNorm(2)([[3.0, 4.0]]).numpy()
    array([[0.848528, 1.131371]])
    """

    weight: Any = Registered()

    _parameter_constraints = {"normalized_shape": LENGTH, "eps": SMALL}

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-6,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self.normalized_shape = _lengths(self, normalized_shape, eps)
        self.eps = eps
        self.weight = Parameter(ones(self.normalized_shape, device))

    def forward(self, x: Any) -> Any:
        return _over_last_axes(self, x, rms_norm, self.weight, self.eps)


class GroupNorm(Module):
    r"""Give every group of channels of every sample mean 0 and variance 1, then scale and shift channels.

    Parameters
    ----------
    num_groups : int
        Into how many groups the channels are divided; as many as channels is an instance norm.
    num_channels : int
        Length of the input's second axis.
    eps : float, default=1e-5
        Added to the variance.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (num_channels,)
        The scale, at first 1.
    bias : Parameter of shape (num_channels,)
        The shift, at first 0.

    Notes
    -----
    For input of shape (n, num_channels, ...) (Y. Wu, K. He, ECCV 2018). It does not depend on the
    batch, so it suits small ones, and is the same in training and prediction.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.GroupNorm(1, 2)([[1.0, 3.0]]).numpy()
    array([[-0.999995,  0.999995]])
    """

    weight: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {"num_groups": LENGTH, "num_channels": LENGTH, "eps": SMALL}

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, num_groups=num_groups, num_channels=num_channels, eps=eps)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups = int(num_groups)
        self.num_channels = int(num_channels)
        self.eps = eps
        self.weight = Parameter(ones((self.num_channels,), device))
        self.bias = Parameter(zeros((self.num_channels,), device))

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.num_channels}, ...), got {x.shape}"
            )
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


def _lengths(layer: Module, shape: int | Sequence[int], eps: float) -> tuple[int, ...]:
    """Check the arguments of a norm over the last axes, and return their shape."""
    lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
    for length in lengths or (None,):
        check_arguments(layer, normalized_shape=length, eps=eps)
    return tuple(int(length) for length in lengths)


def _over_last_axes(layer: Any, x: Any, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    x, shape = as_tensor(x), layer.normalized_shape
    if x.shape[-len(shape) :] != shape:
        raise ShapeError(f"{layer!r}: expected an input of shape (..., {str(shape)[1:-1]}), got {x.shape}")
    return function(x, shape, *arguments)
