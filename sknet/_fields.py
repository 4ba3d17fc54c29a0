"""Declared fields: what the attributes of objects in files may be, and the one check of them.

A class says what its fields are by its annotations, if it is a dataclass or a NamedTuple, and by its
`_parameter_constraints`, if it has some. What these cannot say is in its `_stored_fields`: for each name a
type, an annotation such as ``tuple[str, ...]``, an object of this module, or a list of alternatives; in a
NamedTuple, whose body has nothing but fields, it is the second part of an ``Annotated``. What one field
cannot tell is checked by a method `_check_stored`, which raises a ValueError.
"""

import collections.abc
import dataclasses
import datetime
import inspect
import numbers
import reprlib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from sknet._constraints import constraint

MOST = 2**53  # beyond which float64 does not hold every integer
LARGEST = float(np.finfo(np.float64).max)


class Number(NamedTuple):
    type: Any
    least: float
    most: float

    def is_satisfied_by(self, value: Any) -> bool:
        if type(value) is bool or isinstance(value, np.timedelta64) or not isinstance(value, self.type):
            return False
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        kind = "an int" if self.type is Integral else "a float"
        return f"{kind} from {self.least} to {self.most}"


ABOVE_ZERO = Number(Real, float(np.finfo(np.float64).tiny), LARGEST)
COUNT = Number(Integral, 0, MOST)
POSITIVE = Number(Integral, 1, MOST)
FINITE = Number(Real, -LARGEST, LARGEST)
NOT_NEGATIVE = Number(Real, 0, LARGEST)
SHARE = Number(Real, 0, 1)


class Arrays:
    """An array with a kind of dtype and as many axes as lengths are given."""

    holder = "ndarray"

    def __init__(self, kinds: str, *lengths: int | str, itemsize: int | None = None) -> None:
        self.kinds, self.lengths, self.itemsize = kinds, lengths, itemsize

    def is_satisfied_by(self, value: Any) -> bool:
        return (
            any(cls.__name__ == self.holder for cls in type(value).__mro__)
            and value.dtype.kind in self.kinds
            and value.dtype.itemsize == (self.itemsize or value.dtype.itemsize)
            and value.ndim == len(self.lengths)
            and all(
                n == given for n, given in zip(value.shape, self.lengths, strict=True) if type(given) is int
            )
        )

    def named(self, value: Any) -> Iterator[tuple[str, int]]:
        for name, n in zip(self.lengths, value.shape, strict=True):
            if isinstance(name, str):
                yield name, n

    def __str__(self) -> str:
        kinds = " or ".join(NAMES[kind] for kind in self.kinds)
        return f"a {self.holder} of {kinds} of shape ({', '.join(map(str, self.lengths))})"


class Texts(Arrays):
    """An array of texts, or of objects that are texts, with as many axes as lengths are given."""

    def __init__(self, *lengths: int | str) -> None:
        super().__init__("OU", *lengths)

    def is_satisfied_by(self, value: Any) -> bool:
        """Tell whether a value is an array of this kind, whose items are texts."""
        return super().is_satisfied_by(value) and all(isinstance(item, str) for item in value.flat)

    def __str__(self) -> str:
        return f"an array of texts of shape ({', '.join(map(str, self.lengths))})"


class Buffers(Arrays):
    holder = "Tensor"


class Params(Arrays):
    """A parameter of a module, of floats; its lengths are as for `Arrays`."""

    holder = "Parameter"

    def __init__(self, *lengths: int | str) -> None:
        super().__init__("f", *lengths)


NAMES = {
    **{"b": "bool", "i": "int", "u": "unsigned int", "f": "float", "O": "objects", "U": "texts"},
    **{"M": "datetime64", "m": "timedelta64", "c": "complex", "S": "bytes"},
}


class Dtypes(NamedTuple):
    """A dtype of some kinds."""

    kinds: str

    def is_satisfied_by(self, value: Any) -> bool:
        return isinstance(value, np.dtype) and value.kind in self.kinds

    def __str__(self) -> str:
        return f"a dtype of {' or '.join(NAMES[kind] for kind in self.kinds)}"


class Named:
    """An object of one of sknet's classes, which are only named, since they are above or loaded late."""

    # It must have the attribute `fitted`, where one is given, which only a fit sets.

    def __init__(self, *names: str, fitted: str = "__class__") -> None:
        self.names, self.fitted = names, fitted

    def is_satisfied_by(self, value: Any) -> bool:
        """Tell whether a value is an object of one of them, or of a class derived from it."""
        return hasattr(value, self.fitted) and any(
            cls.__name__ in self.names and cls.__module__.startswith("sknet.") for cls in type(value).__mro__
        )

    def __str__(self) -> str:
        which = "an" if self.fitted == "__class__" else "a fitted"
        return f"{which} instance of {' or '.join(map(repr, self.names))}"


class _Check(NamedTuple):
    """A check of values, as text and as a function."""

    text: str
    is_satisfied_by: Callable[[Any], bool]

    def __str__(self) -> str:
        return self.text


class Either:
    """A value that satisfies one of some declarations."""

    def __init__(self, *specs: Any) -> None:
        self.checks = [check_of(spec) for spec in specs]

    def is_satisfied_by(self, value: Any) -> bool:
        return any(check.is_satisfied_by(value) for check in self.checks)

    def __str__(self) -> str:
        return " or ".join(str(check) for check in self.checks if check is not ABSENT)


class Each:
    """A collection of a type, in which each item is as declared."""

    def __init__(self, kind: Any, spec: Any) -> None:
        self.kinds, self.check = kind if isinstance(kind, tuple) else (kind,), check_of(spec)

    def is_satisfied_by(self, value: Any) -> bool:
        return type(value) in self.kinds and (
            self.check is ANYTHING or all(map(self.check.is_satisfied_by, value))
        )

    def __str__(self) -> str:
        return f"a {' or '.join(kind.__name__ for kind in self.kinds)} in which each is {self.check}"


class Together:
    """A tuple with one item for each declaration."""

    def __init__(self, *specs: Any) -> None:
        self.checks = [check_of(spec) for spec in specs]

    def is_satisfied_by(self, value: Any) -> bool:
        """Tell whether a value is a tuple of this kind."""
        is_long = type(value) is tuple and len(value) == len(self.checks)
        return is_long and all(check.is_satisfied_by(x) for check, x in zip(self.checks, value, strict=True))

    def __str__(self) -> str:
        return f"a tuple ({', '.join(map(str, self.checks))})"


class Items:
    """A dict in which keys and values are as declared."""

    def __init__(self, key: Any, item: Any) -> None:
        self.key, self.item = check_of(key), check_of(item)

    def is_satisfied_by(self, value: Any) -> bool:
        return isinstance(value, (dict, types.MappingProxyType)) and all(
            self.key.is_satisfied_by(name) and self.item.is_satisfied_by(x) for name, x in value.items()
        )

    def __str__(self) -> str:
        return f"a dict of {self.key} to {self.item}"


def _is_float(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    # A float holds integers.
    return WHOLE.is_satisfied_by(value) if isinstance(value, Integral) else isinstance(value, Real)


def _is_level(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(part is None or _is_level(part) for part in value)
    return isinstance(value, (*SCALARS, range, types.EllipsisType))


def _is_slice(value: Any) -> bool:
    if not isinstance(value, slice):
        return False
    parts = (value.start, value.stop, value.step)
    return value.step != 0 and all(part is None or WHOLE.is_satisfied_by(part) for part in parts)


SCALARS = (bool, numbers.Number, str, bytes, np.generic, datetime.date, datetime.time, datetime.timedelta)
ANYTHING = _Check("any value", lambda value: True)
ABSENT = _Check("absent", lambda value: False)  # among the alternatives of a field that may be missing
LEVEL = _Check("a level", _is_level)
WHOLE = Number(Integral, -(2**63), 2**64)
SLICE = _Check("a slice of int", _is_slice)
TYPES: dict[Any, Any] = {
    Any: ANYTHING,
    bool: _Check("a bool", lambda value: isinstance(value, (bool, np.bool_))),
    int: WHOLE,
    float: _Check("a float", _is_float),
    str: _Check("a str", lambda value: isinstance(value, str)),
    types.NoneType: _Check("None", lambda value: value is None),
    np.dtype: Dtypes("biufOUSMmc"),
    callable: _Check("a callable", callable),
}


@cache
def _generic(spec: Any) -> Any:
    """Return the check that an annotation with parts describes."""
    origin, parts = typing.get_origin(spec), typing.get_args(spec)
    if origin is Annotated:
        return check_of(parts[1])
    if origin in (types.UnionType, typing.Union):
        return Either(*parts)
    if origin is Literal:
        return _Check(
            f"among {list(parts)}", lambda value: any(value == x and type(value) is type(x) for x in parts)
        )
    if origin is tuple and parts[-1:] != (...,):
        return Together(*parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Items(*parts)
    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        return Each((list, tuple) if inspect.isabstract(origin) else origin, parts[0])
    return check_of(callable if origin is collections.abc.Callable else origin)


def check_of(spec: Any) -> Any:
    """Return an object that tells whether a value is as declared, and that says so as text."""
    if isinstance(spec, list):
        return Either(*spec)
    if isinstance(spec, str) and spec == "no_validation":
        return ANYTHING
    if spec is None:
        return TYPES[types.NoneType]
    is_known = isinstance(spec, (type, types.BuiltinFunctionType)) or spec is Any
    if is_known and typing.get_origin(spec) is None and spec in TYPES:
        return TYPES[spec]
    if typing.get_origin(spec) is not None:
        return _generic(spec)
    return constraint(spec)


# -- the fields of a class --------------------------------------------------------------------------------


class Fields(NamedTuple):
    holder: str
    checks: Mapping[str, Any]
    absent: frozenset[str]
    rest: Any

    @classmethod
    def of(cls, holder: str, declared: Mapping[str, Any]) -> "Fields":
        checks = {name: check_of(spec) for name, spec in declared.items()}
        absent = [name for name, each in checks.items() if isinstance(each, Either) and ABSENT in each.checks]
        rest = checks.pop("*", None)
        return cls(holder, checks, frozenset(absent), rest)

    def check(self, values: Mapping[str, Any], *, is_partial: bool = False, others: bool = False) -> None:
        """Raise a ValueError unless values are as declared."""
        missing = (
            [] if is_partial else [name for name in self.checks if name not in values.keys() | self.absent]
        )
        if missing:
            raise ValueError(f"{self.holder} lacks its field {missing[0]!r}")
        lengths: dict[str, tuple[str, Any]] = {}
        for name, value in values.items():
            check = self.checks.get(name, self.rest)
            if check is None and others:
                continue
            if check is None:
                raise ValueError(f"{self.holder} has no field {shown(name)}, only {sorted(self.checks)}")
            if not check.is_satisfied_by(value):
                raise ValueError(f"field {name!r} of {self.holder} must be {check}, got {shown(value)}")
            if isinstance(check, (Arrays, Either)):
                self._compare(name, check, values, lengths)

    def is_satisfied_by(self, values: Any) -> bool:
        try:
            self.check(values)
        except (ValueError, AttributeError, TypeError):
            return False
        return True

    def __str__(self) -> str:
        return f"a dict of {', '.join(f'{name}: {check}' for name, check in self.checks.items())}"

    def _compare(self, name: str, check: Any, values: Mapping[str, Any], lengths: dict[str, Any]) -> None:
        """Raise a ValueError if an axis has another length than a field, or another array, says."""
        value = values[name]
        checks = check.checks if isinstance(check, Either) else [check]
        array = next(
            (each for each in checks if isinstance(each, Arrays) and each.is_satisfied_by(value)), None
        )
        for axis, n in [] if array is None else array.named(value):
            whose, known = (axis, values[axis]) if axis in values else lengths.setdefault(axis, (name, n))
            if known != n:
                raise ValueError(
                    f"field {name!r} of {self.holder} has {axis} = {n}, but {whose!r} says {known}"
                )


def shown(value: Any) -> str:
    """Return a value from a file as text for a message, which is short whatever it is."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, (*SCALARS, types.NoneType)) and not isinstance(value, int):
        return reprlib.repr(value)
    if isinstance(value, int):
        return str(value) if -MOST <= value <= MOST else "a larger int"
    return f"a {type(value).__name__}" + (
        f" of {len(value)}" if isinstance(value, (tuple, list, dict)) else ""
    )


@cache
def fields_of(cls: type, *, parameters: bool = False) -> Fields:
    declared: dict[str, Any] = {}
    absent: set[str] = set()
    if parameters:
        declared |= getattr(cls, "_parameter_constraints", {})
    if dataclasses.is_dataclass(cls):
        found = dataclasses.fields(cls)
        declared |= {field.name: field.type for field in found}
        absent |= {field.name for field in found if field.default is not dataclasses.MISSING}
    elif issubclass(cls, tuple):
        declared |= inspect.get_annotations(cls)
    for base in reversed(cls.__mro__):
        declared |= vars(base).get("_stored_fields", {})
    texts = [name for name, spec in declared.items() if isinstance(spec, str) and spec != "no_validation"]
    if texts:
        raise TypeError(f"{cls.__name__}.{texts[0]} is declared as a text: name its class in _stored_fields")
    fields = Fields.of(cls.__name__, declared)
    return fields._replace(absent=fields.absent | absent)
