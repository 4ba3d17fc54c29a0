"""Indexing: brackets, taking rows or elements by computed indices, and the adjoints."""

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._frames import is_basic, may_repeat, rows_of, with_ellipsis
from sknet.core import Primitive, Shaped, Tensor, as_tensor, bind, normalize_axis
from sknet.core import _primitive as kinds
from sknet.core import _primitive as p
from sknet.device import Namespace, backend_of, is_array, to_device, to_host
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._elementwise import equal, where
from sknet.ops._rules import broadcast, unbroadcast, zeros_into
from sknet.ops._shape import expand_dims, ones

__all__ = ["embedding", "one_hot", "scatter_add", "take", "take_along_axis"]


# -- computed indices along an axis -----------------------------------------------------------

Shape = tuple[int, ...]
TAKES = {"axis": kinds.AXIS, "from_end": kinds.FLAG}


def _check_integers(name: str, indices: Any) -> None:
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"{name}: indices must be integers, got {indices.dtype}")


def _around(x: Any, axis: int) -> tuple[Shape, Shape]:
    """Return the numbers of elements before and behind a (negative) axis."""
    at = len(x.shape) + axis
    return tuple(x.shape[:at]), tuple(x.shape[at + 1 :])


def _take_shape(x: Any, indices: Any, axis: int, from_end: bool = True) -> tuple[Shape, np.dtype[Any]]:
    _check_integers("take", indices)
    before, behind = _around(x, axis)
    return (*before, *indices.shape, *behind), x.dtype


def _take_forward(
    xp: Namespace, x: Any, indices: Any, *, axis: int, from_end: bool = True, out: Any = None
) -> Any:
    _check_integers("take", indices)  # NumPy would treat booleans as 0 and 1
    if not from_end:
        xp.check_indices(indices, x.shape[axis])
    return xp.take(x, indices, axis, out)


p.take.define(
    forward=_take_forward,
    shape=_take_shape,
    params=TAKES,
    vjp=(lambda g, _, x, indices, axis, **where: _put(g, indices, x.shape[axis], axis, **where), None),
)


def _put_shape(
    g: Any, indices: Any, length: int, axis: int, from_end: bool = True
) -> tuple[Shape, np.dtype[Any]]:
    _check_integers("scatter_add", indices)
    behind = -axis - 1
    at = len(g.shape) - behind
    before = at - len(indices.shape)
    if before < 0 or tuple(g.shape[before:at]) != tuple(indices.shape):
        raise ShapeError(
            f"scatter_add: values of shape {tuple(g.shape)} do not have the indices' shape "
            f"{tuple(indices.shape)} in place of axis {axis}"
        )
    return (*g.shape[:before], length, *g.shape[at:]), g.dtype


def _put_forward(
    xp: Namespace, g: Any, indices: Any, *, length: int, axis: int, from_end: bool = True, out: Any = None
) -> Any:
    shape, dtype = _put_shape(g, indices, length, axis)
    if not from_end:
        xp.check_indices(indices, length)
    out = zeros_into(xp, shape, dtype, out)
    if not g.size:
        return out
    before, behind = (math.prod(lengths) for lengths in _around(out, axis))
    rows = xp.arange(length).take(indices.reshape(-1))  # negative ones count from the end
    if before != 1:
        rows = (xp.arange(0, before * length, length).reshape(-1, 1) + rows).reshape(-1)
    xp.add_rows_at(out.reshape(before * length, behind), rows, g.reshape(-1, behind))
    return out


_put_rows = Primitive("put").define(
    forward=_put_forward,
    shape=_put_shape,
    params={**TAKES, "length": kinds.LENGTH, "axis": kinds.FROM_END},
    vjp=(lambda g, _, x, indices, length, axis, **where: take(g, indices, axis, **where), None),
)


def _put(g: Tensor, indices: Tensor, length: int, axis: int, **where: bool) -> Tensor:
    return bind(_put_rows, (g, indices), {"length": length, "axis": axis, **where})


def _where(from_end: bool) -> dict[str, bool]:
    """Return the parameter `from_end` of a primitive; its default, true, is left out."""
    return {} if from_end else {"from_end": False}


def _indices(indices: Any, x: Tensor) -> Tensor:
    """Return indices as a tensor; plain ones go to the device of `x`, where its gradient needs them, too."""
    return indices if isinstance(indices, Tensor) else as_tensor(indices).to(x.device)


def take(x: Any, indices: Any, axis: int = 0, *, from_end: bool = True) -> Tensor:
    """Return the parts of x that `indices` point to along `axis`.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    indices : Tensor or array of int
        Any shape; they may be computed. An index that is out of bounds raises on the CPU, and wraps
        around on a GPU.
    axis : int, default=0
        Axis along which to take.
    from_end : bool, default=True
        Whether negative indices count from the end; otherwise they are out of bounds.

    Returns
    -------
    Tensor
        Shape of x, with the shape of `indices` in place of the axis.

    Raises
    ------
    DtypeError, IndexError
        If the indices are not integers, or out of bounds.

    Examples
    --------
    >>> take([0.1, 0.2, 0.3], [[2, 0], [2, -1]]).numpy()
    array([[0.3, 0.1],
           [0.3, 0.3]])
    """
    x = as_tensor(x)
    params = {"axis": normalize_axis(axis, x.ndim, "take"), **_where(from_end)}
    return bind(p.take, (x, _indices(indices, x)), params)


def scatter_add(x: Any, indices: Any, values: Any, axis: int = 0) -> Tensor:
    """Return x with `values` added where `indices` point to along `axis`; repeated indices accumulate.

    The adjoint of `take`. On a GPU the order of additions may vary, and with it the last digits.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    indices : Tensor or array of int
        Any shape; they may be computed. Negative ones count from the end.
    values : Tensor or array
        Values to add, of the shape that `take` would return.
    axis : int, default=0
        Axis along which to add.

    Returns
    -------
    Tensor
        Same shape as x.

    Raises
    ------
    DtypeError, ShapeError, IndexError
        If the indices are not integers or out of bounds, or the values have another shape.

    Examples
    --------
    >>> scatter_add([0.0, 0.0, 1.0], [2, 0, 2], [0.1, 0.2, 0.3]).numpy()
    array([0.2, 0. , 1.4])
    """
    target = as_tensor(x)
    places = _indices(indices, target)
    at = normalize_axis(axis, target.ndim, "scatter_add")
    put = _put(as_tensor(values), places, target.shape[at], at)
    if put.shape != target.shape:
        raise ShapeError(
            f"scatter_add: values of shape {as_tensor(values).shape} do not fit into shape {target.shape} "
            f"with indices of shape {places.shape} along axis {axis}"
        )
    return target + put


def _take_along_shape(x: Any, indices: Any, axis: int, from_end: bool = True) -> tuple[Shape, np.dtype[Any]]:
    _check_integers("take_along_axis", indices)
    mine, theirs = list(x.shape), list(indices.shape)
    mine[axis] = theirs[axis] if len(mine) == len(theirs) else -1
    if mine != theirs:
        raise ShapeError(
            f"take_along_axis: outside axis {axis}, indices of shape {tuple(indices.shape)} "
            f"must have the shape of x, {tuple(x.shape)}"
        )
    return tuple(indices.shape), x.dtype


def _take_along_forward(
    xp: Namespace, x: Any, indices: Any, *, axis: int, from_end: bool = True, out: Any = None
) -> Any:
    _take_along_shape(x, indices, axis)  # NumPy would broadcast, and treat booleans as a mask
    if not from_end:
        xp.check_indices(indices, x.shape[axis])
    taken = x[_along(xp, indices, axis)]
    if out is None:
        return taken
    out[...] = taken
    return out


def _along(xp: Namespace, indices: Any, axis: int) -> tuple[Any, ...]:
    """Return an index of all axes: `indices` along `axis`, every position along the others."""
    ndim = indices.ndim
    parts = [xp.arange(n).reshape(n, *(1,) * (ndim - 1 - i)) for i, n in enumerate(indices.shape)]
    parts[axis] = indices
    return tuple(parts)


_take_along_axis = Primitive("take_along_axis").define(
    forward=_take_along_forward,
    shape=_take_along_shape,
    params=TAKES,
    vjp=(
        lambda g, _, x, indices, axis, **where: put_along_axis(g, indices, x.shape[axis], axis, **where),
        None,
    ),
)


def _put_along_forward(
    xp: Namespace, g: Any, indices: Any, *, length: int, axis: int, from_end: bool = True, out: Any = None
) -> Any:
    if not from_end:
        xp.check_indices(indices, length)
    out = zeros_into(xp, *_put_along_shape(g, indices, length, axis), out)
    if not g.size:
        return out
    if g.shape[axis] == 1:  # one element per row cannot repeat
        out[_along(xp, indices, axis)] = g
        return out
    before, behind = (math.prod(lengths) for lengths in _around(out, axis))
    places = xp.arange(out.size).reshape(before, length, behind)
    taken = places[_along(xp, indices.reshape(before, indices.shape[axis], behind), 1)]
    xp.add_rows_at(out.reshape(-1, 1), taken.reshape(-1), g.reshape(-1, 1))
    return out


def _put_along_shape(
    g: Any, indices: Any, length: int, axis: int, from_end: bool = True
) -> tuple[Shape, np.dtype[Any]]:
    shape = list(g.shape)
    shape[axis] = length
    return tuple(shape), g.dtype


_put_along = Primitive("put_along_axis").define(
    forward=_put_along_forward,
    shape=_put_along_shape,
    params={"length": kinds.LENGTH, **TAKES},
    vjp=(lambda g, _, x, indices, length, axis, **where: take_along_axis(g, indices, axis, **where), None),
)


def put_along_axis(g: Tensor, indices: Tensor, length: int, axis: int, **where: bool) -> Tensor:
    """Return zeros of `length` along `axis`, with g added where `indices` point to: the adjoint of taking."""
    return bind(_put_along, (g, indices), {"length": length, "axis": axis, **where})


def take_along_axis(x: Any, indices: Any, axis: int = -1, *, from_end: bool = True) -> Tensor:
    """Return the elements of x that `indices` point to along `axis`.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    indices : Tensor or array of int
        Indices, of x's shape outside `axis`; an index may be repeated.
    axis : int, default=-1
        Axis along which to take.
    from_end : bool, default=True
        Whether negative indices count from the end; otherwise they are out of bounds.

    Returns
    -------
    Tensor
        Same shape as `indices`.

    Raises
    ------
    DtypeError, ShapeError, IndexError
        If the indices are not integers, have another shape, or are out of bounds.

    Examples
    --------
    >>> take_along_axis([[0.1, 0.9], [0.6, 0.4]], [[1], [0]]).numpy()
    array([[0.9],
           [0.6]])
    """
    x = as_tensor(x)
    params = {"axis": normalize_axis(axis, x.ndim, "take_along_axis"), **_where(from_end)}
    return bind(_take_along_axis, (x, _indices(indices, x)), params)


def one_hot(indices: Any, n_classes: int, dtype: DTypeLike = "float32") -> Tensor:
    """Return one-hot vectors: zeros with a one at the position in `indices`.

    Parameters
    ----------
    indices : Tensor or array of int
        Any shape; they may be computed.
    n_classes : int
        Length of a row.
    dtype : dtype, default="float32"
        Dtype of the result.

    Returns
    -------
    Tensor
        Shape of `indices`, with one more axis of length `n_classes`.

    Raises
    ------
    DtypeError, IndexError
        If the indices are not integers, or one is negative or not below `n_classes` (on the CPU).

    Examples
    --------
    >>> one_hot([2, 0], 3).numpy()
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    places = expand_dims(indices, -1)
    _check_integers("one_hot", places)
    return put_along_axis(ones(places.shape, dtype, places.device), places, n_classes, -1, from_end=False)


def embedding(indices: Any, table: Any, padding_idx: int | None = None) -> Tensor:
    """Return the rows of a table that `indices` point to.

    A row that is taken several times gets the sum of the gradients; the gradient is as large as the table.

    Parameters
    ----------
    indices : Tensor or array of int
        Any shape.
    table : Tensor or array of shape (n, d)
        A row for each of n things.
    padding_idx : int, default=None
        An index that marks padding: its row of the result is zero, and it has no gradient. It is compared
        with `indices` as it is; -1 does not mean the last row, and needs no row at all.

    Returns
    -------
    Tensor
        Shape of `indices`, with one more axis of length d.

    Raises
    ------
    ShapeError, DtypeError, IndexError
        If the table is not a matrix, the indices are not integers, or one is negative or not below n (on the
        CPU), and not `padding_idx`.

    Examples
    --------
    >>> embedding([1, 1, 0], [[0.1, 0.2], [0.3, 0.4]]).numpy()
    array([[0.3, 0.4],
           [0.3, 0.4],
           [0.1, 0.2]])
    >>> embedding([1, -1], [[0.1, 0.2], [0.3, 0.4]], padding_idx=-1).numpy()
    array([[0.3, 0.4],
           [0. , 0. ]])
    """
    table = as_tensor(table)
    indices = _indices(indices, table)
    if table.ndim != 2:
        raise ShapeError(f"embedding: expected a table of shape (n, d), got shape {table.shape}")
    _check_integers("embedding", indices)
    limits = np.iinfo(indices.dtype)
    if padding_idx is None or not limits.min <= padding_idx <= limits.max:
        return take(table, indices, from_end=False)
    is_padding = equal(indices, padding_idx)
    rows = take(table, where(is_padding, 0, indices), from_end=False)
    return where(expand_dims(is_padding, -1), 0, rows)


# -- brackets ---------------------------------------------------------------------------------


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
    except (IndexError, OverflowError) as error:  # the latter of an integer of more than 64 bits
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
