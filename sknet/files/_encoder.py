"""Encoding of values in documents: all but numbers and texts are dicts with one key, which names the type."""

import datetime
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from sknet.device import Device, MetaArray, is_array, to_host
from sknet.files._decoder import (
    DRAWS,
    EXACT,
    FUNCTIONS,
    IN_SET,
    MOMENTS,
    MOST_IN_RANGE,
    NUMBER,
    RARE_OBJECT,
    TEXT,
    TIMES,
    Decoder,
    Tree,
)
from sknet.files._kinds import kind_of
from sknet.files._registry import stored_name
from sknet.files._searches import is_distribution, is_scorer, of_distribution, of_scorer
from sknet.nn.init import Initializer

__all__ = ["SCHEMA", "Encoder"]

PLAIN = (bool, int, float, str, type(None))
LONG = 8  # from this length on, a list of numbers is stored as an array
PLAIN_SCHEMA, SCHEMA = 1, 2  # the second has times, bytes, masked arrays, scorers and distributions


class Encoder:
    """Turns objects into a document."""

    def __init__(self) -> None:
        self.objects: list[Tree] = []
        self.schema, self.spent = PLAIN_SCHEMA, 0
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps objects alive, so that no id is reused
        self._open: set[int] = set()

    def value(self, x: Any, place: str = "") -> Tree:
        """Return the representation of a value in a document."""
        if type(x) in PLAIN:
            return x
        for cls in type(x).__mro__:
            if cls in ENCODED and (cls is type(x) or cls in INHERITED):
                return ENCODED[cls](self, x, place)
        rare = next((encode for fits, encode in RARE if fits(x)), None)
        if rare is not None:
            self.schema = SCHEMA
            return rare(self, x, place)
        if isinstance(x, np.generic):
            return {"scalar": self.value(np.asarray(x), place)}
        if isinstance(x, FUNCTIONS):
            return {"function": self._name(x, place)}
        if isinstance(x, type):
            return {"class": self._name(x, place)}
        if isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray):
            return self._array(np.asarray(x), place)  # such as a memory map
        if is_array(x) and not isinstance(x, np.ndarray | MetaArray):
            return self._array(to_host(x), place)
        return {"object": self._number(x, place)}

    def _moment(self, x: Any, place: str) -> Tree:
        """Return a date, time, span of time or bytes; those of pandas as Python's, if they are equal."""
        found: dict[str, Any] = {"bytes": x.hex()} if isinstance(x, bytes) else {}
        if isinstance(x, datetime.timedelta):
            found = {"timedelta": [x.days, x.seconds, x.microseconds]}
        for name, kind in MOMENTS.items():
            if not found and isinstance(x, kind):
                found = {name: x.isoformat()}
        try:
            is_equal = Decoder.moment(found) == x
        except (ValueError, OverflowError):
            is_equal = False
        if not is_equal:
            raise TypeError(
                f"{place} is {x!r}, which a file cannot hold: it is missing, or finer than microseconds"
            )
        return found

    def _name(self, thing: Any, place: str) -> str:
        name = stored_name(thing)
        if "<lambda>" in name or name.startswith("None."):
            raise TypeError(f"{place or 'it'} is {thing!r}, which has no name that a file could store")
        return name

    def _number(self, x: Any, place: str) -> int:
        known = self._numbers.get(id(x))
        if known is not None:
            return known
        if id(x) in self._open:
            raise TypeError(f"{place} refers to itself: it cannot be stored")
        self._open.add(id(x))
        try:
            parts = kind_of(type(x)).describe(x)
            state = self.value(parts, place or type(x).__name__)
        except TypeError as error:
            known = str(error).startswith("cannot save")
            raise TypeError(str(error) if known else f"cannot save {place or 'it'}: {error}") from None
        self._open.discard(id(x))
        self._kept.append(x)
        self.objects.append([stored_name(type(x)), state])
        self._numbers[id(x)] = len(self.objects) - 1
        return len(self.objects) - 1

    def _list(self, x: Sequence[Any], place: str) -> Tree:
        kind = type(x[0]) if len(x) >= LONG else None
        if kind not in EXACT or not all(type(item) is kind for item in x):
            return self._items(x, place)
        if kind is int and not all(-(2**63) <= item < 2**63 for item in x):
            return self._items(x, place)
        self.spent += NUMBER * len(x)
        return {"numbers": np.array(x, EXACT[kind])}

    def _items(self, x: Any, place: str) -> list[Tree]:
        return [self.value(item, f"{place}[{number}]") for number, item in enumerate(x)]

    def _unordered(self, x: Any, place: str) -> list[Tree]:
        self.spent += IN_SET * len(x)
        return self._items(sorted(x, key=repr), place)

    def _dict(self, x: Mapping[Any, Any], place: str) -> Tree:
        if all(type(key) is str and not key.startswith("$") for key in x):
            return {"dict": {key: self.value(item, f"{place}.{key}") for key, item in x.items()}}
        return {
            "pairs": [
                [self.value(key, place), self.value(item, f"{place}[{key!r}]")] for key, item in x.items()
            ]
        }

    def _array(self, x: np.ndarray[Any, Any], place: str) -> Tree:
        kind, native = x.dtype.kind, np.asarray(x).astype(x.dtype.newbyteorder("="), copy=False)
        if kind in "biuf" and x.dtype.itemsize <= 8:
            is_turned = x.ndim > 1 and x.flags.f_contiguous and not x.flags.c_contiguous
            return {"turned": native.T} if is_turned else native
        if kind == "U":
            width = native.dtype.itemsize // 4
            self.spent += 0 if width else TEXT * native.size
            return {
                "texts": np.ascontiguousarray(native).reshape(-1).view(np.uint32).reshape(*x.shape, width)
            }
        if kind in TIMES:
            return {"times": [native.dtype.str[1:], native.copy(order="C").view(np.int64)]}
        if kind == "O":
            return {"cells": [list(x.shape), self._items(x.reshape(-1).tolist(), place)]}
        if kind == "c" and x.dtype.itemsize <= 16:
            parts = np.stack([native.real, native.imag], axis=-1)
            self.spent += parts.nbytes
            return {"complex": parts}
        raise TypeError(f"{place} is an array of dtype {x.dtype}, which a file cannot hold")

    def _scorer(self, x: Any, place: str) -> Tree:
        self.spent += RARE_OBJECT
        try:
            return {"scorer": self.value(of_scorer(x), place)}
        except TypeError as error:
            raise TypeError(f"cannot save {place}: {error}") from None

    def _distribution(self, x: Any, place: str) -> Tree:
        self.spent += RARE_OBJECT
        try:
            return {"distribution": [self.value(part, place) for part in of_distribution(x)]}
        except TypeError as error:
            raise TypeError(f"cannot save {place}: {error}") from None

    def _masked(self, x: "np.ma.MaskedArray[Any, Any]", place: str) -> Tree:
        self.schema = SCHEMA
        parts = (x.data, np.ma.getmaskarray(x), x.fill_value)
        return {"masked": [self.value(part, place) for part in parts]}

    def _method(self, x: types.MethodType, place: str) -> Tree:
        if not (isinstance(x.__self__, Initializer) and x.__name__ in DRAWS):
            raise TypeError(f"{place} is the method {x.__qualname__}, which a file cannot hold")
        return {"draw": [x.__name__, self.value(x.__self__, place)]}

    def _range(self, x: range, place: str) -> Tree:
        if len(x[: MOST_IN_RANGE + 1]) > MOST_IN_RANGE:
            raise TypeError(f"{place} is {x}: a file holds ranges of up to {MOST_IN_RANGE} numbers")
        self.spent += NUMBER * len(x)
        return {"range": self._items((x.start, x.stop, x.step), place)}

    def _partial(self, x: "functools.partial[Any]", place: str) -> Tree:
        parts = (x.func, list(x.args), x.keywords)
        return {"partial": [self.value(part, f"{place}.{x.func!r}") for part in parts]}


ENCODED: dict[type, Callable[[Encoder, Any, str], Tree]] = {
    list: Encoder._list,
    tuple: lambda self, x, place: {"tuple": self._items(x, place)},
    dict: Encoder._dict,
    set: lambda self, x, place: {"set": self._unordered(x, place)},
    frozenset: lambda self, x, place: {"frozenset": self._unordered(x, place)},
    types.MappingProxyType: lambda self, x, place: self._dict(x, place),
    slice: lambda self, x, place: {"slice": self._items((x.start, x.stop, x.step), place)},
    range: Encoder._range,
    np.ndarray: Encoder._array,
    np.ma.MaskedArray: Encoder._masked,
    np.dtype: lambda self, x, place: {"dtype": x.str},
    EllipsisType: lambda self, x, place: {"ellipsis": []},
    Device: lambda self, x, place: {"device": str(x)},
    types.MethodType: Encoder._method,
    functools.partial: Encoder._partial,
}
RARE: tuple[tuple[Callable[[Any], bool], Callable[[Encoder, Any, str], Tree]], ...] = (
    (lambda x: isinstance(x, (*MOMENTS.values(), datetime.timedelta, bytes)), Encoder._moment),
    (is_scorer, Encoder._scorer),
    (is_distribution, Encoder._distribution),
)
INHERITED = (np.dtype,)  # every dtype has its own class
