"""Parameter objects, their constraints, and the one message for a parameter that is wrong.

Losses, optimizers, schedules and initialisers are hyperparameters: objects that only store what
they were given. scikit-learn's `BaseEstimator` is exactly that, so `clone`, `get_params`, nested
names in a grid (``optimizer__lr``) and pickling need nothing of ours.
"""

import difflib
from collections.abc import Mapping
from typing import Any, TypeVar

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
