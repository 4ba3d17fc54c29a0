"""Normalization over features, groups and batches."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from sknet._fields import ABSENT, Buffers, Named, Params
from sknet._params import Interval, described_by
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments, repr_arguments
from sknet.nn._parameter import Parameter, Registered, ones, zeros
from sknet.ops import batch_norm, group_norm, instance_norm, layer_norm, mean, reshape, rms_norm, square
from sknet.ops._norm import batch_norm_moments

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


LENGTH = [Interval(Integral, 1, None, closed="left")]
SMALL = [Interval(Real, 0, None, closed="left")]
AFFINE = {"affine": ["boolean"], "bias": ["boolean"]}


class Affine(Module):
    """Abstract base of the norms: what scales and shifts after them."""

    weight: Any = Registered()
    bias: Any = Registered()

    affine: bool

    def _make_affine(
        self, shape: tuple[int, ...], affine: bool, bias: bool, device: "str | Device | None"
    ) -> None:
        self.affine = affine
        self.weight = Parameter(ones(shape, device)) if affine else None
        self.bias = Parameter(zeros(shape, device)) if affine and bias else None

    def extra_repr(self) -> str:
        kept = repr_arguments(self, leave_out=("bias",))
        return kept + (", bias=False" if self.affine and self.bias is None else "")


class LayerNorm(Affine):
    r"""Give every sample mean 0 and variance 1 over its last axes, then a learned scale and shift.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the axes to normalize over, the input's last ones.
    eps : float, default=1e-5
        Added to the variance.
    affine : bool, default=True
        Whether to scale and shift the normalized values.
    bias : bool, default=True
        Whether to shift as well, if `affine`.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape `normalized_shape`, or None
        The scale, initially 1.
    bias : Parameter of shape `normalized_shape`, or None
        The shift, initially 0.

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

    _parameter_constraints = {"normalized_shape": LENGTH, "eps": SMALL, **AFFINE}
    _stored_fields = {
        "normalized_shape": tuple[int, ...],
        "bias": [Named("Parameter"), None],
        "weight": [Named("Parameter"), None],
    }

    def _check_stored(self) -> None:
        _check_affine(self)

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self.normalized_shape = _lengths(self, normalized_shape, eps=eps, affine=affine, bias=bias)
        self.eps = eps
        self._make_affine(self.normalized_shape, affine, bias, device)

    def forward(self, x: Any) -> Any:
        return _over_last_axes(self, x, layer_norm, self.weight, self.bias, self.eps)


class RMSNorm(Affine):
    r"""Divide every sample by its root mean square over its last axes, then scale it.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        Shape of the axes to normalize over, the input's last ones.
    eps : float, default=1e-6
        Added to the mean square.
    affine : bool, default=True
        Whether to scale the normalized values.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape `normalized_shape`, or None
        The scale, initially 1.

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

    _parameter_constraints = {"normalized_shape": LENGTH, "eps": SMALL, "affine": ["boolean"]}
    _stored_fields = {"normalized_shape": tuple[int, ...], "bias": None, "weight": [Named("Parameter"), None]}

    def _check_stored(self) -> None:
        _check_affine(self)

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-6,
        affine: bool = True,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self.normalized_shape = _lengths(self, normalized_shape, eps=eps, affine=affine)
        self.eps = eps
        self._make_affine(self.normalized_shape, affine, False, device)

    def extra_repr(self) -> str:
        return repr_arguments(self)

    def forward(self, x: Any) -> Any:
        return _over_last_axes(self, x, rms_norm, self.weight, self.eps)


@described_by(LayerNorm)
class GroupNorm(Affine):
    r"""Give every group of channels of every sample mean 0 and variance 1, then scale and shift channels.

    Parameters
    ----------
    num_groups : int
        Number of groups of channels; one per channel gives an instance norm.
    num_channels : int
        Length of the input's second axis.

    Attributes
    ----------
    weight : Parameter of shape (num_channels,), or None
        The scale, initially 1.
    bias : Parameter of shape (num_channels,), or None
        The shift, initially 0.

    Raises
    ------
    ValueError
        If `num_groups` does not divide `num_channels`.
    ShapeError
        If the input has another number of channels.

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

    _parameter_constraints = {"num_groups": LENGTH, "num_channels": LENGTH, "eps": SMALL, **AFFINE}
    _stored_fields = {"weight": [Params("num_channels"), None], "bias": [Params("num_channels"), None]}

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self, num_groups=num_groups, num_channels=num_channels, eps=eps, affine=affine, bias=bias
        )
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups = int(num_groups)
        self.num_channels = int(num_channels)
        self.eps = eps
        self._make_affine((self.num_channels,), affine, bias, device)

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.num_channels}, ...), got {x.shape}"
            )
        return group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class _RunningNorm(Affine, ABC):
    """Abstract base of the norms that may predict with statistics from training."""

    _parameter_constraints = {
        "num_features": LENGTH,
        "eps": SMALL,
        "momentum": [Interval(Real, 0, 1, closed="both"), None],
        **AFFINE,
        "track_running_stats": ["boolean"],
    }

    _least = 2  # axes of an input
    _stored_fields = {
        "weight": [Params("num_features"), None],
        "bias": [Params("num_features"), None],
        "running_mean": [Buffers("f", "num_features"), ABSENT],
        "running_var": [Buffers("f", "num_features"), ABSENT],
        "num_batches": [Buffers("i"), ABSENT],
    }

    def _check_stored(self) -> None:
        if self.track_running_stats != (
            self._buffers.keys() == {"running_mean", "running_var", "num_batches"}
        ):
            raise ValueError(f"{type(self).__name__} has the buffers {list(self._buffers)}")

    def _make(self, affine: bool, bias: bool, device: "str | Device | None", **arguments: Any) -> None:
        """Check and keep the arguments, and make parameters and buffers."""
        check_arguments(self, affine=affine, bias=bias, **arguments)
        vars(self).update(arguments, num_features=int(arguments["num_features"]))
        shape = (self.num_features,)
        self._make_affine(shape, affine, bias, device)
        if self.track_running_stats:
            self.register_buffer("running_mean", zeros(shape, device))
            self.register_buffer("running_var", ones(shape, device))
            self.register_buffer("num_batches", zeros((), device, "int64"))

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim < self._least or x.shape[1] != self.num_features:
            axes = ", ".join(["..."] if self._least == 2 else ["length", "..."])
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, {self.num_features}, {axes}), got {x.shape}"
            )
        if self.track_running_stats and not self.training:
            return batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps)
        return self._by_own_statistics(x)

    @abstractmethod
    def _by_own_statistics(self, x: Tensor) -> Tensor:
        """Normalize x by its own statistics, and in training keep them."""

    def _update(self, center: Tensor, variance: Tensor) -> None:
        seen = self.num_batches + 1
        share = 1.0 / seen.astype(center.dtype) if self.momentum is None else self.momentum
        for name, new in (("running_mean", center), ("running_var", variance)):
            old = getattr(self, name)
            self.set_buffer(name, old + (reshape(new, old.shape) - old) * share)
        self.set_buffer("num_batches", seen)


@described_by(LayerNorm)
class BatchNorm(_RunningNorm):
    r"""Give every feature mean 0 and variance 1 over the batch, then a learned scale and shift.

    Parameters
    ----------
    num_features : int
        Length of the input's second axis.
    momentum : float or None, default=0.1
        Weight of a batch in the running statistics; None averages all batches equally.
    track_running_stats : bool, default=True
        Whether to keep running statistics. Without them, prediction uses those of its batch as well.
    device : str or Device, default=None
        Device of parameters and buffers; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (num_features,), or None
        The scale, initially 1.
    bias : Parameter of shape (num_features,), or None
        The shift, initially 0.
    running_mean : Tensor of shape (num_features,)
        The mean used in prediction, initially 0.
    running_var : Tensor of shape (num_features,)
        The variance used in prediction, initially 1; a mean of unbiased variances.
    num_batches : Tensor of shape (), int64
        Number of batches in the running statistics.

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

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        bias: bool = True,
        track_running_stats: bool = True,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self._make(
            affine,
            bias,
            device,
            num_features=num_features,
            eps=eps,
            momentum=momentum,
            track_running_stats=track_running_stats,
        )

    def _by_own_statistics(self, x: Tensor) -> Tensor:
        if not self.training:
            return batch_norm(x, self.weight, self.bias, eps=self.eps)
        count = x.size // self.num_features
        if count < 2:
            raise ShapeError(
                f"{self!r}: training needs at least 2 values per feature, got an input of shape {x.shape}: "
                "use larger batches, or eval()"
            )
        output, center, variance = batch_norm_moments(x, self.weight, self.bias, self.eps)
        if self.track_running_stats:
            self._update(center.detach(), variance.detach() * (count / (count - 1)))
        return output


@described_by(BatchNorm)
class InstanceNorm(_RunningNorm):
    r"""Give every channel of every sample mean 0 and variance 1, then possibly scale and shift channels.

    Parameters
    ----------
    num_features : int
        Length of the input's second axis: channels.
    affine : bool, default=False
        Whether to scale and shift the normalized values.
    track_running_stats : bool, default=False
        Whether to keep running statistics, the means of those of all samples, and to predict with
        them as `BatchNorm` does.

    Attributes
    ----------
    weight : Parameter of shape (num_features,), or None
        The scale, initially 1.
    bias : Parameter of shape (num_features,), or None
        The shift, initially 0.
    running_mean, running_var : Tensor of shape (num_features,)
        Initially 0 and 1, with `track_running_stats`.
    num_batches : Tensor of shape (), int64
        Number of batches in the running statistics.

    Notes
    -----
    For input of shape (n, num_features, length, ...), with mean and variance over all axes behind
    the channels,

    .. math:: y = \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \gamma + \beta

    (D. Ulyanov et al., 2016). PyTorch's InstanceNorm1d, 2d and 3d in one.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.InstanceNorm(1)([[[1.0, 3.0]], [[5.0, 5.0]]]).numpy()
    array([[[-0.999995,  0.999995]],
    <BLANKLINE>
           [[ 0.      ,  0.      ]]])
    """

    _least = 3

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        bias: bool = True,
        track_running_stats: bool = False,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        self._make(
            affine,
            bias,
            device,
            num_features=num_features,
            eps=eps,
            momentum=momentum,
            track_running_stats=track_running_stats,
        )

    def _by_own_statistics(self, x: Tensor) -> Tensor:
        count = math.prod(x.shape[2:])
        if self.training and count < 2:
            raise ShapeError(
                f"{self!r}: training needs at least 2 values per channel, got an input of shape {x.shape}"
            )
        if self.training and self.track_running_stats:
            self._track(x.detach(), count)
        return instance_norm(x, self.weight, self.bias, self.eps)

    def _track(self, x: Tensor, count: int) -> None:
        axes = tuple(range(2 - x.ndim, 0))
        center = mean(x, axes, keepdims=True)
        variance = mean(square(x - center), axes)
        self._update(mean(reshape(center, x.shape[:2]), -2), mean(variance, -2) * (count / (count - 1)))


def _lengths(layer: Module, shape: int | Sequence[int], **others: Any) -> tuple[int, ...]:
    """Check the arguments of a norm over the last axes, and return their shape."""
    lengths = shape if isinstance(shape, (tuple, list)) else (shape,)
    for length in lengths or (None,):
        check_arguments(layer, normalized_shape=length, **others)
    return tuple(int(length) for length in lengths)


def _check_affine(layer: Any) -> None:
    """Raise a ValueError if a scale or a shift has another shape than the axes."""
    for parameter in (layer.weight, layer.bias):
        if parameter is not None and parameter.shape != layer.normalized_shape:
            raise ValueError(f"{layer!r} has a parameter of shape {parameter.shape}")


def _over_last_axes(layer: Any, x: Any, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    x, shape = as_tensor(x), layer.normalized_shape
    if x.shape[-len(shape) :] != shape:
        raise ShapeError(f"{layer!r}: expected an input of shape (..., {str(shape)[1:-1]}), got {x.shape}")
    return function(x, shape, *arguments)
