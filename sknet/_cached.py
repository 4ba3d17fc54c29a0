"""Attributes that are computed on first use, without the lock of `functools.cached_property`."""

import functools
from typing import Any, TypeVar, overload

__all__ = ["cached_property"]

T_co = TypeVar("T_co", covariant=True)


class cached_property(functools.cached_property[T_co]):  # noqa: N801 - named as what it replaces
    """A `functools.cached_property` that takes no lock, which a forked process would find held.

    Before Python 3.12, that of `functools` takes one for all objects of a class. Threads that meet here may
    each compute the value, and all of them get the one that was stored first.

    Parameters
    ----------
    func : callable
        Computes the value of an object.

    Examples
    --------
    >>> class Circle:
    ...     radius = 1.0
    ...
    ...     @cached_property
    ...     def area(self):
    ...         print("computed")
    ...         return 3.14 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.area
    computed
    (3.14, 3.14)
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "cached_property[T_co]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self.attrname, self.func(instance))
