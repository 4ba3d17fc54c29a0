"""Parameter objects, their constraints, and the one message for a parameter that is wrong.

Losses, optimizers, schedules and initialisers are hyperparameters: objects that only store what
they were given. scikit-learn's `BaseEstimator` is exactly that, so `clone`, `get_params`, nested
names in a grid (``optimizer__lr``) and pickling need nothing of ours.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping
from functools import cache, wraps
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    RealNotInt,
    StrOptions,
    validate_parameter_constraints,
)

from sknet._hints import advice_for, argument_hint, parameter_hint, suggestion, value_hint

__all__ = [
    "Composite",
    "HoldsLists",
    "Interval",
    "InvalidParameterError",
    "Options",
    "ParameterObject",
    "RealNotInt",
    "StrOptions",
    "check_values",
    "explained",
    "explained_call",
    "resolve",
    "same",
    "unknown_parameter",
    "validate_parameters",
]

PLAIN = frozenset({bool, int, float, str, type(None)})
MOST_VALID = 4096  # values that are known to be valid
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


class ParameterObject(BaseEstimator):
    """Base of the objects that are hyperparameters: they store, compare, clone and validate.

    `_parameter_constraints` uses scikit-learn's format; `validate` checks the values against it
    when the object is used, never in `__init__`, so that `set_params` can pass through any order.

    Examples
    --------
    >>> from sknet.optim import Adam
    >>> Adam(lr=0.1) == Adam(lr=0.1), Adam(lr=0.1) == Adam()
    (True, False)
    """

    _parameter_constraints: dict[str, list[Any]] = {}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(_names_of(cast(Hashable, cls)))

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones (``optimizer__lr``): all of them, or none if one does not exist.

        Parameters
        ----------
        **params : dict
            Values by the names that `get_params` returns, in any order: what is set in a nested object is
            set in the new one if that is replaced by the same call.

        Returns
        -------
        self
            The object.

        Raises
        ------
        ValueError
            If there is no parameter of such a name; the message says what it is called here.
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
        """Return the values of one's own parameters, and the nested objects with the values of theirs.

        All names have been checked, at any depth.
        """
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
        """Check every parameter, also those of nested parameter objects.

        Raises
        ------
        InvalidParameterError
            A `ValueError` that names the parameter, what it must be and what it is.
        """
        validate_parameters(self)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(same(value, theirs[name]) for name, value in mine.items())

    def __hash__(self) -> int:
        return hash(type(self))  # equal objects must have equal hashes, and 1 == 1.0 == np.float32(1)


class Composite(ParameterObject):
    """Base of parameter objects that hold others in a dict or list, each reached by its key or number.

    Examples
    --------
    >>> from sknet.optim.schedules import Constant, Joined
    >>> Joined([Constant(0.1), Constant(0.2)], boundaries=[5]).get_params()["1__lr"]
    0.2
    """

    container: ClassVar[str]
    """Which parameter holds the others."""

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


class HoldsLists(BaseEstimator):
    """Mixin of estimators with parameters that are lists of objects, each reached by its number.

    Examples
    --------
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import EarlyStopping
    >>> clf = MLPClassifier(callbacks=[EarlyStopping(patience=3)])
    >>> clf.get_params()["callbacks__0__patience"]
    3
    >>> clf.set_params(callbacks__0__patience=5).callbacks
    [EarlyStopping(patience=5)]
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(_names_of(cast(Hashable, cls)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether also those of objects among them, as ``optimizer__lr`` or ``callbacks__0__patience``.

        Returns
        -------
        dict
            Values by name.
        """
        found: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in self._get_param_names():
                for number, item in _objects_in(found[name]):
                    found[f"{name}__{number}"] = item
                    found.update({f"{name}__{number}__{k}": v for k, v in item.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr`` or ``callbacks__0__patience``.

        Parameters
        ----------
        **params : dict
            Values by the names that `get_params` returns.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of such a name.
        """
        inside: dict[str, dict[str, Any]] = {}
        for name in list(params):
            own, _, rest = name.partition("__")
            if rest and isinstance(params.get(own, getattr(self, own, None)), (list, tuple)):
                inside.setdefault(own, {})[rest] = params.pop(name)
        nested: list[tuple[Any, dict[str, Any]]] = []
        for own, values in inside.items():
            params[own], within = _with(self, own, params.get(own, getattr(self, own)), values)
            nested += within
        super().set_params(**params)
        for item, values in nested:
            item.set_params(**values)
        return self


def _objects_in(held: Any) -> list[tuple[int, Any]]:
    """Return the objects with parameters that a list or tuple holds, with their numbers."""
    if not isinstance(held, (list, tuple)):
        return []
    return [(i, x) for i, x in enumerate(held) if hasattr(x, "get_params") and not isinstance(x, type)]


def _with(
    estimator: Any, name: str, held: Any, params: Mapping[str, Any]
) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Return a list with objects replaced, and objects in it with the values of their parameters."""
    new = list(held)
    inner: dict[int, dict[str, Any]] = {}
    for key, value in params.items():
        number, _, rest = key.partition("__")
        if not (number.isdecimal() and int(number) < len(new)):
            numbers = f"from {name}__0 to {name}__{len(new) - 1}" if new else "none, as it is empty"
            raise ValueError(
                f"Invalid parameter '{name}__{key}' for estimator {type(estimator).__name__}: the objects in "
                f"{name!r} are reached by number, {numbers}."
            )
        if rest:
            inner.setdefault(int(number), {})[rest] = value
        else:
            new[int(number)] = value
    is_replaced = any("__" not in key for key in params)
    found = new if is_replaced and isinstance(held, list) else type(held)(new) if is_replaced else held
    nested = [(new[number], values) for number, values in inner.items()]
    for item, values in nested:
        if not hasattr(item, "set_params") or isinstance(item, type):
            raise ValueError(f"{item!r} in {name!r} has no parameters of its own: {sorted(values)}")
        if isinstance(item, ParameterObject):
            item._resolved(values)
    return found, nested


def _holder(name: str, parts: Mapping[str, Any]) -> str | None:
    """Return the key of the part that a nested name belongs to: the longest that it begins with."""
    return max((key for key in parts if name.startswith(f"{key}__")), key=len, default=None)


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that says what a parameter that it does not have is called here."""

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
            raise TypeError(f"{cls.__name__} has no parameter {unknown[0]!r}{hint} {its}") from None

    return told


def explained_call(method: Method) -> Method:
    """Return a method of an estimator that says what an argument that it does not have is called here."""
    names = list(inspect.signature(method).parameters)[1:]

    @wraps(method)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in names:
                hint = argument_hint(type(self), name, names, self._get_param_names())
                where = f"{type(self).__name__}.{method.__name__}"
                its = ", ".join(names)
                raise TypeError(f"{where} has no argument {name!r}{hint} Its arguments are {its}.")
        return method(self, *args, **kwargs)

    return cast(Method, told)


def unknown_parameter(estimator: BaseEstimator, name: str) -> ValueError:
    """Return the error for a parameter that an object does not have; it says what that is called here."""
    valid = sorted(estimator.get_params(deep=False))
    hint = parameter_hint(type(estimator), name, valid)
    return ValueError(
        f"Invalid parameter {name!r} for estimator {estimator}{hint} Valid parameters are: {valid}."
    )


def _by_key(held: Any) -> dict[str, Any]:
    """Return the objects that a dict or list holds by what they are reached by."""
    return held if isinstance(held, dict) else {str(i): value for i, value in enumerate(held)}


def same(a: Any, b: Any) -> bool:
    """Tell whether two values of a parameter are equal, arrays among them."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    """Return the parameters of a class: reading its signature takes longer than what they are read for."""
    return tuple(BaseEstimator._get_param_names.__func__(kind))


_valid: set[tuple[Any, ...]] = set()  # classes with names and values that were found to be valid


def check_values(holder: object, constraints: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Check values against constraints in scikit-learn's format: plain ones once in a process.

    Parameters
    ----------
    holder : object
        Whose values they are; its class has one set of constraints.
    constraints : mapping of str to list
        For names of values.
    values : mapping of str to object
        By name.

    Raises
    ------
    InvalidParameterError
        Names the class, the parameter, what it must be and what it is.
    """
    kind = type(holder)
    keys = {name: (kind, name, type(value), value) for name, value in values.items() if _is_plain(value)}
    rest = {name: value for name, value in values.items() if name not in keys or keys[name] not in _valid}
    if not rest:
        return
    validate_parameter_constraints(constraints, rest, caller_name=kind.__name__)
    if len(_valid) > MOST_VALID:
        _valid.clear()
    _valid.update(keys[name] for name in rest if name in keys)


def _is_plain(value: Any) -> bool:
    """Tell whether a value never changes, and equals no other of its type that may be invalid."""
    return type(value) in PLAIN or (type(value) is tuple and all(type(x) is int for x in value))


def validate_parameters(estimator: BaseEstimator) -> None:
    """Check an estimator's own parameters and those of the parameter objects among them."""
    params = estimator.get_params(deep=False)
    try:
        check_values(estimator, estimator._parameter_constraints, params)
    except InvalidParameterError as error:
        name = next((name for name in params if f"The {name!r} parameter" in str(error)), "")
        hint = value_hint(name, params.get(name))
        if not hint:
            raise
        raise InvalidParameterError(f"{error}{hint}") from None
    for name, value in params.items():
        if isinstance(value, ParameterObject):
            value.validate()
        elif isinstance(value, type) and issubclass(value, ParameterObject):  # passes as a callable
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must not be a class. Got {value!r} "
                f"instead: pass an object, {value.__name__}(...)."
            )


def resolve(
    value: Any,
    registry: Mapping[str, type[T]],
    base: type,
    *,
    parameter: str,
    caller: str,
    synonyms: Mapping[str, str] | None = None,
) -> Any:
    """Turn a name into a fresh object of the registry, and let objects of `base` pass.

    Parameters
    ----------
    value : str or object
        What the user gave.
    registry : mapping of str to type
        The names that can be given.
    base : type
        Objects of this class pass through.
    parameter, caller : str
        For the message: which parameter of which estimator.
    synonyms : mapping of str to str or None, default=None
        What to use instead of names that other libraries have.

    Returns
    -------
    object
        The object; its own parameters are validated.

    Raises
    ------
    InvalidParameterError
        If the value is neither; the message lists the nearest names.
    """
    if isinstance(value, str) and value in registry:
        return registry[value]()
    if isinstance(value, base):
        if isinstance(value, ParameterObject):
            value.validate()
        return value
    hint = suggestion(value, registry, synonyms) if isinstance(value, str) else "."
    if isinstance(value, type) and issubclass(value, base):
        hint = f". Pass an instance: {value.__name__}()."
    raise InvalidParameterError(
        f"The {parameter!r} parameter of {caller} must be a str among {sorted(registry)} "
        f"or an instance of {base.__name__}. Got {value!r} instead{hint}"
    )
