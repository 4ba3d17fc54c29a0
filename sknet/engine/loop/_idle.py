"""Objects that wait for the next fit that can use them."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

__all__ = ["Idle"]


class Idle:
    """Idle objects by form; those that were used longest ago are let go.

    Parameters
    ----------
    most : int
        The most objects.

    Examples
    --------
    >>> idle = Idle(32)
    >>> idle.give_back("form", [])
    >>> idle.take("form"), idle.take("form")
    ([], None)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()

    def forget(self) -> None:
        """Let go of all objects; in a forked process too, where `take` may have been under way."""
        # By number of use: form, and what has it. The first was used longest ago.
        self._objects: OrderedDict[int, tuple[Hashable, Any]] = OrderedDict()
        self._by_form: dict[Hashable, list[int]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def take(self, form: Hashable) -> Any:
        """Take an object, which nobody else gets until it is given back.

        Parameters
        ----------
        form : hashable
            What it was given back with.

        Returns
        -------
        object or None
            None if there is none.
        """
        with self._lock:
            numbers = self._by_form.get(form)
            return self._objects.pop(self._without(form, numbers[-1]))[1] if numbers else None

    def give_back(self, form: Hashable, idle: Any) -> None:
        """Let others use an object.

        Parameters
        ----------
        form : hashable
            What `take` finds it by.
        idle : object
            The object.
        """
        with self._lock:
            self._count += 1
            self._objects[self._count] = form, idle
            self._by_form.setdefault(form, []).append(self._count)
            if len(self._objects) > self._most:
                number, (oldest, _) = self._objects.popitem(last=False)
                self._without(oldest, number)

    def _without(self, form: Hashable, number: int) -> int:
        """Remove a number from those of a form, and return it."""
        numbers = self._by_form[form]
        numbers.remove(number)
        if not numbers:
            del self._by_form[form]
        return number
