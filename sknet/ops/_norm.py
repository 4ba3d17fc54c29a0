"""Normalization: mean 0 and variance 1 over some axes."""

import math
from functools import cache
from typing import Any

import numpy as np

from sknet._params import described_by
from sknet.core import Primitive, Tensor, as_tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.core import _primitive as kinds
from sknet.device import Namespace, result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._batching import batching
from sknet.ops._elementwise import sqrt, square
from sknet.ops._reduce import mean, sum
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import broadcast_to, concat, lengths_of, reshape, zeros

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]


Shape = tuple[int, ...]


def _moments_over(x: Tensor, axes: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return x less its mean over some axes, that mean, and the mean square of the difference."""
    center = mean(x, axes, keepdims=True)
    centered = x - center
    return centered, center, mean(square(centered), axes, keepdims=True)


# -- sums over rows ---------------------------------------------------------------------------

MOST = 8192  # elements that a product with a vector sums; from 9216 on, BLAS may take several threads
BLOCK = 4096  # elements at a time, unless a row is longer: two or three such arrays stay in the nearest cache


def block_of(width: int) -> int:
    """Return how many rows are multiplied at a time."""
    return max(1, BLOCK // max(width, 1))


def row_products(xp: Namespace, x: Any, column: Any, out: Any) -> Any:
    """Write the product of rows and a column, block by block, and return it as a column."""
    rows, width = x.shape
    block, found = block_of(width), out[:rows, None]
    whole = rows - rows % block
    xp.matmul(x[:whole].reshape(-1, block, width), column, out=found[:whole].reshape(-1, block, 1))
    if whole < rows:
        xp.matmul(x[whole:], column, out=found[whole:])
    return found


def buffers_of(xp: Namespace, given: Any) -> list[Any]:
    return [xp.empty(shape, dtype=dtype) for shape, dtype in given]


def matrices(*arrays: Any) -> list[Any]:
    """Return arrays as contiguous matrices with their last axes."""
    contiguous = [x if x.flags.c_contiguous else x.copy() for x in arrays]
    return [x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) for x in contiguous]


# -- batch norms in few passes ----------------------------------------------------------------
#
# An image's channel is a row, and all that differs between channels is a number for each row: centers,
# factors and summands. Native code adds the elements of a row in the same order, so it leaves the same bits.
# The squares of a row are of deviations from its own mean, so that both are made while it is in the cache.
#
# The statistics of a batch are an operand of the norm of their own, so that they are computed once. The
# norm's rules know that they are those of x: its gradient in x is the whole one.

Arrays = list[tuple[Shape, np.dtype[Any]]]

BATCH_LEAST = 3 << 10  # elements of a sample; for fewer, native steps compute single operations as fast
SHORTEST = 16  # elements of a row
BATCH_CHUNK = 16  # blocks at a time, for NumPy
SUMS = 16  # of a row at a time, in vectors of native code


def can_fuse_batch_norm(x: Tensor, weight: Any, bias: Any) -> bool:
    """Tell whether a batch norm is computed in few passes."""
    if x.ndim < 3 or x.device.kind != "cpu" or x.dtype.char != "f":
        return False
    fits = math.prod(x.shape[1:]) >= BATCH_LEAST and _width(x.shape) >= SHORTEST
    return fits and all(
        isinstance(v, Tensor) and v.dtype == x.dtype and v.shape == (x.shape[1],) for v in (weight, bias)
    )


def fused_batch_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
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
    return [((min(rows, BATCH_CHUNK * block_of(width)), width), x.dtype), ((numbers, rows), x.dtype)]


def _room_of_moments(x: Any) -> Arrays:
    return _room(x, 3)


def _room_of_norm(x: Any, *_: Any, eps: float) -> Arrays:
    return _room(x, 3)


def _room_of_gradient(g: Any, x: Any, *_: Any, eps: float) -> Arrays:
    return _room(x, 6)


def _row_parts(x: Any) -> list[slice]:
    step = BATCH_CHUNK * block_of(x.shape[1])
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _spread(numbers: Any, axes: Shape, out: Any) -> Any:
    out.reshape(axes)[...] = numbers[:, np.newaxis]
    return out


def _of_channels(xp: Namespace, sums: Any, axes: Shape) -> Any:
    """Return sums over the rows of each channel."""
    return xp.sum(sums.reshape(axes), axis=(0, 2))


def _row_sums(xp: Namespace, x: Any, g: Any, centers: Any, room: Any, sums: Any, products: Any) -> None:
    """Write sums of rows, and of squares of their deviations from their means."""
    # With a gradient g: sums of its rows, and of their products with centered ones.
    native = xp.native_passes()
    if native is not None and native.sums_of_rows(x, g, centers, sums, products):
        return
    for rows in _row_parts(x):
        given, found = x[rows] if g is None else g[rows], room[: len(x[rows])]
        _add_up(xp, given, sums[rows])
        xp.subtract(
            x[rows], (sums[rows] / x.shape[1] if g is None else centers[rows])[:, np.newaxis], out=found
        )
        found *= found if g is None else given
        _add_up(xp, found, products[rows])


def _add_up(xp: Namespace, x: Any, out: Any) -> None:
    """Write the sum of each row: of `SUMS` sums of every sixteenth element, and of the rest."""
    rows, width = x.shape
    end = width - width % SUMS
    sums, rest = xp.sum(x[:, :end].reshape(rows, -1, SUMS), axis=1), xp.zeros(rows, dtype=x.dtype)
    for n in (SUMS // 2, SUMS // 4, SUMS // 8, SUMS // 16):
        sums = sums[:, :n] + sums[:, n:]
    for column in range(end, width):
        rest += x[:, column]
    xp.add(sums[:, 0], rest, out=out)


# -- the maps ---------------------------------------------------------------------------------


def _moments_forward(xp: Namespace, x: Any, *, out: Any = None, scratch: Any = None) -> Any:
    """Return mean and variance of each channel."""
    check_floating("channel_moments", x)
    room, numbers = buffers_of(xp, _room_of_moments(x)) if scratch is None else scratch
    sums, squares, centers = (numbers[i] for i in range(3))
    if out is None:
        out = xp.empty((2, x.shape[1]), dtype=x.dtype)
    if not x.size:
        out.fill(math.nan)
        return out
    axes, rows, count = _by_row(x), _matrix(x), x.size // x.shape[1]
    width = rows.shape[1]
    _row_sums(xp, rows, None, None, room, sums, squares)
    xp.divide(_of_channels(xp, sums, axes), count, out=out[0])
    sums /= width
    sums -= _spread(out[0], axes, centers)
    sums *= sums
    sums *= width  # deviations of the rows' means from those of channels are in every element besides
    squares += sums
    xp.divide(_of_channels(xp, squares, axes), count, out=out[1])
    return out


def _inverse(xp: Namespace, m: Any, eps: float) -> Any:
    """Return one over the standard deviations."""
    found = m[1] + eps
    xp.sqrt(found, out=found)
    return xp.divide(1, found, out=found)


def _batch_norm_forward(
    xp: Namespace, x: Any, w: Any, b: Any, m: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    check_floating("channel_norm", x)
    room = (buffers_of(xp, _room_of_norm(x, eps=eps)) if scratch is None else scratch)[1]
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
    for part in _row_parts(rows):
        center, factor, shift = (number[part, np.newaxis] for number in numbers)
        found = xp.subtract(rows[part], center, out=target[part])
        found *= factor
        found += shift
    return out


def _batch_gradient_forward(
    xp: Namespace, g: Any, x: Any, w: Any, m: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    """Return the gradients of x, weight and bias in one array."""
    rooms = buffers_of(xp, _room_of_gradient(g, x, eps=eps)) if scratch is None else scratch
    size, channels = x.size, x.shape[1]
    if out is None:
        out = xp.empty(size + 2 * channels, dtype=x.dtype)
    dx, dw, db = out[:size], out[size : size + channels], out[size + channels :]
    if not size:
        out.fill(0)
        return out
    room, axes, count = rooms[0], _by_row(x), size // channels
    sums, products, *numbers = (rooms[1][i] for i in range(6))
    x, g = _matrix(x), _matrix(g)
    _row_sums(xp, x, g, _spread(m[0], axes, numbers[0]), room, sums, products)
    db[...] = _of_channels(xp, sums, axes)
    inverse = _inverse(xp, m, eps)
    xp.multiply(_of_channels(xp, products, axes), inverse, out=dw)
    factor = w * inverse
    for v, number in zip((factor, db / count, factor * inverse * (dw / count)), numbers[1:], strict=True):
        _spread(v, axes, number)
    _write_batch_slopes(xp, x, g, numbers, room, dx.reshape(x.shape))
    return out


def _write_batch_slopes(xp: Namespace, x: Any, g: Any, numbers: Any, room: Any, dx: Any) -> None:
    native = xp.native_passes()
    if native is not None and native.scaled_rows(x, g, numbers, dx):
        return
    for part in _row_parts(x):
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
    return _moments_over(x, (-ndim, *range(2 - ndim, 0)))


def _moments_in_steps(x: Tensor, *, ndim: int | None = None) -> Tensor:
    """Return what `_moments_forward` does, for each index of axes in front of the batch's."""
    ndim = x.ndim if ndim is None else ndim
    _, *found = _centered(x, ndim)
    lead = x.shape[: x.ndim - ndim]
    return concat([reshape(v, (*lead, 1, x.shape[1 - ndim])) for v in found], axis=-2)


def _batch_gradient_in_steps(
    g: Tensor, x: Tensor, w: Tensor, *, eps: float, ndim: int | None = None
) -> Tensor:
    """Return what `_batch_gradient_forward` does, likewise; the statistics are computed again."""
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


def _batch_gradient_vjp(
    gg: Tensor, _: Any, g: Tensor, x: Tensor, w: Tensor, m: Tensor, *, eps: float
) -> list[Tensor]:
    return [*_again(_batch_gradient_in_steps, gg, g, x, w, eps=eps), zeros(m.shape, m.dtype)]


def _batch_norm_vjp(
    g: Tensor, _: Any, x: Tensor, w: Tensor, b: Tensor, m: Tensor, *, eps: float
) -> list[Tensor]:
    flat, size = bind(_batch_gradient, (g, x, w, m), {"eps": eps}), math.prod(x.shape)
    middle = size + x.shape[1]
    return [reshape(flat[:size], x.shape), flat[size:middle], flat[middle:], zeros(m.shape, m.dtype)]


def _moments_shape(x: Any) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_moments", x)
    return (2, x.shape[1]), x.dtype


def _batch_norm_shape(x: Any, w: Any, b: Any, m: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_norm", x)
    return x.shape, result_dtype(x, w, b, m)


def _batch_gradient_shape(g: Any, x: Any, w: Any, m: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("channel_norm_gradient", x)
    return (math.prod(x.shape) + 2 * x.shape[1],), result_dtype(g, x, w, m)


_moments = Primitive("channel_moments").define(
    forward=_moments_forward, shape=_moments_shape, vjp=SharedRule(_moments_vjp), scratch=_room_of_moments
)
_normal = Primitive("channel_norm").define(
    forward=_batch_norm_forward,
    shape=_batch_norm_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_batch_norm_vjp),
    scratch=_room_of_norm,
)
_batch_gradient = Primitive("channel_norm_gradient").define(
    forward=_batch_gradient_forward,
    shape=_batch_gradient_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_batch_gradient_vjp),
    scratch=_room_of_gradient,
)


# -- stacks -----------------------------------------------------------------------------------


def _stacked_channels(x: Any, is_mapped: bool, size: int) -> Any:
    return x if is_mapped else broadcast_to(x, (size, *x.shape))


@batching("channel_moments")
def _stacked_moments(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    [x] = operands
    return _moments_in_steps(x, ndim=x.ndim - 1)


@batching("channel_norm")
def _stacked_batch_norms(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    x, w, b = (_stacked_channels(v, m, size) for v, m in zip(operands[:3], mapped, strict=False))
    ndim = x.ndim - 1
    centered, _center, variance = _centered(x, ndim)
    return centered / sqrt(variance + params["eps"]) * _per_channel(w, ndim) + _per_channel(b, ndim)


@batching("channel_norm_gradient")
def _stacked_batch_gradients(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    g, x, w = (_stacked_channels(v, m, size) for v, m in zip(operands[:3], mapped, strict=False))
    return _batch_gradient_in_steps(g, x, w, ndim=x.ndim - 1, **params)


# -- layer norms in one pass ------------------------------------------------------------------
#
# As single operations a layer norm goes over its operand a dozen times, with numbers that are broadcast along
# rows. Here some rows at a time stay in the cache. Sums over a row are products with a vector, of `BLOCK`
# elements at a time: native code calls the same product for the same rows, so it leaves the same bits.

LAYER_LEAST = 1024  # elements of a sample from which on single operations take longer
LAYER_GROUP = 4  # blocks whose slopes of weight and bias are added
LAYER_CHUNK = 8  # groups at a time, for NumPy


def can_fuse_layer_norm(x: Tensor, weight: Any, bias: Any, lead: int) -> bool:
    """Tell whether a layer norm over all but so many leading axes is computed in one pass."""
    if x.ndim < 3 or x.device.kind != "cpu" or x.dtype.char != "f":
        return False
    shape = x.shape[lead:]
    fits = lead > 0 and 1 < math.prod(shape) <= MOST and math.prod(x.shape[1:]) >= LAYER_LEAST
    return fits and all(
        isinstance(v, Tensor) and v.dtype == x.dtype and v.shape == shape for v in (weight, bias)
    )


def fused_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Return x of shape (..., d) normalized over its last axis, times a weight, plus a bias of shape (d,)."""
    return bind(_layer_norm, (x, weight, bias), {"eps": float(eps)})


# -- rows in blocks ---------------------------------------------------------------------------


def _rows(x: Any) -> tuple[int, int]:
    return math.prod(x.shape[:-1]), x.shape[-1]


def _layer_scratch(x: Any, *_: Any, eps: float) -> list[tuple[Shape, np.dtype[Any]]]:
    """Shape and dtype of products, and of a number for each row, four times."""
    rows, width = _rows(x)
    most = min(rows, LAYER_CHUNK * LAYER_GROUP * block_of(width))
    return [((most, width), x.dtype), ((4, most), x.dtype)]


def _layer_gradient_scratch(g: Any, x: Any, w: Any, *, eps: float) -> list[tuple[Shape, np.dtype[Any]]]:
    """Shape and dtype of numbers of each row, and of sums over rows of each group, for weight and bias."""
    rows, width = _rows(x)
    return [*_layer_scratch(x, eps=eps), ((2, -(-rows // (LAYER_GROUP * block_of(width))), width), x.dtype)]


def _layer_parts(x: Any) -> list[slice]:
    rows, width = x.shape
    step = LAYER_CHUNK * LAYER_GROUP * block_of(width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _sums(xp: Namespace, x: Any, out: Any) -> None:
    """Write sums over the rows of each group."""
    rows, width = x.shape
    group = LAYER_GROUP * block_of(width)
    whole = rows - rows % group
    n = whole // group
    xp.sum(x[:whole].reshape(n, group, width), axis=1, out=out[:n])
    if whole < rows:
        xp.sum(x[whole:], axis=0, out=out[n])


def _factors(xp: Namespace, x: Any, ones: Any, eps: float, rooms: Any, c: Any) -> Any:
    """Write rows less their means, and return one over the rows' standard deviations."""
    squares, width = rooms[0][: len(x)], x.shape[1]
    found = row_products(xp, x, ones, rooms[1][0])
    found /= width
    xp.subtract(x, found, out=c)
    xp.multiply(c, c, out=squares)
    found = row_products(xp, squares, ones, rooms[1][1])
    found /= width
    found += eps
    xp.sqrt(found, out=found)
    return xp.divide(1, found, out=found)


def _alike(xp: Namespace, g: Any) -> Any:
    """Return a block of the rows of an array if all of them are the same number, else all rows."""
    rows, width = _rows(g)
    if any(g.strides) or rows < 2 * block_of(width):
        return matrices(g)[0]
    return xp.broadcast_to(g.reshape(-1)[:1], (block_of(width), width)).copy()


# -- the two maps -----------------------------------------------------------------------------


def _layer_norm_forward(
    xp: Namespace, x: Any, w: Any, b: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    check_floating("layer_norm", x)
    rooms = buffers_of(xp, _layer_scratch(x, eps=eps)) if scratch is None else scratch
    if out is None:
        out = xp.empty(x.shape, dtype=x.dtype)
    if not x.size:
        return out
    (x, w, b), target = matrices(x, w, b), out.reshape(_rows(x))
    native = xp.native_passes()
    if native is not None and native.norm(x, w, b, eps, block_of(x.shape[1]), rooms, target):
        return out
    ones = xp.ones((x.shape[1], 1), dtype=x.dtype)
    for rows in _layer_parts(x):
        found = target[rows]
        found *= _factors(xp, x[rows], ones, eps, rooms, found)
        found *= w
        found += b
    return out


def _layer_gradient_forward(
    xp: Namespace, g: Any, x: Any, w: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    """Return the gradients of x, weight and bias in one array."""
    rooms = buffers_of(xp, _layer_gradient_scratch(g, x, w, eps=eps)) if scratch is None else scratch
    width = x.shape[-1]
    if out is None:
        out = xp.empty(x.size + 2 * width, dtype=x.dtype)
    dx, totals = out[: x.size].reshape(_rows(x)), out[x.size :].reshape(2, width)
    if x.size:
        (x, w), few = matrices(x, w), _alike(xp, g)
        block = block_of(width)
        native = xp.native_passes()
        if native is None or not native.norm_gradient(few, x, w, eps, block, LAYER_GROUP * block, rooms, dx):
            _write_layer_slopes(xp, matrices(g)[0], x, w, eps, rooms, dx)
    xp.sum(rooms[2], axis=1, out=totals)
    return out


def _write_layer_slopes(xp: Namespace, g: Any, x: Any, w: Any, eps: float, rooms: Any, dx: Any) -> None:
    """Write the gradient of x, and the sums over the rows of each group."""
    width, done = x.shape[1], 0
    ones, column = xp.ones((width, 1), dtype=x.dtype), w.reshape(width, 1)
    for rows in _layer_parts(x):
        given, c = g[rows], dx[rows]
        products = rooms[0][: len(c)]
        factors = _factors(xp, x[rows], ones, eps, rooms, c)
        c *= factors
        xp.multiply(given, c, out=products)
        inner, shares = (
            row_products(xp, v, column, rooms[1][2 + i]) for i, v in enumerate((given, products))
        )
        inner /= width
        shares /= width
        for i, of_rows in enumerate((products, given)):
            _sums(xp, of_rows, rooms[2][i, done:])
        done += LAYER_CHUNK
        xp.multiply(given, w, out=products)
        products -= inner
        c *= shares
        xp.subtract(products, c, out=c)
        c *= factors


# -- in differentiable operations -------------------------------------------------------------


def _layer_normalized(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    centered = x - mean(x, -1, keepdims=True)
    deviation = sqrt(mean(square(centered), -1, keepdims=True) + eps)
    return centered / deviation, deviation


def _layer_gradient_in_steps(g: Tensor, x: Tensor, w: Tensor, *, eps: float, lead: int = 0) -> Tensor:
    """Return what `_layer_gradient_forward` does, for each index of so many leading axes."""
    normal, deviation = _layer_normalized(x, eps)
    products, inner = g * normal, g * w
    dx = inner - mean(inner, -1, keepdims=True) - normal * mean(products * w, -1, keepdims=True)
    over = tuple(range(lead - x.ndim, -1))
    parts = dx / deviation, sum(products, over), sum(g, over)
    flat = [reshape(part, (*g.shape[:lead], math.prod(part.shape[lead:]))) for part in parts]
    return concat(flat, axis=-1)


def _layer_gradient_vjp(gg: Tensor, _: Any, *operands: Tensor, eps: float) -> list[Tensor]:
    with enable_grad():
        g, x, w = (
            Tensor(x.data, requires_grad=True) if x.node is None else reshape(x, x.shape) for x in operands
        )
        flat = _layer_gradient_in_steps(g, x, w, eps=eps)
    return gradients(flat, [g, x, w], gg, create_graph=is_grad_enabled())


def _layer_norm_vjp(g: Tensor, _: Any, x: Tensor, w: Tensor, b: Tensor, *, eps: float) -> list[Tensor]:
    flat, size = bind(_layer_gradient, (g, x, w), {"eps": eps}), math.prod(x.shape)
    stops = size, size + x.shape[-1]
    return [reshape(flat[: stops[0]], x.shape), flat[stops[0] : stops[1]], flat[stops[1] :]]


def _layer_norm_shape(x: Any, w: Any, b: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("layer_norm", x)
    return x.shape, result_dtype(x, w, b)


def _layer_gradient_shape(g: Any, x: Any, w: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("layer_norm_gradient", x)
    return (math.prod(x.shape) + 2 * x.shape[-1],), result_dtype(g, x, w)


_layer_norm = Primitive("layer_norm").define(
    forward=_layer_norm_forward,
    shape=_layer_norm_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_layer_norm_vjp),
    lays_out=True,
    scratch=_layer_scratch,
)
_layer_gradient = Primitive("layer_norm_gradient").define(
    forward=_layer_gradient_forward,
    shape=_layer_gradient_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_layer_gradient_vjp),
    lays_out=True,
    scratch=_layer_gradient_scratch,
)


# -- stacks -----------------------------------------------------------------------------------


def _stacked_operand(x: Any, is_mapped: bool, ndim: int, size: int) -> Any:
    """Return an operand with the axis of the stack, and as many axes as the others."""
    lead = (size,) if is_mapped else (1,)
    own = x.shape[1:] if is_mapped else x.shape
    return reshape(x, (*lead, *(1,) * (ndim - 1 - len(own)), *own))


@batching("layer_norm")
def _stacked_layer_norms(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    ndim = operands[0].ndim + (not mapped[0])
    x, w, b = (_stacked_operand(v, m, ndim, size) for v, m in zip(operands, mapped, strict=True))
    return _layer_normalized(x, **params)[0] * w + b


@batching("layer_norm_gradient")
def _stacked_layer_gradients(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    ndim = operands[1].ndim + (not mapped[1])
    g, x, w = (_stacked_operand(v, m, ndim, size) for v, m in zip(operands, mapped, strict=True))
    return _layer_gradient_in_steps(broadcast_to(g, (size, *g.shape[1:])), x, w, lead=1, **params)


# -- functions --------------------------------------------------------------------------------


def _normalized(x: Tensor, axes: Shape, eps: float) -> Tensor:
    centered, _, variance = _moments_over(x, axes)
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
        Same shape as x.

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
    if can_fuse_layer_norm(x, weight, bias, len(lead)):
        if len(axes) == 1:
            return fused_layer_norm(x, weight, bias, eps)
        n = weight.size
        flat = fused_layer_norm(reshape(x, (*lead, n)), reshape(weight, (n,)), reshape(bias, (n,)), eps)
        return reshape(flat, x.shape)
    return _affine(_normalized(x, axes, eps), weight, bias)


@described_by(layer_norm)
def rms_norm(x: Any, normalized_shape: int | Shape, weight: Any = None, eps: float = 1e-6) -> Tensor:
    r"""Return x divided by its root mean square over its last axes, and scaled.

    Parameters
    ----------
    weight : Tensor or array of shape `normalized_shape`, default=None
        Scale; None for 1.
    eps : float, default=1e-6
        Added to the mean square.

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


@described_by(layer_norm)
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


@described_by(group_norm)
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
    mean, variance : Tensor or array of shape (channels,), default=None
        Statistics to normalize by, as in prediction; None for the batch's own.

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
        return _unfused_batch_norm(x, weight, bias, eps)[0]
    weight, bias = per_channel(weight, x), per_channel(bias, x)
    # One product and one sum over the batch: shift and scale are combined per channel.
    scale = (1.0 if weight is None else weight) / sqrt(per_channel(as_tensor(variance), x) + eps)
    shift = per_channel(as_tensor(mean), x) * scale
    return _affine(x, scale, -shift if bias is None else bias - shift)


def batch_norm_moments(x: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return x normalized by statistics of the batch, with its mean and biased variance."""
    if can_fuse_batch_norm(x, weight, bias):
        normalized, found = fused_batch_norm(x, weight, bias, eps)
        shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
        return normalized, reshape(found[0], shape), reshape(found[1], shape)
    return _unfused_batch_norm(x, weight, bias, eps)


def _unfused_batch_norm(x: Tensor, weight: Any, bias: Any, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    centered, center, variance = _centered(x, x.ndim)
    normalized = centered / sqrt(variance + eps)
    return _affine(normalized, per_channel(weight, x), per_channel(bias, x)), center, variance
