"""What a model is made of: modules, and parameter objects within parameter objects."""

from collections.abc import Iterator
from typing import Any

from sknet._params import ParameterObject

__all__ = ["is_own", "nested"]

OWN = "sknet."


def nested(part: Any) -> Iterator[Any]:
    """Yield a parameter object and all that stand in its attributes, such as an optimizer's optimizer."""
    yield part
    for value in vars(part).values():
        for inner in value.values() if isinstance(value, dict) else (value,):
            if isinstance(inner, ParameterObject):
                yield from nested(inner)


def is_own(part: Any) -> bool:
    """Tell whether an object's class is this package's: it keeps no state of which nobody knows."""
    return type(part).__module__.startswith(OWN)
