"""Normalization of channels over a batch of images or sequences in few passes, and its gradient.

An image's channel is a row, and all that differs between channels is a number for each row: centers, factors
and summands. Sums are products with a vector, as those of layer norms.

The statistics of a batch are an operand of the norm of their own, so that they are computed once. The norm's
rules know that they are those of x: its gradient in x is the whole one.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace, result_dtype
from sknet.ops._batching import batching
from sknet.ops._create import zeros
from sknet.ops._elementwise import sqrt, square
from sknet.ops._join import concat
from sknet.ops._reduce import mean, sum
from sknet.ops._row_products import MOST, block_of, matrices, products_of, rooms_of
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import broadcast_to, reshape

__all__ = ["in_few_passes", "is_in_few_passes"]

Shape = tuple[int, ...]
Arrays = list[tuple[Shape, np.dtype[Any]]]

LEAST = 1 << 14  # elements of a sample; for fewer, native steps compute single operations as fast
SHORTEST = 16  # elements of a row
CHUNK = 16  # blocks at a time, for NumPy


def is_in_few_passes(x: Tensor, weight: Any, bias: Any) -> bool:
    """Tell whether a batch norm is computed in few passes."""
    if x.ndim < 3 or x.device.kind != "cpu" or x.dtype.char != "f":
        return False
    fits = math.prod(x.shape[1:]) >= LEAST and _width(x.shape) >= SHORTEST
    return fits and all(
        isinstance(v, Tensor) and v.dtype == x.dtype and v.shape == (x.shape[1],) for v in (weight, bias)
    )


def in_few_passes(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return x of shape (n, channels, ...) normalized by channel, and means and variances (2, channels)."""
    found = bind(_moments, (x,), {})
    return bind(_normal, (x, weight, bias, found.detach()), {"eps": float(eps)}), found


# -- rows -------------------------------------------------------------------------------------


def _width(shape: Shape) -> int:
    return _longest(math.prod(shape[2:]))


@cache
def _longest(length: int) -> int:
    """Return the length of rows: that of a channel, or of equal parts of it if it is too long."""
    parts = (k for k in range(1, length + 1) if length % k == 0 and length // k <= MOST)
    return length // next(parts, 1)


def _by_row(x: Any) -> Shape:
    """Return the axes of numbers of rows: samples, channels and parts."""
    width = _width(x.shape)
    return *x.shape[:2], math.prod(x.shape[2:]) // width if width else 1


def _matrix(x: Any) -> Any:
    width = _width(x.shape)
    return matrices(x)[0].reshape(x.size // width, width)


def _room(x: Any, numbers: int) -> Arrays:
    """Shape and dtype of products of some rows, and of so many numbers for each row."""
    width, rows = _width(x.shape), math.prod(_by_row(x))
    return [((min(rows, CHUNK * block_of(width)), width), x.dtype), ((numbers, rows), x.dtype)]


def _room_of_moments(x: Any) -> Arrays:
    return _room(x, 2)


def _room_of_norm(x: Any, *_: Any, eps: float) -> Arrays:
    return _room(x, 3)


def _room_of_gradient(g: Any, x: Any, *_: Any, eps: float) -> Arrays:
    return _room(x, 5)


def _parts(x: Any) -> list[slice]:
    step = CHUNK * block_of(x.shape[1])
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _spread(numbers: Any, axes: Shape, out: Any) -> Any:
    """Write a channel's number for each row."""
    out.reshape(axes)[...] = numbers[:, np.newaxis]
    return out


def _of_channels(xp: Namespace, sums: Any, axes: Shape) -> Any:
    """Return sums over the rows of each channel."""
    return xp.sum(sums.reshape(axes), axis=(0, 2))


def _sums_of_products(xp: Namespace, x: Any, g: Any, centers: Any, room: Any, sums: Any) -> None:
    """Write sums over rows of the products of centered elements and others, or of their squares."""
    native = xp.native_passes()
    if native is not None and native.sums_of_products(x, g, centers, block_of(x.shape[1]), room, sums):
        return
    ones = xp.ones((x.shape[1], 1), dtype=x.dtype)
    for rows in _parts(x):
        products = room[: len(x[rows])]
        xp.subtract(x[rows], centers[rows, np.newaxis], out=products)
        products *= products if g is None else g[rows]
        products_of(xp, products, ones, sums[rows])


# -- the maps ---------------------------------------------------------------------------------


def _moments_forward(xp: Namespace, x: Any, *, out: Any = None, scratch: Any = None) -> Any:
    """Return mean and variance of each channel."""
    check_floating("channel_moments", x)
    room, numbers = rooms_of(xp, _room_of_moments(x)) if scratch is None else scratch
    sums, centers = numbers[0], numbers[1]
    if out is None:
        out = xp.empty((2, x.shape[1]), dtype=x.dtype)
    if not x.size:
        out.fill(math.nan)
        return out
    axes, rows, count = _by_row(x), _matrix(x), x.size // x.shape[1]
    products_of(xp, rows, xp.ones((rows.shape[1], 1), dtype=x.dtype), sums)
    xp.divide(_of_channels(xp, sums, axes), count, out=out[0])
    _sums_of_products(xp, rows, None, _spread(out[0], axes, centers), room, sums)
    xp.divide(_of_channels(xp, sums, axes), count, out=out[1])
    return out


def _inverse(xp: Namespace, m: Any, eps: float) -> Any:
    """Return one over the standard deviations."""
    found = m[1] + eps
    xp.sqrt(found, out=found)
    return xp.divide(1, found, out=found)


def _norm_forward(
    xp: Namespace, x: Any, w: Any, b: Any, m: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    check_floating("channel_norm", x)
    room = (rooms_of(xp, _room_of_norm(x, eps=eps)) if scratch is None else scratch)[1]
    if out is None:
        out = xp.empty(x.shape, dtype=x.dtype)
    if not x.size:
        return out
    rows, axes = _matrix(x), _by_row(x)
    target, given = out.reshape(rows.shape), (m[0], w * _inverse(xp, m, eps), b)
    numbers = [_spread(v, axes, room[i]) for i, v in enumerate(given)]
    native = xp.native_passes()
    if native is not None and native.scaled_rows(rows, None, numbers, target):
        return out
    for part in _parts(rows):
        center, factor, shift = (number[part, np.newaxis] for number in numbers)
        found = xp.subtract(rows[part], center, out=target[part])
        found *= factor
        found += shift
    return out


def _gradient_forward(
    xp: Namespace, g: Any, x: Any, w: Any, m: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    """Return the gradients of x, weight and bias in one array."""
    rooms = rooms_of(xp, _room_of_gradient(g, x, eps=eps)) if scratch is None else scratch
    size, channels = x.size, x.shape[1]
    if out is None:
        out = xp.empty(size + 2 * channels, dtype=x.dtype)
    dx, dw, db = out[:size], out[size : size + channels], out[size + channels :]
    if not size:
        out.fill(0)
        return out
    room, axes, count = rooms[0], _by_row(x), size // channels
    sums, *numbers = (rooms[1][i] for i in range(5))
    x, g = _matrix(x), _matrix(g)
    products_of(xp, g, xp.ones((g.shape[1], 1), dtype=g.dtype), sums)
    db[...] = _of_channels(xp, sums, axes)
    _sums_of_products(xp, x, g, _spread(m[0], axes, numbers[0]), room, sums)
    inverse = _inverse(xp, m, eps)
    xp.multiply(_of_channels(xp, sums, axes), inverse, out=dw)
    factor = w * inverse
    for v, number in zip((factor, db / count, factor * inverse * (dw / count)), numbers[1:], strict=True):
        _spread(v, axes, number)
    _slopes(xp, x, g, numbers, room, dx.reshape(x.shape))
    return out


def _slopes(xp: Namespace, x: Any, g: Any, numbers: Any, room: Any, dx: Any) -> None:
    native = xp.native_passes()
    if native is not None and native.scaled_rows(x, g, numbers, dx):
        return
    for part in _parts(x):
        center, factor, shift, slope = (number[part, np.newaxis] for number in numbers)
        products = xp.subtract(x[part], center, out=room[: len(x[part])])
        products *= slope
        found = xp.subtract(g[part], shift, out=dx[part])
        found *= factor
        found -= products


# -- in differentiable operations -------------------------------------------------------------


def _per_channel(v: Tensor, ndim: int) -> Tensor:
    """Return numbers of shape (..., channels) as (..., 1, channels, 1, ...), for `ndim` axes of a batch."""
    return reshape(v, (*v.shape[:-1], 1, v.shape[-1], *(1,) * (ndim - 2)))


def _centered(x: Tensor, ndim: int) -> tuple[Tensor, Tensor, Tensor]:
    axes = (-ndim, *range(2 - ndim, 0))
    center = mean(x, axes, keepdims=True)
    centered = x - center
    return centered, center, mean(square(centered), axes, keepdims=True)


def _moments_in_steps(x: Tensor, *, ndim: int | None = None) -> Tensor:
    """Return what `_moments_forward` does, for each index of axes in front of the batch's."""
    ndim = x.ndim if ndim is None else ndim
    _, *found = _centered(x, ndim)
    lead = x.shape[: x.ndim - ndim]
    return concat([reshape(v, (*lead, 1, x.shape[1 - ndim])) for v in found], axis=-2)


def _gradient_in_steps(g: Tensor, x: Tensor, w: Tensor, *, eps: float, ndim: int | None = None) -> Tensor:
    """Return what `_gradient_forward` does, likewise; the statistics are computed again."""
    ndim = x.ndim if ndim is None else ndim
    axes, lead = (-ndim, *range(2 - ndim, 0)), g.shape[: g.ndim - ndim]
    centered, _, variance = _centered(x, ndim)
    deviation = sqrt(variance + eps)
    normal = centered / deviation
    inner = g - mean(g, axes, keepdims=True) - normal * mean(g * normal, axes, keepdims=True)
    parts = inner / deviation * _per_channel(w, ndim), sum(g * normal, axes), sum(g, axes)
    flat = [reshape(part, (*lead, math.prod(part.shape[len(lead) :]))) for part in parts]
    return concat(flat, axis=-1)


def _again(function: Any, g: Tensor, *operands: Tensor, **params: Any) -> list[Tensor]:
    """Return the gradients of a function in steps."""
    with enable_grad():
        leaves = [
            Tensor(x.data, requires_grad=True) if x.node is None else reshape(x, x.shape) for x in operands
        ]
        found = function(*leaves, **params)
    return gradients(found, leaves, g, create_graph=is_grad_enabled())


def _moments_vjp(g: Tensor, _: Any, x: Tensor) -> list[Tensor]:
    return _again(_moments_in_steps, g, x)


def _gradient_vjp(
    gg: Tensor, _: Any, g: Tensor, x: Tensor, w: Tensor, m: Tensor, *, eps: float
) -> list[Tensor]:
    return [*_again(_gradient_in_steps, gg, g, x, w, eps=eps), zeros(m.shape, m.dtype)]


def _norm_vjp(g: Tensor, _: Any, x: Tensor, w: Tensor, b: Tensor, m: Tensor, *, eps: float) -> list[Tensor]:
    flat, size = bind(_gradient, (g, x, w, m), {"eps": eps}), math.prod(x.shape)
    middle = size + x.shape[1]
    return [reshape(flat[:size], x.shape), flat[size:middle], flat[middle:], zeros(m.shape, m.dtype)]


def _moments_shape(x: Any) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_moments", x)
    return (2, x.shape[1]), x.dtype


def _norm_shape(x: Any, w: Any, b: Any, m: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_norm", x)
    return x.shape, result_dtype(x, w, b, m)


def _gradient_shape(g: Any, x: Any, w: Any, m: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_norm_gradient", x)
    return (math.prod(x.shape) + 2 * x.shape[1],), result_dtype(g, x, w, m)


_moments = Primitive("channel_moments").define(
    forward=_moments_forward, shape=_moments_shape, vjp=SharedRule(_moments_vjp), scratch=_room_of_moments
)
_normal = Primitive("channel_norm").define(
    forward=_norm_forward,
    shape=_norm_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_norm_vjp),
    scratch=_room_of_norm,
)
_gradient = Primitive("channel_norm_gradient").define(
    forward=_gradient_forward,
    shape=_gradient_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_gradient_vjp),
    scratch=_room_of_gradient,
)


# -- stacks -----------------------------------------------------------------------------------


def _stacked(x: Any, is_mapped: bool, size: int) -> Any:
    return x if is_mapped else broadcast_to(x, (size, *x.shape))


@batching("channel_moments")
def _many_moments(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    [x] = operands
    return _moments_in_steps(x, ndim=x.ndim - 1)


@batching("channel_norm")
def _norms(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    x, w, b = (_stacked(v, m, size) for v, m in zip(operands[:3], mapped, strict=False))
    ndim = x.ndim - 1
    centered, _center, variance = _centered(x, ndim)
    out: Tensor = centered / sqrt(variance + params["eps"]) * _per_channel(w, ndim) + _per_channel(b, ndim)
    return out


@batching("channel_norm_gradient")
def _gradients(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    g, x, w = (_stacked(v, m, size) for v, m in zip(operands[:3], mapped, strict=False))
    return _gradient_in_steps(g, x, w, ndim=x.ndim - 1, **params)
