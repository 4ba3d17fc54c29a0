"""Other shapes for the same elements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core import _primitive as p
from sknet.device import result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._index import take_slice
from sknet.ops._rules import EveryOperand, astype_like, unbroadcast

__all__ = [
    "broadcast_to", "concat", "expand_dims", "matrix_transpose", "ones_like", "permute_dims", "reshape",
    "squeeze", "stack", "zeros_like",
]  # fmt: skip

Shape = tuple[int, ...]


# -- reshape, permute, broadcast: views -------------------------------------------------------


def _reshape_shape(x: Any, shape: Shape) -> tuple[Shape, np.dtype[Any]]:
    size, known = math.prod(x.shape), math.prod(n for n in shape if n != -1)
    open_axes = sum(n == -1 for n in shape)
    fits = known == size if open_axes == 0 else open_axes == 1 and known > 0 and size % known == 0
    if not fits or any(n < -1 for n in shape):
        raise ShapeError(f"reshape: {size} elements of shape {tuple(x.shape)} do not fit into shape {shape}")
    return tuple(size // known if n == -1 else n for n in shape), x.dtype


def _reshape_forward(xp: Any, x: Any, *, shape: Shape) -> Any:
    return x.reshape(shape)


p.reshape.define(
    forward=_reshape_forward,
    shape=_reshape_shape,
    vjp=(lambda g, _, x, shape: reshape(g, x.shape),),
    saves="nothing",
    writes_out=False,
)


def _permute_shape(x: Any, axes: Shape) -> tuple[Shape, np.dtype[Any]]:
    if sorted(axes) != list(range(-len(x.shape), 0)):
        raise ShapeError(f"permute_dims: expected every axis of shape {tuple(x.shape)} once, got {axes}")
    return tuple(x.shape[a] for a in axes), x.dtype


def _inverse(axes: Shape) -> Shape:
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return tuple(i - len(axes) for i in order)


p.permute_dims.define(
    forward=lambda xp, x, *, axes: x.transpose(axes),
    shape=_permute_shape,
    vjp=(lambda g, _, x, axes: permute_dims(g, _inverse(axes)),),
    saves="nothing",
    writes_out=False,
)


def _broadcast_shape(x: Any, shape: Shape) -> tuple[Shape, np.dtype[Any]]:
    pairs = zip(x.shape[::-1], shape[::-1], strict=False)
    if len(shape) < len(x.shape) or any(n < 0 for n in shape) or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(f"broadcast_to: shape {tuple(x.shape)} does not broadcast to {shape}")
    return shape, x.dtype


_broadcast_to = Primitive("broadcast_to").define(
    forward=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    shape=_broadcast_shape,
    vjp=(lambda g, _, x, shape: unbroadcast(g, x),),
    saves="nothing",
    writes_out=False,
)


def reshape(x: Any, shape: Sequence[int]) -> Tensor:
    """Return the same elements in another shape; one length may be -1."""
    return bind(p.reshape, (as_tensor(x),), {"shape": tuple(shape)})


def permute_dims(x: Any, axes: Sequence[int]) -> Tensor:
    """Return x with its axes in another order."""
    x = as_tensor(x)
    return bind(p.permute_dims, (x,), {"axes": normalize_axes(tuple(axes), x.ndim, "permute_dims")})


def matrix_transpose(x: Any) -> Tensor:
    """Return x with its last two axes exchanged."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: expected at least 2 axes, got shape {x.shape}")
    return bind(p.permute_dims, (x,), {"axes": (*range(-x.ndim, -2), -1, -2)})


def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    """Return x repeated along new axes and axes of length 1 to have `shape`, as a view."""
    x = as_tensor(x)
    return x if x.shape == tuple(shape) else bind(_broadcast_to, (x,), {"shape": tuple(shape)})


def expand_dims(x: Any, axis: int) -> Tensor:
    """Return x with a new axis of length 1 at position `axis`."""
    x = as_tensor(x)
    at = normalize_axis(axis, x.ndim + 1, "expand_dims") % (x.ndim + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


def squeeze(x: Any, axis: int | tuple[int, ...]) -> Tensor:
    """Return x without the axes of length 1 that `axis` names."""
    x = as_tensor(x)
    gone = {a % x.ndim for a in normalize_axes(axis, x.ndim, "squeeze")}
    long = [a for a in gone if x.shape[a] != 1]
    if long:
        raise ShapeError(f"squeeze: axis {long[0]} of shape {x.shape} has length {x.shape[long[0]]}, not 1")
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in gone))


# -- joining ----------------------------------------------------------------------------------


def _concat_shape(*xs: Any, axis: int) -> tuple[Shape, np.dtype[Any]]:
    at = len(xs[0].shape) + axis
    if len({(len(x.shape), x.shape[:at], x.shape[at + 1 :]) for x in xs}) > 1:
        raise ShapeError(f"concat: shapes {[tuple(x.shape) for x in xs]} differ outside axis {axis}")
    lengths = list(xs[0].shape)
    lengths[axis] = sum(x.shape[axis] for x in xs)
    return tuple(lengths), result_dtype(*xs)


def _part(g: Tensor, xs: Sequence[Any], i: int, axis: int) -> Tensor:
    start = sum(x.shape[axis] for x in xs[:i])
    return astype_like(take_slice(g, axis, start, start + xs[i].shape[axis]), xs[i])


_concat = Primitive("concat").define(
    forward=lambda xp, *xs, axis, out=None: xp.concatenate(xs, axis=axis, out=out),
    shape=_concat_shape,
    vjp=EveryOperand(_part),
    saves="nothing",
)


def concat(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """Return the tensors joined along an axis that they have."""
    tensors = [as_tensor(x) for x in xs]
    if not tensors:
        raise ShapeError("concat: expected at least one tensor, got an empty sequence")
    return bind(_concat, tuple(tensors), {"axis": normalize_axis(axis, tensors[0].ndim, "concat")})


def stack(xs: Sequence[Any], axis: int = 0) -> Tensor:
    """Return the tensors joined along a new axis."""
    tensors = [as_tensor(x) for x in xs]
    shapes = {x.shape for x in tensors}
    if len(shapes) != 1:
        raise ShapeError(f"stack: expected tensors of one shape, got {sorted(shapes) or 'no tensor'}")
    return concat([expand_dims(x, axis) for x in tensors], axis)


# -- filled -----------------------------------------------------------------------------------


def _filled(name: str) -> Primitive:
    return Primitive(name).define(
        forward=lambda xp, x: getattr(xp, name)(x),
        shape=lambda x: (x.shape, x.dtype),
        vjp=None,
        writes_out=False,
    )


_zeros_like, _ones_like = _filled("zeros_like"), _filled("ones_like")


def zeros_like(x: Any) -> Tensor:
    """Return zeros of x's shape, dtype and device."""
    return bind(_zeros_like, (as_tensor(x),), {})


def ones_like(x: Any) -> Tensor:
    """Return ones of x's shape, dtype and device."""
    return bind(_ones_like, (as_tensor(x),), {})
