"""Arguments of public functions, and parameter objects: losses, optimizers, schedules and initializers.

Parameter objects only store their parameters. They follow scikit-learn's parameter protocol, so `clone`,
nested names in a grid (``optimizer__lr``) and pickling work as for its estimators, but without importing
scikit-learn, since predictors load them.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from copy import copy
from dis import opmap
from functools import cache, wraps
from html import escape
from numbers import Number
from operator import index
from pprint import saferepr
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from sknet import exceptions
from sknet._constraints import (
    Interval,
    Options,
    RealNotInt,
    StrOptions,
    check_values,
    constraint,
    invalid,
    is_huge,
    is_number,
    is_plain,
    middle_left_out,
    plain,
    shown,
)
from sknet._hints import advice_for, argument_hint, hints, or_names, parameter_hint, suggestion, value_hint
from sknet.exceptions import InvalidParameterError

LONGEST = 2000  # characters of a message
UNORDERED = (str, bytes, Mapping, Set)
FITS = ("fit", "partial_fit")
METHODS = (
    *(*FITS, "predict", "predict_proba", "predict_log_proba", "decision_function", "score"),
    *("transform", "inverse_transform", "predict_samples", "predict_interval", "predict_quantiles"),
    *("predict_set", "predict_std", "input_gradient", "integrated_gradients", "get_feature_names_out"),
    "layer",
)
Function = TypeVar("Function", bound=Callable[..., Any])
OWN = tuple(getattr(exceptions, name) for name in exceptions.__all__ if name.endswith("Error"))
# Errors of computations in Python and NumPy, which are no answer to a user.
RAW = (ArithmeticError, AttributeError, KeyError, RecursionError, StopIteration, TypeError, ValueError)
RAISE = bytes([opmap["RAISE_VARARGS"]])
WORDS: dict[Any, str] = {
    bool: "True or False", int: "an integer", float: "a number", str: "a str", NoneType: "None", None: "None",
    Callable: "a callable", Mapping: "a mapping",
}  # fmt: skip


def checked(function: Function) -> Function:
    """Return a function whose arguments are compared with the annotations before each call."""

    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        found = _wrong_type(function, args, kwargs)
        if found is not None:
            raise found
        return function(*args, **kwargs)

    return cast(Function, told)


def named_errors(function: Function) -> Function:
    """Return a function whose error for an argument of a wrong type names the argument."""

    @wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            found = wrong_argument(function, args, kwargs, error)
            if found is None:
                raise
            raise found from error

    return cast(Function, told)


def name_errors_of(estimator: type) -> None:
    """Let methods of a class of estimators, those of mixins too, name arguments of wrong types."""
    for name in METHODS:
        owner = next((base for base in estimator.__mro__ if name in vars(base)), object)
        if name == "transform" and owner is not estimator:
            continue  # scikit-learn would wrap a copy, whose class may not want it
        is_named = owner is not estimator and hasattr(owner, "set_params")  # by its own call
        if is_named or not owner.__module__.startswith("sknet."):
            continue
        method = copy(vars(owner)[name])
        if inspect.isfunction(method):
            setattr(estimator, name, named_errors(_without_underflow(method) if name in FITS else method))
        elif inspect.isfunction(getattr(method, "function", None)):  # by available_if
            method.function = named_errors(method.function)
            setattr(estimator, name, method)


def _without_underflow(fit: Function) -> Function:
    """Return a fit that ignores underflow, which is exact enough, where users let NumPy raise or warn."""

    @wraps(fit)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(under="ignore"):  # as a decorator, it would be the line that warnings point at
            return fit(*args, **kwargs)

    return cast(Function, quiet)


def wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> Exception | None:
    """Return the error that names the argument for which a call failed; None if the given one does."""
    raised_by = _raised_by(error)
    is_told = (raised_by or "").startswith("sknet.") and error.__cause__ is None
    if isinstance(error, AttributeError) and is_told:  # of an object in place of another
        return _wrong_type(function, args, kwargs)
    if is_told or isinstance(error, (*OWN, FloatingPointError)):  # the latter by np.errstate, as asked for
        return _shortened(error)
    given, name = _given(function, args, kwargs), function.__name__
    said = str(error) if isinstance(error, (ValueError, TypeError)) else ""
    found = _wrong_type(function, args, kwargs)
    if found is not None:
        is_named = (raised_by or "").startswith("sklearn.") and any(
            re.search(rf"\b{key}\b", said) for key in given
        )
        return None if is_named and len(said) <= LONGEST else found
    has_code = "self" in given or any(map(callable, given.values()))  # of users, which may fail
    if isinstance(error, (ValueError, TypeError)) and (raised_by is not None or has_code or not given):
        return _shortened(error)
    for key, value in given.items():
        if not _is_readable(value) or (isinstance(error, RecursionError) and not _is_tree(value)):
            return ValueError(f"{name}: {key} cannot be read, got {shown(value)}")
    if isinstance(error, RAW) and not has_code:
        values = ", ".join(f"{key}={shown(value):.80}" for key, value in given.items())
        kind = TypeError if isinstance(error, TypeError) else ValueError
        return kind(f"{name} cannot be computed with {values}: {type(error).__name__}: {error}")
    return None


def _shortened(error: Exception) -> Exception | None:
    """Return an error with a shorter message; None if that of the given one is short."""
    said, half = str(error), LONGEST // 2
    is_long = isinstance(error, (ValueError, TypeError)) and len(said) > LONGEST
    return type(error)(f"{said[:half]}...{said[-half:]}") if is_long else None


def _raised_by(error: Exception) -> str | None:
    """Return the module whose statement has raised an error; None if a computation of NumPy or Python has."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or last.tb_frame.f_code.co_code[last.tb_lasti : last.tb_lasti + 1] != RAISE:
        return None
    return str(last.tb_frame.f_globals.get("__name__", ""))


def _given(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # says that one is missing, or too many
        return {}


def _wrong_type(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Exception | None:
    kinds, name = _annotations(function), function.__name__
    for key, value in _given(function, args, kwargs).items():
        kind = kinds.get(key, Any)
        if not _fits(value, kind):
            return TypeError(f"{name}: {key} must be {_said(kind)}, got {shown(value)}")
        if is_huge(value):
            return ValueError(f"{name}: {key} must be a number of at most 64 bits, got {shown(value)}")
    return None


def _is_readable(value: Any) -> bool:
    """Tell whether a value, and what it holds, can be shown and converted without an error of its own."""
    try:
        repr(value)
        if isinstance(value, (Number, list, tuple)) or hasattr(value, "__array__"):
            np.asarray(value, np.float64)
    except (ValueError, TypeError, *OWN):
        return not isinstance(value, Number)
    except Exception:
        return False
    return True


def _is_tree(value: Any) -> bool:
    """Tell whether containers end: none holds itself, and none is nested too deeply."""
    try:
        json.dumps(value, skipkeys=True, default=lambda _: None)
    except Exception:
        return False
    return True


@cache
def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of parameters; texts, which only type checkers read, are left out."""
    return {
        name: Any if each.annotation is each.empty else each.annotation
        for name, each in inspect.signature(function).parameters.items()
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    }


def _fits(value: Any, kind: Any) -> bool:
    """Tell whether a value is of a type, as far as can be said; one that raises is not."""
    try:
        return _is_of(value, kind)
    except Exception:
        return False


def _is_of(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return np.dtype(value) is not None if _is_dtype(parts) else any(_fits(value, part) for part in parts)
    if kind is bool:
        return isinstance(value, (bool, np.bool)) or (isinstance(value, int) and value in (0, 1))
    if kind is int:
        return not is_huge(index(value))
    if kind is float:
        has_kind = getattr(getattr(value, "dtype", None), "kind", "f") in "biufc"
        return has_kind and (is_number(value) or getattr(value, "ndim", None) == 0)
    if kind is str or kind is NoneType or kind is None:
        return isinstance(value, str) if kind is str else value is None
    if _is_several(origin):
        return _are_of(value, origin, {part for part in parts if part is not ...})
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, origin) and all(_fits(key, parts[0]) for key in value)
    known = getattr(origin or kind, "__bound__", None) or origin or kind  # what a type variable stands for
    return not isinstance(known, type) or known is Any or isinstance(value, known)


def _are_of(value: Any, origin: Any, kinds: set[Any]) -> bool:
    if origin is tuple and not isinstance(value, (tuple, list)):
        return False
    is_ordered = hasattr(value, "__getitem__") and not isinstance(value, UNORDERED)
    if issubclass(origin, Sequence) and not is_ordered:
        return False
    are_known = len(kinds) == 1 and hasattr(value, "__len__")
    return iter(value) is not None and (not are_known or all(_fits(each, *kinds) for each in value))


def _is_several(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)


def _is_dtype(parts: tuple[Any, ...]) -> bool:
    return any(get_origin(part) is np.dtype for part in parts)


def _said(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if _is_dtype(parts):
            return "a dtype" + (" or None" if NoneType in parts else "")
        return " or ".join(dict.fromkeys(map(_said, parts)))
    if (origin or kind) in WORDS:
        return WORDS[origin or kind]
    if _is_several(origin):
        items = dict.fromkeys(part for part in parts if part is not ...)
        what = "a sequence" if issubclass(origin, Sequence) else "an iterable"
        return what if set(items) <= {Any} else f"{what} whose items are {' or '.join(map(_said, items))}"
    return str(constraint(getattr(kind, "__bound__", None) or origin or kind))


__all__ = [
    "Composite", "Interval", "Options", "ParameterObject", "PlainNumbers", "RealNotInt", "StrOptions",
    "arguments_of", "check_values", "described_by", "explained", "explained_call", "may_be_same", "names_of",
    "resolve", "same", "store_parameters", "unknown_parameter", "validate_parameters",
]  # fmt: skip

LINE = 80  # characters of a line of a representation
MOST_SHOWN = 700  # characters of a representation
NUMBERS = (np.generic, tuple, list, dict)  # and what may hold some
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])
Method = TypeVar("Method", bound=Callable[..., Any])


class PlainNumbers:
    """Mixin of objects with parameters: numbers of NumPy among them become Python's when they are set."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_errors_of(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, NUMBERS) and name in names_of(cast(Hashable, type(self))):
            value = plain(value)
        super().__setattr__(name, value)

    def __repr__(self, *args: Any) -> str:
        try:
            return str(super().__repr__(*args))
        except Exception:  # raised by the representation of a parameter
            names = names_of(cast(Hashable, type(self)))
            return f"{type(self).__name__}({', '.join(f'{n}={shown(getattr(self, n))}' for n in names)})"

    def _html_repr(self) -> str:
        try:
            return str(super()._html_repr())  # type: ignore[misc]  # of scikit-learn
        except Exception:  # raised by a parameter
            return f"<pre>{escape(repr(self))}</pre>"


class ParameterObject(PlainNumbers):
    """Base of the objects that are hyperparameters: they store, compare, clone and validate."""

    _parameter_constraints: dict[str, list[Any]] = {}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(names_of(cast(Hashable, cls)))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if `deep`, also those of objects among them, as ``lr__decay``."""
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = found[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found.update({f"{name}__{key}": inner for key, inner in value.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones (``optimizer__lr``): all of them, or none if a name is unknown.

        `params` has values by the names that `get_params` returns, in any order. If a nested object is
        replaced in the same call, its parameters are set on the new object. The object is returned.

        Raises
        ------
        ValueError
            If there is no such parameter; the message suggests the right name.
        """
        own, nested = self._resolved(params)
        for name, value in own.items():
            setattr(self, name, value)
        for part, values in nested:
            part.set_params(**values)
        return self

    def _resolved(
        self, params: Mapping[str, Any]
    ) -> "tuple[dict[str, Any], list[tuple[Any, dict[str, Any]]]]":
        """Return the values of the object's own parameters, and nested objects with the values of theirs."""
        names = self._get_param_names()
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            part, _, rest = name.partition("__")
            if part not in names:
                raise unknown_parameter(self, part)
            if rest:
                inner.setdefault(part, {})[rest] = value
            else:
                own[part] = value
        parts = [(part, own.get(part, getattr(self, part, None)), values) for part, values in inner.items()]
        return own, self._checked(parts)

    def _checked(self, parts: "list[tuple[str, Any, dict[str, Any]]]") -> "list[tuple[Any, dict[str, Any]]]":
        """Return nested objects with the values of their parameters, all of which exist."""
        for name, part, values in parts:
            if isinstance(part, ParameterObject):
                part._resolved(values)
            elif not hasattr(part, "set_params") or isinstance(part, type):
                raise ValueError(
                    f"Invalid parameter {name + '__' + next(iter(values))!r} for estimator {self}: "
                    f"{name!r} is {part!r}, which has no parameters of its own. Set {name!r} as well."
                )
        return [(part, values) for _, part, values in parts]

    def validate(self) -> None:
        """Check every parameter, including those of nested parameter objects.

        Raises
        ------
        InvalidParameterError
            A `ValueError` that states the parameter, its allowed values and its value.
        """
        validate_parameters(self)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))  # a dict also where there are no parameters

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(same(value, theirs[name]) for name, value in mine.items())

    def __repr__(self) -> str:
        name = type(self).__name__
        return middle_left_out(
            _filled(f"{name}(", [f"{key}={text}" for key, text in self._changes_as_text()]), MOST_SHOWN
        )

    def _changes_as_text(self) -> list[tuple[str, str]]:
        """Return names and values, as text, of the parameters that differ from their defaults."""
        found = {name: getattr(self, name) for name in self._get_param_names()}
        if _shows_changes_only():
            defaults = _defaults_of(cast(Hashable, type(self)))
            found = {name: value for name, value in found.items() if not _is_default(value, defaults[name])}
        return [(name, _as_text(value)) for name, value in found.items()]

    def __hash__(self) -> int:
        return hash(type(self))  # equal objects must have equal hashes, and 1 == 1.0 == np.float32(1)


class Composite(ParameterObject):
    """Base of parameter objects that hold others in a dict or list, addressed by key or index."""

    container: ClassVar[str]
    """Name of the parameter that holds the others."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if `deep`, also those of the objects inside."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for key, value in _by_key(found[self.container]).items():
                found[key] = value
                if isinstance(value, ParameterObject):
                    found.update({f"{key}__{name}": x for name, x in value.get_params(deep=True).items()})
        return found

    def _resolved(
        self, params: Mapping[str, Any]
    ) -> "tuple[dict[str, Any], list[tuple[Any, dict[str, Any]]]]":
        held = params.get(self.container, getattr(self, self.container))
        parts = dict(_by_key(held))
        replaced = {key: value for key, value in params.items() if key in parts}
        parts.update(replaced)
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            if name in replaced:
                continue
            key = _holder(name, parts)
            if key is None:
                own[name] = value
            else:
                inner.setdefault(key, {})[name[len(key) + 2 :]] = value
        own, nested = super()._resolved(own)
        if replaced:
            own[self.container] = parts if isinstance(held, dict) else list(parts.values())
        return own, nested + self._checked([(key, parts[key], values) for key, values in inner.items()])


def _holder(name: str, parts: Mapping[str, Any]) -> str | None:
    """Return the key of the part that a nested name belongs to: its longest matching prefix."""
    return max((key for key in parts if name.startswith(f"{key}__")), key=len, default=None)


def arguments_of(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method, given its `locals()`."""
    return {name: value for name, value in known.items() if name not in ("self", "__class__")}


def store_parameters(estimator: Any, known: Mapping[str, Any]) -> None:
    """Set the arguments of a constructor, given its `locals()`, as attributes."""
    values = arguments_of(known)
    if _are_plain_attributes(cast(Hashable, type(estimator)), tuple(values)):
        found = {name: plain(x) if isinstance(x, NUMBERS) else x for name, x in values.items()}
        vars(estimator).update(found)
        return
    for name, value in values.items():
        setattr(estimator, name, value)


@cache
def _are_plain_attributes(kind: Any, names: tuple[str, ...]) -> bool:
    """Tell whether `PlainNumbers` sets these attributes of a class, and none is a property."""
    return kind.__setattr__ is PlainNumbers.__setattr__ and not any(hasattr(kind, name) for name in names)


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor whose error for an unknown parameter suggests the right one."""

    @wraps(init)
    def told(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            cls = type(self)
            names = cls._get_param_names()
            unknown = [name for name in kwargs if name not in names]
            if not unknown and "multiple values" in str(error) and "params" in advice_for(cls):
                unknown = ["params"]  # Adam(network.parameters(), lr=1e-3)
            if not unknown:
                raise
            hint = parameter_hint(cls, unknown[0], names)
            its = f"Its parameters are {', '.join(names)}." if names else "It has none."
            raise TypeError(f"{cls.__name__} has no parameter {unknown[0]!r}{or_names(hint, its)}") from None

    return told


def explained_call(method: Method) -> Method:
    """Return a method of an estimator whose error for an unknown argument suggests the right one."""
    names = list(inspect.signature(method).parameters)[1:]

    @wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                parameters: list[str] = getattr(type(self), "_get_param_names", list)()
                hint = argument_hint(type(self), name, names, parameters)
                where = f"{type(self).__name__}.{method.__name__}"
                its = f"Its arguments are {', '.join(names)}."
                raise TypeError(f"{where} has no argument {name!r}{or_names(hint, its)}")
        return method(self, *args, **kwargs)

    return cast(Method, told)


def unknown_parameter(estimator: Any, name: str) -> ValueError:
    """Return the error for an unknown parameter, which suggests the right one."""
    valid = sorted(estimator.get_params(deep=False))
    hint = parameter_hint(type(estimator), name, valid)
    return ValueError(
        f"Invalid parameter {name!r} for estimator {estimator}"
        f"{or_names(hint, f'Valid parameters are: {valid}.')}"
    )


def _by_key(held: Any) -> dict[str, Any]:
    if isinstance(held, (list, tuple)):
        return {str(i): value for i, value in enumerate(held)}
    return held if isinstance(held, dict) else {}  # `validate` refuses it


def same(a: Any, b: Any) -> bool:
    """Tell whether two values of a parameter are equal; they may be arrays."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)


def may_be_same(a: Any, b: Any) -> bool:
    """Tell whether two values of a file may be one that was stored twice."""
    if a is b or type(a) is not type(b):
        return a is b
    return not is_plain(a) or same(a, b) or bool(a != a)  # NaN


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    """Return the parameter names of a class; cached, since inspecting a signature is slow."""
    made_by = inspect.unwrap(kind.__init__, stop=_has_signature)
    code = None if _has_signature(made_by) else getattr(made_by, "__code__", None)
    if code is not None and not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return tuple(sorted(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]))
    found = _parameters_of(kind)
    if any(each.kind is each.VAR_POSITIONAL for each in found):
        raise RuntimeError(f"the constructor of {kind.__name__} takes *args: give each parameter a name")
    return tuple(sorted(each.name for each in found))


def _has_signature(function: Any) -> bool:
    return hasattr(function, "__signature__")


def _parameters_of(kind: Any) -> list[inspect.Parameter]:
    if kind.__init__ is object.__init__:
        return []
    _, *found = inspect.signature(kind.__init__).parameters.values()
    return [each for each in found if each.kind is not each.VAR_KEYWORD]


@cache
def _defaults_of(kind: Any) -> dict[str, Any]:
    return {each.name: each.default for each in _parameters_of(kind)}


def _is_default(value: Any, default: Any) -> bool:
    if default is inspect.Parameter.empty or type(value) is not type(default):
        return False
    return value is default or repr(value) == repr(default)


def _shows_changes_only() -> bool:
    """Tell whether scikit-learn is configured to omit parameters at their defaults."""
    sklearn: Any = sys.modules.get("sklearn")
    return sklearn is None or bool(sklearn.get_config()["print_changed_only"])


def _filled(start: str, parts: list[str]) -> str:
    """Return a call as text, with its arguments wrapped to the line length."""
    lines, indent = [start], " " * len(start)
    for i, part in enumerate(parts):
        text = part + (")" if i == len(parts) - 1 else ",")
        is_first = lines[-1] in (start, indent)
        if not is_first and len(lines[-1]) + 1 + len(text) > LINE:
            lines.append(indent)
            is_first = True
        lines[-1] += text if is_first else f" {text}"
    return "\n".join(lines) + ("" if parts else ")")


def validate_parameters(estimator: Any) -> None:
    """Check an estimator's own parameters and those of the parameter objects among them."""
    params = estimator.get_params(deep=False)
    try:
        check_values(estimator, estimator._parameter_constraints, params)
    except InvalidParameterError as error:
        name = next((name for name in params if f"The {name!r} parameter" in str(error)), "")
        hint = _advice(name, params.get(name))
        if not hint:
            raise
        raise type(error)(f"{error}{hint}") from None
    for name, value in params.items():
        if isinstance(value, ParameterObject):
            value.validate()
        elif isinstance(value, type) and issubclass(value, ParameterObject):  # passes as a callable
            invalid(
                f"The {name!r} parameter of {type(estimator).__name__} must not be a class. "
                f"Got {shown(value)} "
                f"instead: pass an object, {value.__name__}(...)."
            )


def _as_text(value: Any) -> str:
    try:
        return saferepr(value)
    except Exception:  # of its class
        return shown(value)


def _advice(name: str, value: Any) -> str:
    try:
        return value_hint(name, value)
    except Exception:  # of a value that compares with nothing
        return ""


def resolve(
    value: Any,
    registry: Mapping[str, Callable[[], T]],
    base: type,
    *,
    parameter: str,
    caller: str,
    elsewhere: Mapping[str, Collection[str]] | None = None,
) -> Any:
    """Turn a name into a new object of the registry, and pass objects of `base` through."""
    if isinstance(value, str) and value in registry:
        return registry[value]()
    if isinstance(value, base):
        if isinstance(value, ParameterObject):
            value.validate()
        return value
    hint = suggestion(value, registry, hints(parameter)) if isinstance(value, str) else "."
    if isinstance(value, type) and issubclass(value, base):
        hint = f". Pass an instance: {value.__name__}()."
    others = {} if elsewhere is None else elsewhere
    names = sorted(set(registry).difference(*others.values()))
    only = "".join(f" ({owner} alone also takes {sorted(its)})" for owner, its in others.items())
    invalid(
        f"The {parameter!r} parameter of {caller} must be a str among {names}{only} "
        f"or an instance of {base.__name__}. Got {shown(value)} instead{hint}"
    )


# -- descriptions that classes share ------------------------------------------------------------------------

SECTION = re.compile(r"\n\n([A-Z][\w ]+)\n-{3,}\n")  # the heading of a section of a docstring


def described_by(shared: Callable[..., Any]) -> Callable[[C], C]:
    """Complete the docstring of a class or function by descriptions of parameters in that of another.

    The class describes what differs: a parameter that it does not describe is described as in the other
    class, if its signature has it, and so is an attribute; a function or method returns and raises the same,
    unless it says otherwise. Without docstrings, as with ``python -OO``, nothing happens.
    """

    def complete(cls: C) -> C:
        if cls.__doc__ and shared.__doc__:
            text, *parts = SECTION.split(inspect.cleandoc(cls.__doc__))
            _, *others = SECTION.split(inspect.cleandoc(shared.__doc__))
            sections, given = dict(zip(*[iter(parts)] * 2)), dict(zip(*[iter(others)] * 2))  # noqa: B905
            known = _descriptions(given.get("Parameters", "")) | _descriptions(sections.pop("Parameters", ""))
            names = [name for name in inspect.signature(cls).parameters if name not in ("self", "cls")]
            found = {"Parameters": [known[name] for name in names]}
            for title in () if isinstance(cls, type) else ("Returns", "Raises"):
                if title in given:
                    found[title] = [sections.pop(title, given[title])]
            if "Attributes" in given:
                own = _descriptions(sections.pop("Attributes", ""))
                found["Attributes"] = [*(own | (_descriptions(given["Attributes"]) | own)).values()]
            sections = {title: "\n".join(dict.fromkeys(each)) for title, each in found.items()} | sections
            described = [f"{title}\n{'-' * len(title)}\n{body}" for title, body in sections.items()]
            cls.__doc__ = "\n\n".join([text, *described])
        return cls

    return complete


def _descriptions(section: str) -> dict[str, str]:
    """Return the descriptions in a section by name; several names may share one."""
    entries = re.split(r"\n(?=\S)", section) if section else []
    heads = [entry.partition("\n")[0].partition(" : ")[0] for entry in entries]
    return {
        name.lstrip("*"): entry
        for head, entry in zip(heads, entries, strict=True)
        for name in head.split(", ")
    }
