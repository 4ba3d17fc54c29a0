"""Constraints of parameters, in scikit-learn's format, and the message for a parameter that breaks one.

Losses, optimizers and layers are loaded with a predictor, and scikit-learn takes longer to load than all of
them: their constraints do without it. Estimators declare theirs with scikit-learn's own classes, which
`sknet._validation` offers, since its checks of estimators read them; both kinds are checked here.
"""

import inspect
import math
import operator
import os
import sys
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from sknet.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

PLAIN = frozenset({bool, int, float, str, type(None)})  # types of most parameters and attributes
MOST_SHOWN = 500  # characters of a value in a message
DEEPEST = 4  # lists in lists that numbers are looked for in
MOST_AXES = 32  # lists in lists that are an array
WHOLE = 2**63  # integers are smaller
MOST_VALID = 4096  # values that are known to be valid
BOOLEANS = (bool, np.bool_)
NUMBERS = (int, float, np.integer, np.floating)


def is_huge(value: Any) -> bool:
    """Tell whether a value is an integer of more than 64 bits."""
    return isinstance(value, int) and not -WHOLE <= value < WHOLE


class RealNotInt(Real):
    """A real number of a type that is not for integers: ``1.0`` is one, ``1`` is not."""

    @abstractmethod
    def __init__(self) -> None: ...


RealNotInt.register(float)


class Interval(NamedTuple):
    """A range of numbers of a type."""

    type: Any
    left: float | None
    right: float | None
    closed: str

    def is_satisfied_by(self, value: Any) -> bool:
        """Tell whether a value is a number of this type in this range."""
        if not isinstance(value, self.type) or is_huge(value) or math.isnan(value):
            return False
        left = -math.inf if self.left is None else self.left
        right = math.inf if self.right is None else self.right
        is_above = value >= left if self.closed in ("left", "both") else value > left
        return bool(is_above and (value <= right if self.closed in ("right", "both") else value < right))

    def __str__(self) -> str:
        left, right = (self._shown(bound) for bound in (self.left, self.right))
        opening = "[" if self.closed in ("left", "both") else "("
        closing = "]" if self.closed in ("right", "both") else ")"
        kind = "an int" if self.type is Integral else "a float"
        return f"{kind} in the range {opening}{left or '-inf'}, {right or 'inf'}{closing}"

    def _shown(self, bound: Any) -> str:
        if bound is None:
            return ""
        return str(bound) if self.type is Integral else str(float(bound))


class Taking(NamedTuple):
    """A callable that can be called with so many arguments."""

    size: int
    what: str

    def is_satisfied_by(self, value: Any) -> bool:
        """Tell whether a value is callable, and its signature, if it is known, fits."""
        if not callable(value):
            return False
        try:
            signature = inspect.signature(getattr(value, "forward", value))  # layers take any arguments
        except (TypeError, ValueError):  # of a function in C, or one that does not take what is bound
            return not inspect.isfunction(getattr(value, "func", None))
        try:
            signature.bind(*[None] * self.size)
        except TypeError:
            return False
        return True

    def __str__(self) -> str:
        return f"a callable that takes {self.what}"


class Options:
    def __init__(self, type: Any, options: frozenset[Any] | set[Any]) -> None:
        self.type, self.options = type, options

    def is_satisfied_by(self, value: Any) -> bool:
        return isinstance(value, self.type) and value in self.options

    def __str__(self) -> str:
        return f"a {_type_name(self.type)} among {{{', '.join(map(repr, sorted(self.options)))}}}"


class StrOptions(Options):
    """One of some strings."""

    def __init__(self, options: frozenset[str] | set[str]) -> None:
        super().__init__(str, options)


def _type_name(kind: type) -> str:
    name = "int" if kind is Integral else "float" if kind in (Real, RealNotInt) else None
    module = kind.__module__
    return name or (kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}")


def is_array_like(value: Any) -> bool:
    """Tell whether NumPy makes an array of a value, and it is no single number or text."""
    if isinstance(value, (type, ModuleType)):  # whose attributes are not those of a value
        return False
    if not any(hasattr(value, name) for name in ("__len__", "shape", "__array__")) or np.isscalar(value):
        return False
    return _is_shallow(value, MOST_AXES)


def _is_shallow(value: Any, most: int) -> bool:
    """Tell whether lists are nested at most so deeply: one that holds itself is not."""
    if not isinstance(value, (list, tuple)):
        return True
    return most > 0 and all(_is_shallow(item, most - 1) for item in value)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and "\0" not in os.fspath(value)


class _Named(NamedTuple):
    """A constraint by its name, as "array-like"."""

    check: Any
    shown: str

    def is_satisfied_by(self, value: Any) -> bool:
        return bool(self.check(value))

    def __str__(self) -> str:
        return self.shown


NAMED: Mapping[Any, _Named] = {
    None: _Named(lambda value: value is None, "None"),
    callable: _Named(callable, "a callable"),
    "array-like": _Named(is_array_like, "an array-like"),
    "path": _Named(_is_path, "a path, as a str or an os.PathLike without a NUL character"),
    "boolean": _Named(
        lambda value: isinstance(value, BOOLEANS), "an instance of 'bool' or an instance of 'numpy.bool'"
    ),
}


def constraint(of: Any) -> Any:
    """Return an object that tells whether a value satisfies a constraint, and that says so as text."""
    if isinstance(of, type):
        return _Named(lambda value: isinstance(value, of), f"an instance of {_type_name(of)!r}")
    if hasattr(of, "is_satisfied_by"):
        return of
    if of in NAMED:
        return NAMED[of]
    from sklearn.utils._param_validation import make_constraint  # of an estimator, which has loaded it

    return make_constraint(of)


_valid: set[tuple[Any, ...]] = set()  # classes with names and values that were found to be valid


def check_values(holder: object, constraints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Check values against constraints in scikit-learn's format: plain ones once in a process."""
    kind = type(holder)
    for name, value in values.items():
        key = (kind, name, type(value), value) if type(value) in PLAIN or is_plain(value) else None
        if key is not None and key in _valid:
            continue
        _check(kind.__name__, name, constraints.get(name, "no_validation"), value)
        if key is not None:
            if len(_valid) > MOST_VALID:
                _valid.clear()
            _valid.add(key)


def is_integer(value: Any) -> "TypeIs[int]":
    """Tell whether a value is an integer of Python or NumPy, which counts durations among its own."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, np.timedelta64)


def is_number(value: Any) -> bool:
    """Tell whether a value is an integer or a float of Python or NumPy."""
    return isinstance(value, NUMBERS) and not isinstance(value, np.timedelta64)


def is_plain(value: Any) -> bool:
    """Tell whether a value never changes, and equals no other of its type that may be invalid."""
    return type(value) in PLAIN or (type(value) is tuple and all(type(x) is int for x in value))


def shown(value: Any) -> str:
    """Return a value as a message shows it: shortened, and whatever its class does."""
    if isinstance(value, int) and not -(10**40) < value < 10**40:
        return f"an int of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception as error:
        return f"an object of {_type_name(type(value))}, whose representation raises {type(error).__name__}"
    return middle_left_out(text, MOST_SHOWN)


def middle_left_out(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 2) :]}"


def plain(value: Any, depth: int = 0) -> Any:
    """Return a number of NumPy as Python's, also in lists, tuples and dicts; anything else as it is."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, np.generic):
        if not (isinstance(value, np.bool_) or is_number(value)):
            return value
        return float(value) if isinstance(value, np.longdouble) else value.item()
    if (kind is tuple or kind is list) and depth < DEEPEST:
        items = [plain(item, depth + 1) for item in value]
        return value if all(map(operator.is_, items, value)) else kind(items)
    if kind is dict and any(isinstance(item, np.generic) for item in value.values()):
        return {key: plain(item) for key, item in value.items()}
    return value


def _check(caller: str, name: str, constraints: Any, value: Any) -> None:
    if isinstance(constraints, str):  # "no_validation"
        return
    found = []
    for each in constraints:  # made one by one, since mostly the first is satisfied
        found.append(constraint(each))
        if satisfies(value, found[-1]):
            return
    *others, last = [str(each) for each in found if not getattr(each, "hidden", False)]
    must = f"{', '.join(others)} or {last}" if others else last
    invalid(f"The {name!r} parameter of {caller} must be {must}. Got {shown(value)} instead.")


def satisfies(value: Any, constraint: Any) -> bool:
    """Tell whether a value satisfies a constraint; what cannot be compared does not."""
    if isinstance(value, Real) and not is_number(value):  # such as a Fraction
        return False
    if isinstance(value, int) and is_huge(value):
        return False
    try:
        return bool(constraint.is_satisfied_by(value))
    except Exception:
        return False


def is_whole(value: Any, least: int = 1, most: int = WHOLE - 1) -> bool:
    """Tell whether a value is an integer, and not a bool, within bounds."""
    return is_integer(value) and not isinstance(value, bool) and least <= int(value) <= most


def invalid(message: str) -> NoReturn:
    """Raise the error of an invalid parameter: where estimators are loaded, it is scikit-learn's as well."""
    loaded: Any = sys.modules.get("sknet._validation")
    raise (InvalidParameterError if loaded is None else loaded.InvalidEstimatorError)(message)
