"""Types of the static parameters of primitives: what each may be, declared once with its primitive.

Graphs are captured from code and loaded from files, and source is generated from their parameters: so nothing
but numbers, dtypes and names from fixed lists may be among them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "AXES", "AXIS", "DTYPE", "FLAG", "FROM_END", "INDEX", "INTEGER", "LENGTH", "LENGTHS", "NUMBER", "ONES",
    "PAIRS", "ParamKind", "one_of", "tuple_of",
]  # fmt: skip


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
