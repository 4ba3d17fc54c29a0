"""Values in documents: all but numbers and texts are dicts with one key, which names the type."""

import datetime
import functools
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

from sknet.device import Device, MetaArray, is_array, to_host
from sknet.files._kinds import PREDICTORS, kind_of
from sknet.files._registry import NotKnownError, Registry, stored_name
from sknet.nn import Module
from sknet.nn.init import Initializer
from sknet.persistence import is_long_and_empty

Tree = Any
PLAIN = (bool, int, float, str, type(None))
LONG = 8  # from this length on, a list of numbers is stored as an array
PLAIN_SCHEMA, SCHEMA = 1, 2  # the second has times, bytes, masked arrays, scorers and distributions
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
    """An object does not match its declaration."""


class Decoder:
    """Turns a document into objects, which use up its lists and dicts."""

    def __init__(self, registry: Registry, spare: int) -> None:
        self._registry, self.spare = registry, spare
        self._objects: list[Any] = []
        self._taken: set[int] = set()

    def document(self, described: list[Tree], value: Tree) -> Any:
        described.reverse()
        while described:
            try:
                self._add(*described.pop())
            except _InvalidError as error:
                number = len(self._objects)
                path = path_to(number, described, value)
                where = f"at {path}, and as" if path else "as"
                raise ValueError(f"it has, {where} objects[{number}], {error}") from error.__cause__
        try:
            return self.value(value)
        except (ImportError, NotKnownError):
            raise
        except Exception as error:
            raise ValueError(f"its value is invalid: {type(error).__name__}: {error}") from error

    def _add(self, name: Any, state: Tree) -> None:
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not the name of a class")
        cls = self._registry.find(name, lambda found: isinstance(found, type))
        try:
            found = self.value(state)
            if issubclass(cls, PREDICTORS) and isinstance(module := found.get("_module"), Module):
                self._take(module)
            self._objects.append(kind_of(cls).restore(cls, found))
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
        return array.tolist()

    def _spend(self, n_bytes: int) -> None:
        self.spare -= n_bytes
        if self.spare < 0:
            raise ValueError("its values need more memory than the file justifies")

    def _take(self, module: Module) -> None:
        """Count parameters that another predictor or model has, since a predictor copies its own."""
        found = {id(parameter): parameter for parameter in module.parameters() if parameter.is_drawn}
        has_owner = [x for key, x in found.items() if key in self._taken or x.home is not None]
        self._spend(sum(x.data.nbytes for x in has_owner))
        self._taken |= found.keys()

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
        if is_long_and_empty(shape):
            raise ValueError(f"there is nothing in an array of shape {shape}")
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
        return content

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


class Encoder:
    """Turns objects into a document."""

    def __init__(self) -> None:
        self.objects: list[Tree] = []
        self.schema, self.spent = PLAIN_SCHEMA, 0
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps objects alive, so that no id is reused
        self._open: set[int] = set()

    def value(self, x: Any, place: str = "") -> Tree:
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
                f"{place or 'the object'} is {x!r}, which a file cannot hold: "
                "it is missing, or finer than microseconds"
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
        raise TypeError(
            f"{place or 'the object'} is an array of dtype {x.dtype}, which a file cannot hold: "
            "it holds numbers, booleans, texts, dates and durations"
        )

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
            raise TypeError(
                f"{place or 'the object'} is the method {x.__qualname__}, which a file cannot hold"
            )
        return {"draw": [x.__name__, self.value(x.__self__, place)]}

    def _range(self, x: range, place: str) -> Tree:
        if len(x[: MOST_IN_RANGE + 1]) > MOST_IN_RANGE:
            raise TypeError(
                f"{place or 'the object'} is {x}: a file holds ranges of up to {MOST_IN_RANGE} numbers"
            )
        self.spent += NUMBER * len(x)
        return {"range": self._items((x.start, x.stop, x.step), place)}

    def _partial(self, x: "functools.partial[Any]", place: str) -> Tree:
        parts = (x.func, list(x.args), x.keywords)
        return {"partial": [self.value(part, f"{place}.{x.func!r}") for part in parts]}


SCORERS = "sklearn.metrics._scorer"
DISTRIBUTIONS = "scipy.stats._distn_infrastructure"


def is_scorer(x: Any) -> bool:
    """Tell whether x is a scorer of scikit-learn, without loading them."""
    return type(x).__module__ == SCORERS and callable(x)


def of_scorer(x: Any) -> Any:
    """Return the name of a scorer, or the estimator whose `score` it calls; a TypeError if it has neither."""
    from sklearn.metrics import check_scoring, get_scorer, get_scorer_names  # whoever has a scorer has them

    estimator = vars(x).get("_estimator")
    if estimator is not None and type(check_scoring(estimator)) is type(x):
        return estimator
    known = (name for name in get_scorer_names() if vars(get_scorer(name)) == vars(x))
    name = next(known, None)
    if name is None:
        raise TypeError("it is a scorer that scikit-learn has no name for")
    return name


def scorer(described: Any) -> Any:
    """Return the scorer of a name, or of an estimator; a ValueError or TypeError if there is none."""
    from sklearn.metrics import check_scoring, get_scorer, get_scorer_names

    if not isinstance(described, str):
        return check_scoring(described)  # which wants an estimator with `score`
    if described not in get_scorer_names():
        raise ValueError(f"there is no scorer {described[:80]!r}")
    return get_scorer(described)


def is_distribution(x: Any) -> bool:
    """Tell whether x is a distribution of `scipy.stats` with its parameters, without loading them."""
    return type(x).__module__ == DISTRIBUTIONS and hasattr(x, "dist") and hasattr(x, "rvs")


def of_distribution(x: Any) -> list[Any]:
    """Return the name of a distribution and its parameters; a TypeError if it is not one of SciPy's."""
    from scipy import stats

    name: Any = x.dist.name
    if type(getattr(stats, str(name), None)) is not type(x.dist):
        raise TypeError(f"it is the distribution {name!r}, which scipy.stats does not have")
    return [name, list(x.args), dict(x.kwds)]


def distribution(name: Any, args: list[Any], parameters: dict[str, Any]) -> Any:
    """Return a distribution with its parameters; a ValueError if `scipy.stats` has none of this name."""
    from scipy import stats

    found = getattr(stats, name, None) if isinstance(name, str) and not name.startswith("_") else None
    if not isinstance(found, stats.rv_continuous | stats.rv_discrete):
        raise ValueError(f"{str(name)[:80]!r} is no distribution of scipy.stats")
    return found(*args, **parameters)


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
GROUPS = ("params", "state", "parameters", "buffers", "settings")  # of fields, in descriptions of objects
TAGS = ("dict", "pairs", "tuple", "set", "frozenset", "cells", "masked", "partial", "draw", "distribution")
MOST = 160  # characters of a path


def names_in(objects: list[Tree], value: Tree) -> Iterator[Any]:
    """Yield the names of classes and functions in a document."""
    waiting = [value]
    for described in reversed(objects):
        if isinstance(described, list) and described:
            waiting += [described[1:], {"class": described[0]}]
    while waiting:
        tree = waiting.pop()
        if isinstance(tree, list):
            waiting += reversed(tree)
        elif isinstance(tree, dict):
            for tag, content in tree.items():
                if tag in ("class", "function"):
                    yield content
                is_dict = tag == "dict" and isinstance(content, dict)
                waiting.append([*content.values()] if is_dict else content)


def path_to(number: int, later: Sequence[Any], value: Tree) -> str:
    """Return the path of an object, such as ``MLPClassifier.model_.module.children['0'].weight``."""
    keys: list[Any] = []
    name = ""
    try:
        for place, described in enumerate(reversed(later), number + 1):
            name, state = described
            found = _keys_to(number, state)
            if found is not None:
                keys, number = [*found, *keys], place
        if _keys_to(number, value) is None:
            return ""
    except (TypeError, ValueError, RecursionError):  # a description that is none
        return ""
    text = str(name).rpartition(".")[2] + "".join(map(_shown, keys))
    return text if len(text) <= MOST else f"{text[: MOST // 2]}...{text[-MOST // 2 :]}"


def _keys_to(number: int, tree: Tree) -> list[Any] | None:
    """Return the keys that lead to a reference, or None."""
    if isinstance(tree, dict) and len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag == "object":
            return [] if content == number else None
        tree = content if tag in TAGS else tree
    for key, item in _items(tree):
        found = _keys_to(number, item)
        if found is not None:
            return found if key in GROUPS else [key, *found]
    return None


def _items(tree: Tree) -> Any:
    if isinstance(tree, dict):
        return tree.items()
    return enumerate(tree) if isinstance(tree, list) else ()


def _shown(key: Any) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if key.isidentifier() else f"[{key[:40]!r}]"
