"""Attributes that are computed on first use, without the lock of `functools.cached_property`."""

import functools
from typing import Any, TypeVar, overload

__all__ = ["cached_property"]

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
