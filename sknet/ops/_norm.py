"""Normalization: mean 0 and variance 1 over some axes, in operations that compile into a few passes."""

from typing import Any

from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.ops._batch_norm import in_few_passes, is_in_few_passes
from sknet.ops._elementwise import sqrt, square
from sknet.ops._layer_norm import at_once, is_at_once
from sknet.ops._reduce import mean
from sknet.ops._rules import check_floating
from sknet.ops._shape import lengths_of, reshape

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

Shape = tuple[int, ...]


def moments(x: Tensor, axes: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return x less its mean over some axes, that mean, and the mean square of the difference."""
    center = mean(x, axes, keepdims=True)
    centered = x - center
    return centered, center, mean(square(centered), axes, keepdims=True)


def _normalized(x: Tensor, axes: Shape, eps: float) -> Tensor:
    centered, _, variance = moments(x, axes)
    return centered / sqrt(variance + eps)


def _affine(x: Tensor, weight: Any, bias: Any) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _last_axes(name: str, x: Any, shape: int | Shape) -> tuple[Tensor, Shape]:
    """Return x as a tensor, and the axes that `shape` names, its last ones."""
    x = as_tensor(x)
    check_floating(name, x)
    lengths = lengths_of(shape)
    if not lengths or x.shape[-len(lengths) :] != lengths:
        raise ShapeError(
            f"{name}: expected an input of shape (..., {str(lengths)[1:-1].rstrip(',')}), got {x.shape}"
        )
    return x, tuple(range(-len(lengths), 0))


def _with_channels(name: str, given: Any, least: int) -> Tensor:
    x = as_tensor(given)
    check_floating(name, x)
    if x.ndim < least:
        raise ShapeError(
            f"{name}: expected an input of at least {least} axes, (n, channels, ...), got {x.shape}"
        )
    return x


def per_channel(features: Any, x: Tensor) -> Any:
    """Return one number per channel in a shape that broadcasts against x, of shape (n, channels, ...)."""
    if features is None or x.ndim == 2:
        return features
    return reshape(features, (x.shape[1], *(1,) * (x.ndim - 2)))


def layer_norm(
    x: Any, normalized_shape: int | Shape, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    r"""Return x with mean 0 and variance 1 over its last axes, scaled and shifted.

    Parameters
    ----------
    x : Tensor or array of shape (..., *normalized_shape)
        Floating point.
    normalized_shape : int or tuple of int
        Shape of the axes to normalize over.
    weight, bias : Tensor or array of shape `normalized_shape`, default=None
        Scale and shift; None for 1 and 0.
    eps : float, default=1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of x's shape.

    Raises
    ------
    ShapeError, DtypeError
        If x has other last axes, or is not floating.

    Notes
    -----
    .. math:: y = \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \gamma + \beta

    with the biased variance (J. L. Ba et al., "Layer normalization", 2016).

    Examples
    --------
    >>> layer_norm([[1.0, 3.0]], 2).numpy()
    array([[-0.999995,  0.999995]])
    """
    x, axes = _last_axes("layer_norm", x, normalized_shape)
    weight, bias = (None if v is None else as_tensor(v) for v in (weight, bias))
    lead = x.shape[: -len(axes)]
    if is_at_once(x, weight, bias, len(lead)):
        if len(axes) == 1:
            return at_once(x, weight, bias, eps)
        n = weight.size
        flat = at_once(reshape(x, (*lead, n)), reshape(weight, (n,)), reshape(bias, (n,)), eps)
        return reshape(flat, x.shape)
    return _affine(_normalized(x, axes, eps), weight, bias)


def rms_norm(x: Any, normalized_shape: int | Shape, weight: Any = None, eps: float = 1e-6) -> Tensor:
    r"""Return x divided by its root mean square over its last axes, and scaled.

    Parameters
    ----------
    x : Tensor or array of shape (..., *normalized_shape)
        Floating point.
    normalized_shape : int or tuple of int
        Shape of the axes to normalize over.
    weight : Tensor or array of shape `normalized_shape`, default=None
        Scale; None for 1.
    eps : float, default=1e-6
        Added to the mean square.

    Returns
    -------
    Tensor
        Of x's shape.

    Raises
    ------
    ShapeError, DtypeError
        If x has other last axes, or is not floating.

    Notes
    -----
    .. math:: y = \frac{x}{\sqrt{\mathrm{E}[x^2] + \epsilon}} \gamma

    (B. Zhang, R. Sennrich, "Root mean square layer normalization", NeurIPS 2019).

    Examples
    --------
    >>> rms_norm([[3.0, 4.0]], 2).numpy()
    array([[0.848528, 1.131371]])
    """
    x, axes = _last_axes("rms_norm", x, normalized_shape)
    return _affine(x / sqrt(mean(square(x), axes, keepdims=True) + eps), weight, None)


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return x with mean 0 and variance 1 over every group of channels of every sample.

    Parameters
    ----------
    x : Tensor or array of shape (n, channels, ...)
        Floating point.
    num_groups : int
        Number of groups that the channels are divided into; 1 normalizes all together, as many as there
        are channels each alone.
    weight, bias : Tensor or array of shape (channels,), default=None
        Scale and shift of each channel; None for 1 and 0.
    eps : float, default=1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of x's shape.

    Raises
    ------
    ShapeError, DtypeError
        If the channels cannot be divided, or x is not floating.

    Notes
    -----
    Y. Wu, K. He, "Group normalization", ECCV 2018.

    Examples
    --------
    >>> group_norm([[1.0, 3.0, 10.0, 10.0]], 2).numpy()
    array([[-0.999995,  0.999995,  0.      ,  0.      ]])
    """
    x = _with_channels("group_norm", x, 2)
    if num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: {x.shape[1]} channels cannot be divided into {num_groups} groups")
    groups = reshape(x, (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]))
    found = reshape(_normalized(groups, tuple(range(2 - groups.ndim, 0)), eps), x.shape)
    return _affine(found, per_channel(weight, x), per_channel(bias, x))


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Return x with mean 0 and variance 1 over every channel of every sample.

    `x` is of shape (n, channels, ...); `weight`, `bias` and `eps` are those of `group_norm`.

    Notes
    -----
    D. Ulyanov et al., "Instance normalization: the missing ingredient for fast stylization", 2016.

    Examples
    --------
    >>> instance_norm([[[1.0, 3.0]]]).numpy()
    array([[[-0.999995,  0.999995]]])
    """
    x = _with_channels("instance_norm", x, 3)
    found = _normalized(x, tuple(range(2 - x.ndim, 0)), eps)
    return _affine(found, per_channel(weight, x), per_channel(bias, x))


def batch_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    mean: Any = None,
    variance: Any = None,
    eps: float = 1e-5,
) -> Tensor:
    r"""Return x with mean 0 and variance 1 in every channel, over the batch or by given statistics.

    Parameters
    ----------
    x : Tensor or array of shape (n, channels, ...)
        Floating point.
    weight, bias : Tensor or array of shape (channels,), default=None
        Scale and shift of each channel; None for 1 and 0.
    mean, variance : Tensor or array of shape (channels,), default=None
        Statistics to normalize by, as in prediction; None for the batch's own.
    eps : float, default=1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of x's shape.

    Raises
    ------
    ShapeError, DtypeError
        If x has fewer than two axes, or is not floating.
    ValueError
        If only one of mean and variance is given.

    Notes
    -----
    .. math:: y = \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} \gamma + \beta

    with the biased variance (S. Ioffe, C. Szegedy, "Batch normalization", ICML 2015).

    Examples
    --------
    >>> batch_norm([[1.0], [3.0]]).numpy()
    array([[-0.999995],
           [ 0.999995]])
    """
    x = _with_channels("batch_norm", x, 2)
    if (mean is None) != (variance is None):
        raise ValueError("batch_norm: mean and variance must be given together, or neither of them")
    if mean is None:
        return _in_steps(x, weight, bias, eps)[0]
    weight, bias = per_channel(weight, x), per_channel(bias, x)
    # One product and one sum over the batch: shift and scale are combined per channel.
    scale = (1.0 if weight is None else weight) / sqrt(per_channel(as_tensor(variance), x) + eps)
    shift = per_channel(as_tensor(mean), x) * scale
    return _affine(x, scale, -shift if bias is None else bias - shift)


def batch_norm_moments(x: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x normalized by `batch_norm` with the batch's statistics and these: mean and biased variance."""
    if is_in_few_passes(x, weight, bias):
        normalized, found = in_few_passes(x, weight, bias, eps)
        shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
        return normalized, reshape(found[0], shape), reshape(found[1], shape)
    return _in_steps(x, weight, bias, eps)


def _in_steps(x: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered, center, variance = moments(x, (-x.ndim, *range(2 - x.ndim, 0)))
    normalized = centered / sqrt(variance + eps)
    return _affine(normalized, per_channel(weight, x), per_channel(bias, x)), center, variance
