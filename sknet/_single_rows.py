"""Single rows of pandas frames, whose conversion by pandas takes longer than many networks need."""

import sys
from functools import cache
from typing import Any

import numpy as np

__all__ = ["RowReader"]

INTEGERS = tuple(map(np.dtype, "bhilqBHILQ"))
READ = (*map(np.dtype, ("float64", "object")), *INTEGERS)
NUMBERS = frozenset({np.float64, *(dtype.type for dtype in INTEGERS)})
OTHERS = frozenset({str, type(None)})
ARROW = frozenset({"ArrowStringArray", "ArrowStringArrayNumpySemantics"})
NO_VALUES: list[Any] = []
MOST_LEVELS = 100_000  # of all categorical columns that are kept


class Levels:
    """The levels of categorical columns that come more than once, such as those of all rows of a frame."""

    def __init__(self) -> None:
        # By the identity of pandas' index of them, which cannot change: that index, and its levels as a list
        # from the second time on.
        self._seen: dict[int, tuple[Any, list[Any] | None]] = {}
        self._total = 0

    def of(self, index: Any) -> list[Any] | None:
        """Return the levels of an index; None if it was not seen before."""
        seen = self._seen.get(id(index))
        if seen is None:
            self._remember(index)
            return None
        levels = seen[1]
        if levels is None:
            levels = list(index.to_numpy())
            self._seen[id(index)] = index, levels
        return levels

    def _remember(self, index: Any) -> None:
        if index.dtype == object or len(index) > MOST_LEVELS:  # arrays of objects may be written to
            return
        if self._total + len(index) > MOST_LEVELS:
            self._seen, self._total = {}, 0
        self._seen[id(index)] = index, None
        self._total += len(index)


class RowReader:
    """Reads frames of one row, where that takes no more than reading their values."""

    def __init__(self, names: tuple[str, ...], any_order: bool = True) -> None:
        self._names, self._any_order = list(names), any_order
        self._in_order = list(range(len(names)))
        # Columns seen last, and where those of the fit are; one object, which threads replace at once. Arrays
        # of objects are not kept, since they may be written to, and are compared in no time.
        self._latest: tuple[Any, list[int] | None] = (None, None)
        self._levels = Levels()

    def __call__(self, X: Any) -> "list[Any] | None":
        """Return the values of the columns of the fit, in order."""
        manager, columns = getattr(X, "_mgr", None), getattr(X, "columns", None)
        if columns is None or (manager is None and not hasattr(X, "iat")) or len(X) != 1:
            return None  # a lazy frame has no length yet
        latest, order = self._latest
        if columns is not latest and (latest is None or not columns.equals(latest)):
            order = self._order_of(columns)
        if order is None or not (self._any_order or order is self._in_order):
            return None
        if manager is not None and _has_known_blocks():
            values = _of_blocks(manager, len(order), self._levels)
        else:
            values = _read([X.iat[0, i] for i in range(len(order))])
        if not values or order is self._in_order:
            return values or None
        return [values[i] for i in order]

    def _order_of(self, columns: Any) -> "list[int] | None":
        """Return where each column of the fit is; None if there are others, too, or one is missing."""
        found, order = columns.tolist(), None
        if found == self._names:
            order = self._in_order
        elif len({*found}) == len(found) and {*found} == {*self._names}:
            order = [found.index(name) for name in self._names]
        if columns.dtype != object:
            self._latest = columns, order
        return order


def _of_blocks(manager: Any, n_columns: int, levels: Levels) -> list[Any]:
    """Return the values of a row from pandas' arrays of columns of one dtype; none if there are others."""
    values: list[Any] = [None] * n_columns
    for block in manager.blocks:
        array, places = block.values, block.mgr_locs.indexer
        if type(array) is np.ndarray:
            if array.dtype not in READ:
                return NO_VALUES
            found = array[:, 0].tolist()
            if array.dtype.char == "O":
                found = _read(found)
        else:
            value = _first(array, levels)
            found = [value] if type(value) is str else _read([value])
        if not found:
            return NO_VALUES
        if type(places) is slice:
            values[places] = found
        else:
            for place, value in zip(places.tolist(), found, strict=True):
                values[place] = value
    return values if len(values) == n_columns else NO_VALUES


def _first(array: Any, levels: Levels) -> Any:
    """Return the only value of an array of one of pandas' own dtypes; `levels` are those seen before."""
    kind = type(array).__name__
    if kind == "Categorical":
        known = levels.of(array.categories)
        if known is not None:
            code = array.codes[0]
            return known[code] if code >= 0 else array[0]
    elif kind in ARROW:
        value = array.__arrow_array__()[0].as_py()  # in a third of the time
        if type(value) is str:
            return value
    return array[0]


def _read(values: list[Any]) -> list[Any]:
    """Return values as Python's numbers and texts; none if there are others."""
    found = []
    for value in values:
        kind = type(value)
        if kind in NUMBERS:
            value = value.item()
        elif kind not in OTHERS and (kind is not float or value == value):
            return NO_VALUES
        found.append(value)
    return found


@cache
def _has_known_blocks() -> bool:
    """Tell whether the private arrays of pandas are where they are looked for."""
    try:
        make: Any = vars(sys.modules["pandas"])["DataFrame"]
        frame = make({"a": [0.5], "b": ["x"], "c": [2], "d": [1.5], "e": [None]})
        return _of_blocks(frame._mgr, 5, Levels()) == [0.5, "x", 2, 1.5, None]
    except (AttributeError, LookupError, TypeError, ValueError):
        return False
