"""Attributes: methods that are available under a condition, and cached properties without locks."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar, overload

__all__ = ["available_if", "cached_property"]


class _Available:
    """A method that `hasattr` finds only if a check succeeds."""

    def __init__(self, function: Callable[..., Any], check: Callable[[Any], Any]) -> None:
        self.function, self.check = function, check
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self.function
        message = f"This {cls.__name__!r} has no attribute {self.function.__name__!r}"  # as in scikit-learn
        try:
            is_there = self.check(owner)
        except AttributeError as error:
            raise AttributeError(f"{message}: {error}") from error
        if not is_there:
            raise AttributeError(message)
        return MethodType(self.function, owner)


def available_if(check: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator of methods that exist only if a check succeeds."""
    return lambda function: _Available(function, check)


T_co = TypeVar("T_co", covariant=True)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - named as what it replaces
    """A `functools.cached_property` that takes no lock, which a forked process would find held."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "cached_property[T_co]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))
