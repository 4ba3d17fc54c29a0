"""Signatures of captured functions: their inputs, and the structure of their outputs."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from sknet.exceptions import CaptureError

__all__ = ["NO_VALUES", "OutputIndex", "Pure", "Signature", "Stateful", "pure_of"]

Tree = Any
Arrays = Mapping[str, np.ndarray[Any, Any]]
NO_VALUES: Arrays = {}  # of functions; a read-only view could not be pickled


class OutputIndex(int):
    """The position of an output; it replaces the array in a tree of results."""

    def __new__(cls, position: int) -> Self:
        """Make it of a number."""
        return super().__new__(cls, position)


class Signature(NamedTuple):
    """Signature of a captured function."""

    values: Arrays
    args: Tree
    names: tuple[str, ...]
    result: Tree


class Pure(NamedTuple):
    """A function of what an object holds."""

    values: Arrays
    parameters: Sequence[Parameter]
    call: Callable[..., Any]

    def argument(self, number: int) -> str:
        """Return the name of an argument by its position."""
        free = number
        for parameter in self.parameters:
            if parameter.kind is Parameter.VAR_POSITIONAL:
                return f"{parameter.name}_{free}"
            if not free:
                return parameter.name
            free -= 1
        raise CaptureError(f"a function of {len(self.parameters)} arguments is given {number + 1}")


@runtime_checkable
class Stateful(Protocol):
    """An object that holds arrays, and says how to compute with others in their place; a module is one."""

    def as_pure(self, function: Callable[..., Any]) -> Any:
        """Return `function`, the object itself or a method of it, as something with the parts of `Pure`."""


def pure_of(function: Callable[..., Any]) -> Pure | None:
    """Return a function as one of what its object holds; None if there is no such object."""
    owner = function if isinstance(function, Stateful) else getattr(function, "__self__", None)
    if not isinstance(owner, Stateful):
        return None
    return Pure(*owner.as_pure(function))
