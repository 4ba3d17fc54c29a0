"""Axes, counted from the end: -1 is the last one.

A leading axis added later (many models at once) then needs no second implementation.
"""

from collections.abc import Sequence
from operator import index

from sknet._constraints import shown
from sknet.exceptions import ShapeError

__all__ = ["normalize_axes", "normalize_axis"]


def normalize_axis(axis: int, ndim: int, op: str) -> int:
    """Return `axis` as a negative number, if it is one of `ndim`; errors name `op`.

    Parameters
    ----------
    axis : int
        Which axis; a negative one counts from the end.
    ndim : int
        How many axes the array has.
    op : str
        The operation, for messages.

    Returns
    -------
    int
        From ``-ndim`` to -1.

    Raises
    ------
    ShapeError
        If there is no such axis.
    TypeError
        If it is not an integer.

    Examples
    --------
    >>> from sknet.core import normalize_axis
    >>> normalize_axis(0, 3, "sum")
    -3
    >>> normalize_axis(3, 3, "sum")
    Traceback (most recent call last):
        ...
    sknet.exceptions.ShapeError: sum: axis 3 does not exist in an array with 3 axes
    """
    try:
        axis = index(axis)
    except TypeError:
        raise TypeError(f"{op}: an axis must be an integer, got {shown(axis)}") from None
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{op}: axis {axis} does not exist in an array with {ndim} axes")
    return axis if axis < 0 else axis - ndim


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, op: str) -> tuple[int, ...]:
    """Return `axis` (one of `ndim`, several, None for all) as negative numbers; errors name `op`.

    Parameters
    ----------
    axis : int, sequence of int or None
        Which axes; negative ones count from the end.
    ndim : int
        How many axes the array has.
    op : str
        The operation, for messages.

    Returns
    -------
    tuple of int
        From ``-ndim`` to -1.

    Raises
    ------
    ShapeError
        If an axis does not exist, or is given twice.
    TypeError
        If it is not an integer.

    Examples
    --------
    >>> from sknet.core import normalize_axes
    >>> normalize_axes((0, -1), 3, "sum"), normalize_axes(None, 2, "sum")
    ((-3, -1), (-2, -1))
    >>> normalize_axes((0, -2), 2, "sum")
    Traceback (most recent call last):
        ...
    sknet.exceptions.ShapeError: sum: an axis is repeated in (0, -2)
    """
    if axis is None:
        return tuple(range(-ndim, 0))
    if not isinstance(axis, (tuple, list)):
        return (normalize_axis(axis, ndim, op),)  # type: ignore[arg-type]  # checked there
    axes = tuple([normalize_axis(a, ndim, op) for a in axis])
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{op}: an axis is repeated in {tuple(axis)}")
    return axes
