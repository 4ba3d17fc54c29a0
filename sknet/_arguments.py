"""Arguments of functions: the error for one that is not of its annotation's type.

Nothing is checked before a call. If it fails, arguments are compared with the annotations, and one that does
not fit is named; errors that sknet raises, and those that name an argument, pass as they are.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from dis import opmap
from functools import cache, wraps
from numbers import Number
from operator import index
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from sknet import exceptions
from sknet._constraints import WHOLE, constraint, is_number, shown

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
    """Return a fit in which underflow, exact enough there, passes where users let NumPy raise or warn."""

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
        if isinstance(value, int) and not -WHOLE <= value < WHOLE:
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
        return -WHOLE <= index(value) < WHOLE
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
    """Return a type in words."""
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
