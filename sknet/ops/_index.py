"""Indexing with brackets: ``x[index]``, ``x[index] = value``, and their adjoints."""

import math
from typing import Any

import numpy as np

from sknet._indexing import is_basic, may_repeat, rows_of, with_ellipsis
from sknet.core import Primitive, Shaped, Tensor, bind
from sknet.core.extend import param_kinds as kinds
from sknet.core.extend import primitives as p
from sknet.device import Namespace, backend_of, is_array, to_device, to_host
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._elementwise import where
from sknet.ops._rules import broadcast, unbroadcast, zeros_into

__all__: list[str] = []

Shape = tuple[int, ...]


def _getitem_shape(x: Any, index: Any) -> tuple[Shape, np.dtype[Any]]:
    # NumPy's own indexing of an array of x's shape whose elements all share one byte of memory. Arrays of
    # indices would copy it: one more axis of length 0 leaves nothing to copy.
    shape = tuple(x.shape)
    is_copied = not is_basic(index) and _n_axes(index) <= len(shape)
    shown = (*shape, 0) if is_copied else shape
    ghost = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), shown, (0,) * len(shown))
    try:
        if is_copied:
            return ghost[(*with_ellipsis(index), slice(None))].shape[:-1], x.dtype
        return ghost[index].shape, x.dtype
    except IndexError as error:
        raise IndexError(f"indexing: {error} (the tensor has shape {tuple(x.shape)})") from None


def _n_axes(index: Any) -> int:
    """Return how many axes an index takes away or cuts: a mask has several, a new axis none."""
    parts = index if isinstance(index, tuple) else (index,)
    return sum(_n_axes_of(part) for part in parts if part is not None and part is not Ellipsis)


def _n_axes_of(part: Any) -> int:
    if isinstance(part, (bool, np.bool_)):
        return 0
    if isinstance(part, (int, np.integer, slice)):
        return 1
    array = np.asarray(part)
    return array.ndim if array.dtype.kind == "b" else 1


p.getitem.define(
    forward=lambda xp, x, *, index: x[index],
    shape=_getitem_shape,
    params={"index": kinds.INDEX},
    vjp=(lambda g, _, x, index: _put_back(g, index, x.shape),),
    saves="nothing",
    view=lambda xp, x, *, index: x[with_ellipsis(index)] if is_basic(index) else None,
    writes_out=False,
)


def _scatter_add_forward(xp: Namespace, g: Any, *, index: Any, shape: Shape, out: Any = None) -> Any:
    out = zeros_into(xp, shape, g.dtype, out)
    if not g.size:  # rows without elements have indices, too
        return out
    if may_repeat(index):
        rows, length = rows_of(xp, index, shape)
        xp.add_rows_at(_matrix(out, length), rows, _matrix(g, length))
    else:
        out[index] = g
    return out


def _matrix(x: Any, length: int) -> Any:
    return x.reshape(x.size // length if length else 0, length)


_scatter_add = Primitive("scatter_add").define(
    forward=_scatter_add_forward,
    shape=lambda g, index, shape: (shape, g.dtype),
    params={"index": kinds.INDEX, "shape": kinds.LENGTHS},
    vjp=(lambda g, _, x, index, shape: g[index],),
    saves="nothing",
)


def _setitem_shape(x: Any, value: Any, index: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    place, _ = _getitem_shape(x, index)
    given = tuple(getattr(value, "shape", ()))
    while len(given) > len(place) and given[0] == 1:
        given = given[1:]
    if broadcast("x[index] = value", Shaped(place, x.dtype), Shaped(given, None)) != place:
        raise ShapeError(f"x[index] = value: a value of shape {given} does not fit into shape {place}")
    _check_kind(x, value)
    return tuple(x.shape), x.dtype


def _check_kind(x: Any, value: Any) -> None:
    dtype = value.dtype if hasattr(value, "dtype") else np.dtype(type(value))
    if dtype.kind == "f" and x.dtype.kind != "f":
        raise DtypeError(f"x[index] = value: {dtype} does not fit into {x.dtype}: use .astype")


def _setitem_forward(xp: Namespace, x: Any, value: Any, *, index: Any) -> Any:
    _check_kind(x, value)  # NumPy would truncate what does not fit
    out = x.copy()
    out[index] = value
    return out


p.setitem.define(
    forward=_setitem_forward,
    shape=_setitem_shape,
    params={"index": kinds.INDEX},
    vjp=(
        lambda g, _, x, value, index: bind(p.setitem, (g, 0.0), {"index": index}),
        lambda g, _, x, value, index: unbroadcast(_kept(g, index), value),
    ),
    saves="nothing",
    writes_out=False,
)


def _kept(g: Tensor, index: Any) -> Tensor:
    """Return the elements that an index takes, zero where the same assignment overwrote a value again."""
    taken = bind(p.getitem, (g,), {"index": index})
    if not may_repeat(index):
        return taken
    stays = _stays(index, g.shape)
    if bool(to_host(stays).all()):
        return taken
    shape = (*stays.shape, *(1,) * (taken.ndim - stays.ndim))
    return where(Tensor(to_device(stays.reshape(shape), g.device)), taken, 0.0)


def _stays(index: Any, shape: Shape) -> Any:
    """Tell for each element that an index takes (or each row, if it takes rows) if it is the last one."""
    [array, *_] = [part for part in (index if isinstance(index, tuple) else (index,)) if is_array(part)]
    owner = backend_of(array)
    with owner.activate(owner.device_of(array)):
        count = math.prod(shape[:1] if array is index else shape)
        places = owner.xp.arange(count).reshape(shape[:1] if array is index else shape)[index]
        order = owner.xp.arange(places.size).reshape(places.shape)
        last = owner.xp.zeros(count, dtype=order.dtype)
        last[places.reshape(-1)] = order.reshape(-1)
        return last[places] == order


def _put_back(g: Tensor, index: Any, shape: tuple[int, ...]) -> Tensor:
    return bind(_scatter_add, (g,), {"index": index, "shape": shape})
