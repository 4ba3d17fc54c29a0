"""Callbacks into the interpreter, for calls that native code leaves to NumPy."""

import ctypes
from collections.abc import Callable

__all__ = ["HostCalls"]

_Callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class HostCalls:
    """Python functions that native code calls by number; an exception in one of them ends the run."""

    def __init__(self) -> None:
        self._functions: list[list[Callable[[], object]]] = []
        self._raised: tuple[int, BaseException] | None = None
        self._callback = _Callback(self._call)
        self.address: int = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    @property
    def count(self) -> int:
        """Number of functions that can be called."""
        return len(self._functions)

    def add(self, function: Callable[[], object]) -> int:
        """Append a function; return its number."""
        self._functions.append([function])
        return len(self._functions) - 1

    def extend(self, function: Callable[[], object]) -> None:
        """Add a function to those that the last number calls."""
        self._functions[-1].append(function)

    def _call(self, number: int) -> int:
        try:
            for function in self._functions[number]:
                function()
        except BaseException as error:
            self._raised = number, error
            return 1
        return 0

    def check(self, repeated: int) -> None:
        """Raise what a function has raised, unless NumPy repeats the step and raises it in full."""
        raised, self._raised = self._raised, None
        if raised is not None and (raised[0] >= repeated or not isinstance(raised[1], Exception)):
            raise raised[1]
