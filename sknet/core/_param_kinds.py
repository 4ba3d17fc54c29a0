"""Parameters of primitives: their types, and axes, which are counted from the end."""

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from sknet._constraints import shown
from sknet.exceptions import ShapeError

__all__ = [
    "AXES",
    "AXIS",
    "DTYPE",
    "FLAG",
    "FROM_END",
    "INDEX",
    "INTEGER",
    "LENGTH",
    "LENGTHS",
    "NUMBER",
    "ONES",
    "PAIRS",
    "ParamKind",
    "normalize_axes",
    "normalize_axis",
    "one_of",
    "tuple_of",
]


class ParamKind(NamedTuple):
    """A type of parameters."""

    said: str
    fits: Callable[[Any, int], bool]


def _is_integer(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def tuple_of(kind: ParamKind) -> ParamKind:
    """Return the kind of tuples whose items are of a kind."""

    def fits(value: Any, ndim: int) -> bool:
        return isinstance(value, tuple) and all(kind.fits(item, ndim) for item in value)

    return ParamKind(f"a tuple, and each item {kind.said}", fits)


def one_of(*names: str) -> ParamKind:
    """Return the kind of names from a list."""
    return ParamKind(f"one of {', '.join(map(repr, names))}", lambda x, _: type(x) is str and x in names)


def _is_index(x: Any, ndim: int) -> bool:
    if isinstance(x, slice):
        return all(part is None or _is_integer(part) for part in (x.start, x.stop, x.step))
    if isinstance(x, np.ndarray):
        return x.dtype.kind in "biu"
    return x is None or x is ... or isinstance(x, (bool, np.bool)) or _is_integer(x)


INTEGER = ParamKind("an integer", lambda x, _: _is_integer(x))
LENGTH = ParamKind("an integer of 0 or more", lambda x, _: _is_integer(x) and x >= 0)
LENGTHS = tuple_of(LENGTH)
ONES = tuple_of(ParamKind("an integer of 1 or more", lambda x, _: _is_integer(x) and x >= 1))
PAIRS = tuple_of(
    ParamKind(
        "a pair of integers", lambda x, _: isinstance(x, tuple) and len(x) == 2 and all(map(_is_integer, x))
    )
)
AXIS = ParamKind("an axis, counted from the end", lambda x, ndim: _is_integer(x) and -ndim <= x < 0)
AXES = tuple_of(AXIS)
FROM_END = ParamKind("an axis of the result, counted from the end", lambda x, _: _is_integer(x) and x < 0)
FLAG = ParamKind("True or False", lambda x, _: isinstance(x, (bool, np.bool)))
NUMBER = ParamKind("a number", lambda x, _: isinstance(x, (int, float, np.integer, np.floating)))
DTYPE = ParamKind("a dtype of tensors", lambda x, _: isinstance(x, np.dtype) and x.kind in "biuf")
INDEX = ParamKind(
    "an index: integers, slices, None, ..., arrays of integers or of truth values, or a tuple of these",
    lambda x, ndim: all(_is_index(part, ndim) for part in (x if isinstance(x, tuple) else (x,))),
)


# -- axes -------------------------------------------------------------------------------------
#
# A leading axis added later (many models at once) then needs no second implementation.


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
