"""Objects that wait for the next fit that can use them."""

from collections.abc import Hashable
from typing import Any

from sknet._parallel import Lock

__all__ = ["Idle"]


class Idle:
    """Idle objects by form; those that were used longest ago are let go."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._objects: list[tuple[Hashable, Any]] = []  # the first was used longest ago

    def forget(self) -> None:
        """Let go of all objects."""
        self._objects = []

    def take(self, form: Hashable) -> Any:
        """Take an object, which nobody else gets until it is given back."""
        with self._lock:
            for place in reversed(range(len(self._objects))):
                if self._objects[place][0] == form:
                    return self._objects.pop(place)[1]
        return None

    def give_back(self, form: Hashable, idle: Any) -> None:
        """Let others use an object."""
        with self._lock:
            self._objects.append((form, idle))
            del self._objects[: -self._most]
