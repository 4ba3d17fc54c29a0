"""Norms of single samples, which are the same in training and prediction."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from sknet._fields import Named, Params
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter, ones, zeros
from sknet.nn._repr import arguments
from sknet.nn._scope import Registered
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import group_norm, layer_norm, rms_norm

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]

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
        """Return the arguments that differ from their defaults."""
        kept = arguments(self, leave_out=("bias",))
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
        Whether to scale and shift what is normalized.
    bias : bool, default=True
        Whether to shift as well, if `affine`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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
        Whether to scale what is normalized.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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
    _stored_fields = {
        "normalized_shape": tuple[int, ...],
        "bias": None,
        "weight": [Named("Parameter"), None],
    }

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
        """Return the arguments that differ from their defaults."""
        return arguments(self)

    def forward(self, x: Any) -> Any:
        return _over_last_axes(self, x, rms_norm, self.weight, self.eps)


class GroupNorm(Affine):
    r"""Give every group of channels of every sample mean 0 and variance 1, then scale and shift channels.

    Parameters
    ----------
    num_groups : int
        Number of groups of channels; one per channel gives an instance norm.
    num_channels : int
        Length of the input's second axis.
    eps : float, default=1e-5
        Added to the variance.
    affine : bool, default=True
        Whether to scale and shift what is normalized.
    bias : bool, default=True
        Whether to shift as well, if `affine`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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
    _stored_fields = {
        "weight": [Params("num_channels"), None],
        "bias": [Params("num_channels"), None],
    }

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
