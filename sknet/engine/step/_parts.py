"""The parts of a model: modules, and parameter objects nested in parameter objects."""

from collections.abc import Iterator
from typing import Any

from sknet._params import ParameterObject

__all__ = ["is_own", "nested"]

OWN = "sknet."


def nested(part: Any) -> Iterator[Any]:
    """Yield a parameter object and those nested in its attributes, such as a wrapped optimizer."""
    yield part
    for value in vars(part).values():
        for inner in value.values() if isinstance(value, dict) else (value,):
            if isinstance(inner, ParameterObject):
                yield from nested(inner)


def is_own(part: Any) -> bool:
    """Tell whether an object's class is this package's, so that it has no hidden state."""
    return type(part).__module__.startswith(OWN)
