"""Parameter objects, their constraints, and the one message for a parameter that is wrong.

Losses, optimizers, schedules and initialisers are hyperparameters: objects that only store what
they were given. scikit-learn's `BaseEstimator` is exactly that, so `clone`, `get_params`, nested
names in a grid (``optimizer__lr``) and pickling need nothing of ours.
"""

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

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

__all__ = [
    "Composite",
    "Interval",
    "InvalidParameterError",
    "Options",
    "ParameterObject",
    "RealNotInt",
    "StrOptions",
    "resolve",
    "validate_parameters",
]

T = TypeVar("T")


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
        return all(_same(value, theirs[name]) for name, value in mine.items())

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

    def set_params(self, **params: Any) -> Self:
        """Set `params` by the names that `get_params` returns."""
        held = params.get(self.container, getattr(self, self.container))
        replaced = {key: params.pop(key) for key in _by_key(held) if key in params}
        if replaced:
            new = {**_by_key(held), **replaced}
            params[self.container] = new if isinstance(held, dict) else list(new.values())
        super().set_params(**params)
        return self


def _by_key(held: Any) -> dict[str, Any]:
    return held if isinstance(held, dict) else {str(i): value for i, value in enumerate(held)}


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    return bool(a == b)


def validate_parameters(estimator: BaseEstimator) -> None:
    """Check an estimator's own parameters and those of the parameter objects among them."""
    params = estimator.get_params(deep=False)
    validate_parameter_constraints(
        estimator._parameter_constraints, params, caller_name=type(estimator).__name__
    )
    for value in params.values():
        if isinstance(value, ParameterObject):
            value.validate()


def resolve(value: Any, registry: Mapping[str, type[T]], base: type, *, parameter: str, caller: str) -> Any:
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
    nearest = difflib.get_close_matches(value, registry, n=3, cutoff=0.5) if isinstance(value, str) else []
    hint = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
    if isinstance(value, type) and issubclass(value, base):
        hint = f" Pass an instance: {value.__name__}()."
    raise InvalidParameterError(
        f"The {parameter!r} parameter of {caller} must be a str among {sorted(registry)} "
        f"or an instance of {base.__name__}. Got {value!r} instead.{hint}"
    )
