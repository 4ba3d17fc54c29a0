"""Taking elements out, and their adjoints, which put gradients back where the elements came from."""

from typing import Any

import numpy as np

from sknet.core import PRIMITIVES, Primitive, Tensor, as_tensor, bind, normalize_axis
from sknet.core import _primitive as p
from sknet.exceptions import DtypeError, ShapeError

__all__ = ["one_hot", "take_along_axis"]


# -- indexing with [] -------------------------------------------------------------------------


def _getitem_shape(x: Any, index: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    # NumPy's own indexing of an array of x's shape whose elements all share one byte of memory.
    ghost = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), tuple(x.shape), (0,) * len(x.shape))
    try:
        return ghost[index].shape, x.dtype
    except IndexError as error:
        raise IndexError(f"indexing: {error} (the tensor has shape {tuple(x.shape)})") from None


p.getitem.define(
    forward=lambda xp, x, *, index: x[index],
    shape=_getitem_shape,
    vjp=(lambda g, _, x, index: _put_back(g, index, x.shape),),
    saves="nothing",
    writes_out=False,
)


def _is_basic(index: Any) -> bool:
    """Tell whether an index takes a view, in which no element can come up twice."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(
        part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)) for part in parts
    )


def _scatter_add_forward(xp: Any, g: Any, *, index: Any, shape: tuple[int, ...]) -> Any:
    out = xp.zeros(shape, dtype=g.dtype)
    if _is_basic(index):
        out[index] = g
    else:
        xp.add.at(out, index, g)
    return out


_scatter_add = Primitive("scatter_add").define(
    forward=_scatter_add_forward,
    shape=lambda g, index, shape: (shape, g.dtype),
    vjp=(lambda g, _, x, index, shape: g[index],),
    saves="nothing",
    writes_out=False,
)


def _put_back(g: Tensor, index: Any, shape: tuple[int, ...]) -> Tensor:
    return bind(_scatter_add, (g,), {"index": index, "shape": shape})


def take_slice(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Return x[..., start:stop, ...] along a (negative) axis."""
    index = (Ellipsis, slice(start, stop), *(slice(None),) * (-axis - 1))
    return bind(p.getitem, (x,), {"index": index})


# -- one element a row ------------------------------------------------------------------------


def _take_along_shape(x: Any, indices: Any, axis: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"take_along_axis: indices must be integers, got {indices.dtype}")
    mine, theirs = list(x.shape), list(indices.shape)
    mine[axis] = theirs[axis] if len(mine) == len(theirs) else -1
    if mine != theirs:
        raise ShapeError(
            f"take_along_axis: outside axis {axis}, indices of shape {tuple(indices.shape)} "
            f"must have the shape of x, {tuple(x.shape)}"
        )
    return tuple(indices.shape), x.dtype


def _take_along_forward(xp: Any, x: Any, indices: Any, *, axis: int) -> Any:
    _take_along_shape(x, indices, axis)  # NumPy would broadcast, and take booleans for a mask
    return x[_along(xp, indices, axis)]


def _along(xp: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Return an index of all axes that counts through all but `axis`, where it takes `indices`."""
    ndim = indices.ndim
    parts = [xp.arange(n).reshape(n, *(1,) * (ndim - 1 - i)) for i, n in enumerate(indices.shape)]
    parts[axis] = indices
    return tuple(parts)


_take_along_axis = Primitive("take_along_axis").define(
    forward=_take_along_forward,
    shape=_take_along_shape,
    vjp=(lambda g, _, x, indices, axis: _put_along_axis(g, indices, x.shape[axis], axis), None),
    writes_out=False,
)


def _put_along_forward(xp: Any, g: Any, indices: Any, *, length: int, axis: int) -> Any:
    shape = list(g.shape)
    shape[axis] = length
    out = xp.zeros(tuple(shape), dtype=g.dtype)
    if g.shape[axis] == 1:  # one element a row cannot come up twice
        out[_along(xp, indices, axis)] = g
    else:
        xp.add.at(out, _along(xp, indices, axis), g)
    return out


def _put_along_shape(g: Any, indices: Any, length: int, axis: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
    shape = list(g.shape)
    shape[axis] = length
    return tuple(shape), g.dtype


_put_along = Primitive("put_along_axis").define(
    forward=_put_along_forward,
    shape=_put_along_shape,
    vjp=(lambda g, _, x, indices, length, axis: take_along_axis(g, indices, axis), None),
    writes_out=False,
)


def _put_along_axis(g: Tensor, indices: Tensor, length: int, axis: int) -> Tensor:
    return bind(_put_along, (g, indices), {"length": length, "axis": axis})


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tensor:
    """Return the elements of x that `indices` point to along `axis`.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    indices : Tensor or array of int
        Of x's shape outside `axis`; an element may come up several times.
    axis : int, default=-1
        Along which axis to take.

    Returns
    -------
    Tensor
        Of the shape of `indices`.

    Raises
    ------
    DtypeError, ShapeError, IndexError
        If the indices are no integers, have another shape, or point outside.

    Examples
    --------
    >>> take_along_axis([[0.1, 0.9], [0.6, 0.4]], [[1], [0]]).numpy()
    array([[0.9],
           [0.6]])
    """
    x = as_tensor(x)
    return bind(
        _take_along_axis, (x, as_tensor(indices)), {"axis": normalize_axis(axis, x.ndim, "take_along_axis")}
    )


def one_hot(x: Any, length: int, dtype: Any = "float32") -> Tensor:
    """Return a row of zeros for each index in x, with a one in its place.

    Parameters
    ----------
    x : Tensor or array of int
        Indices below `length`, of any shape; negative ones count from the end.
    length : int
        Of the new last axis.
    dtype : dtype, default="float32"
        Of the result.

    Returns
    -------
    Tensor
        Of x's shape, with an axis of `length` behind; it has no gradient.

    Raises
    ------
    DtypeError, IndexError
        If the indices are no integers, or point outside.

    Examples
    --------
    >>> one_hot([2, 0], 3).numpy()
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    x = as_tensor(x)
    if x.dtype.kind not in "iu":
        raise DtypeError(f"one_hot: indices must be integers, got {x.dtype}")
    indices = x.reshape(*x.shape, 1)
    ones = bind(PRIMITIVES["ones_like"], (indices,), {}).astype(dtype)
    return _put_along_axis(ones, indices, length, -1)
