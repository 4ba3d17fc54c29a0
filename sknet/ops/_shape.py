"""Other shapes for the same elements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, normalize_axes, normalize_axis
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace
from sknet.exceptions import ShapeError
from sknet.ops._rules import broadcast, unbroadcast

__all__ = [
    "broadcast_arrays", "broadcast_to", "expand_dims", "flatten", "matrix_transpose", "moveaxis",
    "permute_dims", "reshape", "squeeze",
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


def _reshape_forward(xp: Namespace, x: Any, *, shape: Shape) -> Any:
    return x.reshape(shape)


def _reshape_view(xp: Namespace, x: Any, *, shape: Shape) -> Any:
    """Return a view wherever NumPy returns one, such as for a new axis of a transposed array."""
    found = x.reshape(shape)
    if type(x) is not np.ndarray or x.flags.c_contiguous or np.may_share_memory(found, x):
        return found
    return None


p.reshape.define(
    forward=_reshape_forward,
    shape=_reshape_shape,
    params={"shape": kinds.tuple_of(kinds.INTEGER)},
    vjp=(lambda g, _, x, shape: reshape(g, x.shape),),
    saves="nothing",
    view=_reshape_view,
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
    params={"axes": kinds.AXES},
    vjp=(lambda g, _, x, axes: permute_dims(g, _inverse(axes)),),
    saves="nothing",
    view=lambda xp, x, *, axes: x.transpose(axes),
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
    params={"shape": kinds.LENGTHS},
    vjp=(lambda g, _, x, shape: unbroadcast(g, x),),
    saves="nothing",
    view=lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    writes_out=False,
)


def lengths_of(shape: int | Sequence[int]) -> Shape:
    """Return a shape that may be one length as a tuple."""
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)


def reshape(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return the same elements in another shape; one length may be -1."""
    return bind(p.reshape, (as_tensor(x),), {"shape": lengths_of(shape)})


def permute_dims(x: Any, axes: Sequence[int]) -> Tensor:
    """Return x with its axes in another order."""
    x = as_tensor(x)
    return bind(p.permute_dims, (x,), {"axes": normalize_axes(tuple(axes), x.ndim, "permute_dims")})


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return x with the axes `source` at the positions `destination`, and the others in their order."""
    x = as_tensor(x)
    moved = normalize_axes(_several(source), x.ndim, "moveaxis")
    places = normalize_axes(_several(destination), x.ndim, "moveaxis")
    if len(moved) != len(places):
        raise ShapeError(f"moveaxis: {source} are {len(moved)} axes, {destination} are {len(places)} places")
    taken = dict(zip(places, moved, strict=True))
    others = iter([a for a in range(-x.ndim, 0) if a not in moved])
    axes = tuple([taken[a] if a in taken else next(others) for a in range(-x.ndim, 0)])
    return bind(p.permute_dims, (x,), {"axes": axes})


def _several(axis: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)  # type: ignore[return-value]


def matrix_transpose(x: Any) -> Tensor:
    """Return x with its last two axes exchanged."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: expected at least 2 axes, got shape {x.shape}")
    return bind(p.permute_dims, (x,), {"axes": (*range(-x.ndim, -2), -1, -2)})


def broadcast_to(x: Any, shape: int | Sequence[int]) -> Tensor:
    """Return x repeated along new axes and axes of length 1 to have `shape`, as a view."""
    x, lengths = as_tensor(x), lengths_of(shape)
    return x if x.shape == lengths else bind(_broadcast_to, (x,), {"shape": lengths})


def broadcast_arrays(*xs: Any) -> tuple[Tensor, ...]:
    """Return all `xs` broadcast to their common shape, as views."""
    tensors = [as_tensor(x) for x in xs]
    shape = broadcast("broadcast_arrays", *tensors)
    return tuple([broadcast_to(x, shape) for x in tensors])


def expand_dims(x: Any, axis: int | tuple[int, ...]) -> Tensor:
    """Return x with a new axis of length 1 at position `axis` of the result, or at several."""
    x = as_tensor(x)
    ndim = x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    new = {a % ndim for a in normalize_axes(axis, ndim, "expand_dims")}
    lengths = iter(x.shape)
    return reshape(x, tuple(1 if a in new else next(lengths) for a in range(ndim)))


def squeeze(x: Any, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return x without the axes of length 1 that `axis` names; None removes all of them."""
    x = as_tensor(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    gone = {a % x.ndim for a in normalize_axes(axis, x.ndim, "squeeze")}
    long = [a for a in gone if x.shape[a] != 1]
    if long:
        raise ShapeError(f"squeeze: axis {long[0]} of shape {x.shape} has length {x.shape[long[0]]}, not 1")
    return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in gone))


def flatten(x: Any, start: int = 0) -> Tensor:
    """Return x with its axes from `start` on flattened into one."""
    x = as_tensor(x)
    if not x.ndim:
        return reshape(x, (1,))
    at = normalize_axis(start, x.ndim, "flatten") % x.ndim
    return reshape(x, (*x.shape[:at], math.prod(x.shape[at:])))
