"""Normalization over the last axis, scaled and shifted, in one pass, and its gradient in another.

As single operations a layer norm goes over its operand a dozen times, with numbers that are broadcast along
rows. Here some rows at a time stay in the cache. Sums over a row are products with a vector, of `BLOCK`
elements at a time: native code calls the same product for the same rows, so it leaves the same bits.
"""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace, result_dtype
from sknet.ops._batching import batching
from sknet.ops._elementwise import sqrt, square
from sknet.ops._join import concat
from sknet.ops._reduce import mean, sum
from sknet.ops._row_products import MOST, block_of, matrices, products_of, rooms_of
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import broadcast_to, reshape

__all__ = ["at_once", "is_at_once"]

Shape = tuple[int, ...]

LEAST = 1024  # elements of a sample from which on single operations take longer
GROUP = 4  # blocks whose slopes of weight and bias are added
CHUNK = 8  # groups at a time, for NumPy


def is_at_once(x: Tensor, weight: Any, bias: Any, lead: int) -> bool:
    """Tell whether a layer norm over all but so many leading axes is computed in one pass."""
    if x.ndim < 3 or x.device.kind != "cpu" or x.dtype.char != "f":
        return False
    shape = x.shape[lead:]
    fits = lead > 0 and 1 < math.prod(shape) <= MOST and math.prod(x.shape[1:]) >= LEAST
    return fits and all(
        isinstance(v, Tensor) and v.dtype == x.dtype and v.shape == shape for v in (weight, bias)
    )


def at_once(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Return x of shape (..., d) normalized over its last axis, times a weight, plus a bias of shape (d,)."""
    return bind(_norm, (x, weight, bias), {"eps": float(eps)})


# -- rows in blocks ---------------------------------------------------------------------------


def _rows(x: Any) -> tuple[int, int]:
    return math.prod(x.shape[:-1]), x.shape[-1]


def _scratch(x: Any, *_: Any, eps: float) -> list[tuple[Shape, np.dtype[Any]]]:
    """Shape and dtype of products, and of a number for each row, four times."""
    rows, width = _rows(x)
    most = min(rows, CHUNK * GROUP * block_of(width))
    return [((most, width), x.dtype), ((4, most), x.dtype)]


def _scratch_of_gradient(g: Any, x: Any, w: Any, *, eps: float) -> list[tuple[Shape, np.dtype[Any]]]:
    """Shape and dtype of these, and of sums over the rows of each group, for weight and bias."""
    rows, width = _rows(x)
    return [*_scratch(x, eps=eps), ((2, -(-rows // (GROUP * block_of(width))), width), x.dtype)]


def _parts(x: Any) -> list[slice]:
    rows, width = x.shape
    step = CHUNK * GROUP * block_of(width)
    return [slice(start, start + step) for start in range(0, rows, step)]


def _sums(xp: Namespace, x: Any, out: Any) -> None:
    """Write sums over the rows of each group."""
    rows, width = x.shape
    group = GROUP * block_of(width)
    whole = rows - rows % group
    n = whole // group
    xp.sum(x[:whole].reshape(n, group, width), axis=1, out=out[:n])
    if whole < rows:
        xp.sum(x[whole:], axis=0, out=out[n])


def _factors(xp: Namespace, x: Any, ones: Any, eps: float, rooms: Any, c: Any) -> Any:
    """Write rows less their means, and return one over the rows' standard deviations."""
    squares, width = rooms[0][: len(x)], x.shape[1]
    found = products_of(xp, x, ones, rooms[1][0])
    found /= width
    xp.subtract(x, found, out=c)
    xp.multiply(c, c, out=squares)
    found = products_of(xp, squares, ones, rooms[1][1])
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


def _norm_forward(
    xp: Namespace, x: Any, w: Any, b: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    check_floating("layer_norm", x)
    rooms = rooms_of(xp, _scratch(x, eps=eps)) if scratch is None else scratch
    if out is None:
        out = xp.empty(x.shape, dtype=x.dtype)
    if not x.size:
        return out
    (x, w, b), target = matrices(x, w, b), out.reshape(_rows(x))
    native = xp.native_passes()
    if native is not None and native.norm(x, w, b, eps, block_of(x.shape[1]), rooms, target):
        return out
    ones = xp.ones((x.shape[1], 1), dtype=x.dtype)
    for rows in _parts(x):
        found = target[rows]
        found *= _factors(xp, x[rows], ones, eps, rooms, found)
        found *= w
        found += b
    return out


def _gradient_forward(
    xp: Namespace, g: Any, x: Any, w: Any, *, eps: float, out: Any = None, scratch: Any = None
) -> Any:
    """Return the gradients of x, weight and bias in one array."""
    rooms = rooms_of(xp, _scratch_of_gradient(g, x, w, eps=eps)) if scratch is None else scratch
    width = x.shape[-1]
    if out is None:
        out = xp.empty(x.size + 2 * width, dtype=x.dtype)
    dx, totals = out[: x.size].reshape(_rows(x)), out[x.size :].reshape(2, width)
    if x.size:
        (x, w), few = matrices(x, w), _alike(xp, g)
        block = block_of(width)
        native = xp.native_passes()
        if native is None or not native.norm_gradient(few, x, w, eps, block, GROUP * block, rooms, dx):
            _slopes(xp, matrices(g)[0], x, w, eps, rooms, dx)
    xp.sum(rooms[2], axis=1, out=totals)
    return out


def _slopes(xp: Namespace, g: Any, x: Any, w: Any, eps: float, rooms: Any, dx: Any) -> None:
    """Write the gradient of x, and the sums over the rows of each group."""
    width, done = x.shape[1], 0
    ones, column = xp.ones((width, 1), dtype=x.dtype), w.reshape(width, 1)
    for rows in _parts(x):
        given, c = g[rows], dx[rows]
        products = rooms[0][: len(c)]
        factors = _factors(xp, x[rows], ones, eps, rooms, c)
        c *= factors
        xp.multiply(given, c, out=products)
        inner, shares = (products_of(xp, v, column, rooms[1][2 + i]) for i, v in enumerate((given, products)))
        inner /= width
        shares /= width
        for i, of_rows in enumerate((products, given)):
            _sums(xp, of_rows, rooms[2][i, done:])
        done += CHUNK
        xp.multiply(given, w, out=products)
        products -= inner
        c *= shares
        xp.subtract(products, c, out=c)
        c *= factors


# -- in differentiable operations -------------------------------------------------------------


def _normalized(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    centered = x - mean(x, -1, keepdims=True)
    deviation = sqrt(mean(square(centered), -1, keepdims=True) + eps)
    return centered / deviation, deviation


def _in_steps(g: Tensor, x: Tensor, w: Tensor, *, eps: float, lead: int = 0) -> Tensor:
    """Return what `_gradient_forward` does, for each index of so many leading axes."""
    normal, deviation = _normalized(x, eps)
    products, inner = g * normal, g * w
    dx = inner - mean(inner, -1, keepdims=True) - normal * mean(products * w, -1, keepdims=True)
    over = tuple(range(lead - x.ndim, -1))
    parts = dx / deviation, sum(products, over), sum(g, over)
    flat = [reshape(part, (*g.shape[:lead], math.prod(part.shape[lead:]))) for part in parts]
    return concat(flat, axis=-1)


def _gradient_vjp(gg: Tensor, _: Any, *operands: Tensor, eps: float) -> list[Tensor]:
    with enable_grad():
        g, x, w = (
            Tensor(x.data, requires_grad=True) if x.node is None else reshape(x, x.shape) for x in operands
        )
        flat = _in_steps(g, x, w, eps=eps)
    return gradients(flat, [g, x, w], gg, create_graph=is_grad_enabled())


def _norm_vjp(g: Tensor, _: Any, x: Tensor, w: Tensor, b: Tensor, *, eps: float) -> list[Tensor]:
    flat, size = bind(_gradient, (g, x, w), {"eps": eps}), math.prod(x.shape)
    stops = size, size + x.shape[-1]
    return [reshape(flat[: stops[0]], x.shape), flat[stops[0] : stops[1]], flat[stops[1] :]]


def _norm_shape(x: Any, w: Any, b: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("layer_norm", x)
    return x.shape, result_dtype(x, w, b)


def _gradient_shape(g: Any, x: Any, w: Any, eps: float) -> tuple[Shape, np.dtype[Any]]:
    check_floating("layer_norm_gradient", x)
    return (math.prod(x.shape) + 2 * x.shape[-1],), result_dtype(g, x, w)


_norm = Primitive("layer_norm").define(
    forward=_norm_forward,
    shape=_norm_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_norm_vjp),
    lays_out=True,
    scratch=_scratch,
)
_gradient = Primitive("layer_norm_gradient").define(
    forward=_gradient_forward,
    shape=_gradient_shape,
    params={"eps": kinds.NUMBER},
    vjp=SharedRule(_gradient_vjp),
    lays_out=True,
    scratch=_scratch_of_gradient,
)


# -- stacks -----------------------------------------------------------------------------------


def _stacked(x: Any, is_mapped: bool, ndim: int, size: int) -> Any:
    """Return an operand with the axis of the stack, and as many axes as the others."""
    lead = (size,) if is_mapped else (1,)
    own = x.shape[1:] if is_mapped else x.shape
    return reshape(x, (*lead, *(1,) * (ndim - 1 - len(own)), *own))


@batching("layer_norm")
def _norms(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    ndim = operands[0].ndim + (not mapped[0])
    x, w, b = (_stacked(v, m, ndim, size) for v, m in zip(operands, mapped, strict=True))
    out: Tensor = _normalized(x, **params)[0] * w + b
    return out


@batching("layer_norm_gradient")
def _gradients(_: Primitive, operands: Any, mapped: Any, size: int, params: Any) -> Tensor:
    ndim = operands[1].ndim + (not mapped[1])
    g, x, w = (_stacked(v, m, ndim, size) for v, m in zip(operands, mapped, strict=True))
    return _in_steps(broadcast_to(g, (size, *g.shape[1:])), x, w, lead=1, **params)
