"""NumPy arrays: finite numbers, indices that return views, and indices that repeat elements."""

import math
from typing import Any

import numpy as np

__all__ = ["all_finite", "are_indices", "is_basic", "may_repeat", "rows_of", "with_ellipsis"]


SMALL = 1 << 16  # numbers of which a mask is faster than a sum, and small


def all_finite(x: np.ndarray) -> bool:
    """Tell whether no number of an array on the host is NaN or infinite."""
    if x.size > SMALL:
        with np.errstate(all="ignore"):
            if math.isfinite(np.add.reduce(x, axis=None)):
                return True  # otherwise, the sum may just have overflowed
    return bool(np.isfinite(x).all())


# By integer dtype: the unsigned dtype of its size, and how many of that one's numbers it has, too.
UNSIGNED = {
    np.dtype(c): (np.dtype(c.upper()), 1 << 8 * np.dtype(c).itemsize - c.islower()) for c in "bhilqBHILQ"
}


def are_indices(x: np.ndarray, length: int) -> bool:
    """Tell whether all integers are at least 0 and below `length`."""
    if not x.size:
        return True
    known = UNSIGNED.get(x.dtype)
    if known is None:  # of another byte order, or not of an integer dtype
        return bool(x.min() >= 0 and x.max() < length)
    dtype, count = known
    read = x.view(dtype)  # where negative numbers exceed all valid indices
    found: bool = read.item(read.argmax()) < min(length, count)  # takes a third of the time of a reduction
    return found


def is_basic(index: Any) -> bool:
    """Tell whether an index returns a view: integers, slices, new axes and an ellipsis do."""
    return all(
        part is None
        or part is Ellipsis
        or (isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool))
        for part in _parts(index)
    )


def with_ellipsis(index: Any) -> Any:
    """Return the same index in a form that returns an array even for a single element."""
    parts = _parts(index)
    return parts if any(part is Ellipsis for part in parts) else (*parts, Ellipsis)


def may_repeat(index: Any) -> bool:
    """Tell whether an index can select an element twice: only integer arrays can."""
    return any(getattr(part, "ndim", 0) > 0 and part.dtype.kind in "iu" for part in _parts(index))


def rows_of(xp: Any, index: Any, shape: tuple[int, ...]) -> tuple[Any, int]:
    """Return the flat numbers of the rows that an index selects in an array of `shape` and the row length."""
    n = 1 if hasattr(index, "dtype") and index.dtype.kind in "iu" else len(shape)
    positions = xp.arange(math.prod(shape[:n])).reshape(shape[:n])
    return positions[index].reshape(-1), math.prod(shape[n:])


def _parts(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
