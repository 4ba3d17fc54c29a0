"""Decoding of documents: each dict with one key, which names its type, becomes a value."""

import datetime
import functools
import math
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.device import Device
from sknet.files._kinds import kind_of
from sknet.files._places import path_to
from sknet.files._registry import NotKnownError, Registry
from sknet.files._searches import distribution, scorer
from sknet.nn.init import Initializer

__all__ = [
    "DRAWS",
    "EXACT",
    "FUNCTIONS",
    "IN_SET",
    "MOMENTS",
    "MOST_IN_RANGE",
    "NUMBER",
    "RARE_OBJECT",
    "TEXT",
    "TIMES",
    "Decoder",
    "Tree",
]

Tree = Any
TEXT = np.dtype("U1").itemsize
NUMBER = 40  # bytes of a number in a Python list
IN_SET = 128  # bytes of a value in a set, at most
RARE_OBJECT = 1 << 16  # bytes of a scorer or a distribution, at most
MOST_IN_RANGE = 1 << 20
EXACT = {float: np.float64, int: np.int64}
TIMES = ("M", "m")
LAST_CHARACTER = 0x10FFFF
DTYPE = re.compile(r"[<|]([biufc]\d{1,2}|U\d{1,6}|[mM]8(\[\w{1,8}\])?)")
DRAWS = ("draw", "draw_bias")
# Names of times in a document, and their types, each before those that it is derived from.
MOMENTS: dict[str, Any] = {"datetime": datetime.datetime, "date": datetime.date, "time": datetime.time}
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, np.ufunc)


class _InvalidError(Exception):
    """An object is not as its description must be."""


class Decoder:
    """Turns a document into objects, which use up its lists and dicts."""

    def __init__(self, registry: Registry, spare: int) -> None:
        self._registry, self.spare = registry, spare
        self._objects: list[Any] = []

    def document(self, described: list[Tree], value: Tree) -> Any:
        """Return the value of a document, after creating its objects."""
        described.reverse()
        while described:
            try:
                self._add(*described.pop())
            except _InvalidError as error:
                number = len(self._objects)
                path = path_to(number, described, value)
                where = f"at {path}, and as" if path else "as"
                raise ValueError(f"it has, {where} objects[{number}], {error}") from error.__cause__
        return self.value(value)

    def _add(self, name: Any, state: Tree) -> None:
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not the name of a class")
        cls = self._registry.find(name, lambda found: isinstance(found, type))
        try:
            self._objects.append(kind_of(cls).restore(cls, self.value(state)))
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
            if isinstance(error, NotKnownError):
                raise
            raise _InvalidError(f"an invalid {name}: {type(error).__name__}: {error}") from error

    def value(self, tree: Tree) -> Any:
        """Return the value that a part of a document represents."""
        if isinstance(tree, list):
            return self._items(tree)
        if not isinstance(tree, dict):
            return tree
        ((tag, content),) = tree.items() if len(tree) == 1 else [("", None)]
        if tag not in DECODED:
            raise ValueError(f"{str(tree)[:80]} does not represent a value")
        return DECODED[tag](self, content)

    def _items(self, items: Any) -> list[Any]:
        """Replace the items of a list by what they represent, and return it, so that memory holds it once."""
        if not isinstance(items, list):
            raise ValueError(f"{str(items)[:80]} is not a list")
        for number, item in enumerate(items):
            if isinstance(item, (dict, list)):
                items[number] = self.value(item)
        return items

    def _object(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise ValueError(f"there is no object {number!r} before it")
        return self._objects[number]

    def _numbers(self, array: Any) -> list[Any]:
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in EXACT.values():
            raise ValueError("a list of numbers must be an array of numbers")
        self._spend(NUMBER * array.size)
        found: list[Any] = array.tolist()
        return found

    def _spend(self, n_bytes: int) -> None:
        self.spare -= n_bytes
        if self.spare < 0:
            raise ValueError("its values need more memory than the file justifies")

    def _unordered(self, items: Any) -> list[Any]:
        found = self._items(items)
        self._spend(IN_SET * len(found))
        return found

    def _range(self, items: Any) -> range:
        found = range(*self._items(items))
        if len(found[: MOST_IN_RANGE + 1]) > MOST_IN_RANGE:
            raise ValueError(f"{found} has more than {MOST_IN_RANGE} numbers")
        self._spend(NUMBER * len(found))  # whoever restores an object may make a list of it
        return found

    def _texts(self, array: Any) -> Any:
        if array.dtype != np.uint32 or not array.ndim or (array.size and array.max() > LAST_CHARACTER):
            raise ValueError("an array of texts must be an array of characters")
        *shape, width = array.shape
        if not width:  # an array without bytes, of any length, becomes one with some
            self._spend(TEXT * math.prod(shape))
            return np.zeros(shape, "U1")[()] if not shape else np.zeros(shape, "U1")
        return array.reshape(-1).view(f"U{width}").reshape(shape)

    def _times(self, content: Any) -> Any:
        kind, array = content
        dtype = self._dtype(f"<{kind}")
        if dtype.kind not in TIMES or array.dtype != np.int64:
            raise ValueError(f"{kind!r} is not a datetime or timedelta dtype")
        return array.view(dtype)

    def _cells(self, content: Any) -> Any:
        shape, values = content
        found = np.empty(len(values), object)
        for number, item in enumerate(self._items(values)):
            found[number] = item
        return found.reshape(shape)

    def _masked(self, content: Any) -> Any:
        data, mask, fill_value = map(self.value, content)
        if not all(type(part) is np.ndarray for part in (data, mask)) or mask.dtype != bool:
            raise ValueError("a masked array must have arrays of values and of booleans")
        if data.shape != mask.shape:
            raise ValueError(f"a masked array has shapes {data.shape} and {mask.shape}")
        return np.ma.MaskedArray(data, mask, fill_value=fill_value)

    def _found_scorer(self, content: Any) -> Any:
        self._spend(RARE_OBJECT)
        return scorer(self.value(content))

    def _found_distribution(self, content: Any) -> Any:
        self._spend(RARE_OBJECT)
        return distribution(*map(self.value, content))

    def _complex(self, array: Any) -> Any:
        self._spend(array.nbytes)
        kinds = {np.dtype("f4"): "c8", np.dtype("f8"): "c16"}
        return np.ascontiguousarray(array).view(kinds[array.dtype])[..., 0]

    def _scalar(self, content: Any) -> Any:
        array = self.value(content)
        if not isinstance(array, np.ndarray) or array.ndim:
            raise ValueError("a scalar must be an array without axes")
        return array[()]

    def _dtype(self, text: Any) -> Any:
        if not isinstance(text, str) or not DTYPE.fullmatch(text):
            raise ValueError(f"{text!r} is not a dtype")
        return np.dtype(text)

    @staticmethod
    def moment(tree: Any) -> Any:
        """Return the date, time, span of time or bytes that a dict with one key represents."""
        ((name, content),) = tree.items()
        if name == "timedelta":
            if not isinstance(content, list) or [type(part) for part in content] != [int] * 3:
                raise ValueError(f"{content!r} is not a span of days, seconds and microseconds")
            return datetime.timedelta(*content)
        return bytes.fromhex(content) if name == "bytes" else MOMENTS[name].fromisoformat(content)

    def _dict(self, content: Any) -> dict[str, Any]:
        for key, item in content.items():
            if isinstance(item, (dict, list)):
                content[key] = self.value(item)
        return content  # type: ignore[no-any-return]

    def _pairs(self, content: Any) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in content}

    def _class(self, name: Any) -> Any:
        return self._registry.find(str(name), lambda found: isinstance(found, type))

    def _function(self, name: Any) -> Any:
        return self._registry.find(str(name), lambda found: not isinstance(found, type) and callable(found))

    def _draw(self, content: Any) -> Any:
        name, holder = content[0], self.value(content[1])
        if name not in DRAWS or not isinstance(holder, Initializer):
            raise ValueError(f"{name!r} of {type(holder).__name__} is not a draw of an initializer")
        return getattr(holder, name)

    def _partial(self, content: Any) -> Any:
        function, args, keywords = map(self.value, content)
        if not isinstance(function, (functools.partial, types.MethodType, *FUNCTIONS)):
            raise ValueError(f"{function!r} is not a function")
        return functools.partial(function, *args, **keywords)


def _as_moment(name: str) -> Callable[[Decoder, Any], Any]:
    return lambda decoder, content: decoder.moment({name: content})


DECODED: dict[str, Callable[[Decoder, Any], Any]] = {
    "object": Decoder._object,
    "numbers": Decoder._numbers,
    "texts": Decoder._texts,
    "times": Decoder._times,
    "cells": Decoder._cells,
    "complex": Decoder._complex,
    "masked": Decoder._masked,
    "scorer": Decoder._found_scorer,
    "distribution": Decoder._found_distribution,
    "turned": lambda self, array: array.T,
    "scalar": Decoder._scalar,
    "dtype": Decoder._dtype,
    "dict": Decoder._dict,
    "pairs": Decoder._pairs,
    "tuple": lambda self, items: tuple(self._items(items)),
    "set": lambda self, items: set(self._unordered(items)),
    "frozenset": lambda self, items: frozenset(self._unordered(items)),
    "slice": lambda self, items: slice(*self._items(items)),
    "range": Decoder._range,
    "ellipsis": lambda self, nothing: ...,
    "device": lambda self, text: Device.parse(text),
    "class": Decoder._class,
    "function": Decoder._function,
    **{name: _as_moment(name) for name in (*MOMENTS, "timedelta", "bytes")},
    "draw": Decoder._draw,
    "partial": Decoder._partial,
}
