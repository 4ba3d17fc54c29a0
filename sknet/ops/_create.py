"""New arrays: filled, counted, and masks of triangles."""

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from sknet._constraints import shown
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.device import Device, Namespace, available, backend
from sknet.exceptions import ShapeError
from sknet.ops._elementwise import where
from sknet.ops._shape import broadcast_arrays, lengths_of, reshape

__all__ = [
    "arange", "eye", "full", "full_like", "linspace", "meshgrid", "ones", "ones_like", "tril", "triu",
    "zeros", "zeros_like",
]  # fmt: skip

Shape = int | Sequence[int]
Place = str | Device

# -- of the shape of another --------------------------------------------------------------------


def _filled(name: str, value: int) -> Primitive:
    def forward(xp: Namespace, x: Any, out: Any = None) -> Any:
        if out is None:
            return getattr(xp, name)(x)
        out.fill(value)
        return out

    return Primitive(name).define(
        forward=forward, shape=lambda x: (x.shape, x.dtype), vjp=None, expression=str(value)
    )


_zeros_like, _ones_like = _filled("zeros_like", 0), _filled("ones_like", 1)


def zeros_like(x: Any) -> Tensor:
    """Return zeros of x's shape, dtype and device."""
    return bind(_zeros_like, (as_tensor(x),), {})


def ones_like(x: Any) -> Tensor:
    """Return ones of x's shape, dtype and device."""
    return bind(_ones_like, (as_tensor(x),), {})


def full_like(x: Any, value: float, dtype: DTypeLike | None = None) -> Tensor:
    """Return an array of x's shape and device full of `value`, of x's dtype or of `dtype`."""
    x = as_tensor(x)
    return full(x.shape, value, x.dtype if dtype is None else dtype, x.device)


def _lengths(shape: Shape) -> tuple[int, ...]:
    lengths = tuple(map(index, lengths_of(shape)))
    if any(length < 0 for length in lengths):
        raise ShapeError(f"a shape must have lengths of 0 or more, got {shown(shape)}")
    return lengths


# -- of a shape -------------------------------------------------------------------------------


def full(shape: Shape, value: float, dtype: DTypeLike | None = None, device: Place = "cpu") -> Tensor:
    """Return an array of `shape` full of `value`, of its own or another `dtype`, on a `device`."""
    where_to = available(device)
    kind = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    return Tensor(backend(where_to.kind).full(_lengths(shape), value, kind, where_to))


def zeros(shape: Shape, dtype: DTypeLike = "float64", device: Place = "cpu") -> Tensor:
    """Return zeros of a `shape` and a `dtype`, on a `device`."""
    where_to = available(device)
    return Tensor(backend(where_to.kind).zeros(_lengths(shape), dtype, where_to))


def ones(shape: Shape, dtype: DTypeLike = "float64", device: Place = "cpu") -> Tensor:
    """Return ones of a `shape` and a `dtype`, on a `device`."""
    where_to = available(device)
    return Tensor(backend(where_to.kind).ones(_lengths(shape), dtype, where_to))


def eye(
    n_rows: int, n_columns: int | None = None, k: int = 0, dtype: DTypeLike = "float64", device: Place = "cpu"
) -> Tensor:
    """Return zeros with ones on a diagonal: the main one, or the `k`-th above it.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_columns : int, default=None
        Number of columns; None for as many as rows.
    k : int, default=0
        Which diagonal; negative ones lie below the main one.
    dtype : dtype, default="float64"
        Of the result.
    device : str or Device, default="cpu"
        Where it should live.

    Returns
    -------
    Tensor of shape (n_rows, n_columns)
        The matrix.

    Raises
    ------
    ShapeError
        If a number is negative.

    Examples
    --------
    >>> eye(2, 3, 1).numpy()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    rows, columns = _lengths((n_rows, n_rows if n_columns is None else n_columns))
    return Tensor(np.eye(rows, columns, k, dtype=dtype), device=device)


# -- counted ----------------------------------------------------------------------------------


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: Place = "cpu",
) -> Tensor:
    """Return start, start + step, ... up to but not including stop.

    Parameters
    ----------
    start, stop : int or float
        With `start` alone, it counts from 0 up to it.
    step : int or float, default=1
        Distance between neighbours.
    dtype : dtype, default=None
        None for integers where all numbers are, else float64.
    device : str or Device, default="cpu"
        Where it should live.

    Returns
    -------
    Tensor of shape (n,)
        The numbers.

    Raises
    ------
    ValueError
        If they have no end.

    Examples
    --------
    >>> arange(1, 7, 2).numpy()
    array([1, 3, 5])
    """
    first, end = (0, start) if stop is None else (start, stop)
    if not np.isfinite((end - first) / step):
        raise ValueError(f"arange: from {first} to {end} in steps of {step}, there is no end")
    return Tensor(np.arange(first, end, step, dtype=dtype), device=device)


def linspace(
    start: float,
    stop: float,
    num: int,
    dtype: DTypeLike = "float64",
    device: Place = "cpu",
    endpoint: bool = True,
) -> Tensor:
    """Return numbers at equal distances from start to stop.

    Parameters
    ----------
    start, stop : float
        The first number, and the last.
    num : int
        How many.
    dtype : dtype, default="float64"
        Of the result.
    device : str or Device, default="cpu"
        Where it should live.
    endpoint : bool, default=True
        Whether `stop` is the last number; else it is left out, and the distances are smaller.

    Returns
    -------
    Tensor of shape (num,)
        The numbers.

    Examples
    --------
    >>> linspace(0, 1, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    return Tensor(np.linspace(start, stop, num, endpoint, dtype=dtype), device=device)


def meshgrid(*xs: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid from those along each of its axes.

    Parameters
    ----------
    *xs : Tensor or array
        Coordinates along one axis each.
    indexing : {"xy", "ij"}, default="xy"
        Whether the first two axes of the results are those of the second and the first of `xs` (rows
        are y), or all come in order.

    Returns
    -------
    tuple of Tensor
        One for each of `xs`, all of the grid's shape.

    Raises
    ------
    ShapeError, ValueError
        If one of `xs` does not have exactly one axis, or `indexing` is neither.

    Examples
    --------
    >>> x, y = meshgrid([1, 2, 3], [10, 20])
    >>> (x + y).numpy()
    array([[11, 12, 13],
           [21, 22, 23]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {shown(indexing)}")
    tensors = [as_tensor(x) for x in xs]
    places = list(range(len(tensors)))
    if indexing == "xy":
        places[:2] = places[:2][::-1]
    for x in tensors:
        if x.ndim != 1:
            raise ShapeError(f"meshgrid: expected coordinates of one axis, got shape {x.shape}")
    spread = [
        reshape(x, [x.size if i == at else 1 for i in range(len(tensors))])
        for x, at in zip(tensors, places, strict=True)
    ]
    return broadcast_arrays(*spread)


# -- triangles --------------------------------------------------------------------------------


def _masked(name: str, x: Any, keep: Any) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected at least 2 axes, got shape {x.shape}")
    mask = Tensor(keep(*x.shape[-2:]), device=x.device)
    return where(mask, x, x.dtype.type(0))


def tril(x: Any, k: int = 0) -> Tensor:
    """Return x with zeros above the `k`-th diagonal of its last two axes."""
    return _masked("tril", x, lambda n, m: np.tri(n, m, k, dtype=bool))


def triu(x: Any, k: int = 0) -> Tensor:
    """Return x with zeros below the `k`-th diagonal of its last two axes."""
    return _masked("triu", x, lambda n, m: ~np.tri(n, m, k - 1, dtype=bool))
