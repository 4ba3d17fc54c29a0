"""The function that executes instructions, shared by all fits of this process, and when it is loaded.

The modules that write instructions are imported only by fits that take long enough.
"""

import importlib.util
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from sknet._cached import cached_property
from sknet._locks import Lock
from sknet.exceptions import CaptureError

if TYPE_CHECKING:
    from pathlib import Path

    from sknet.compile.executors.native._cache import Function

__all__ = [
    "Runner",
    "UnsupportedError",
    "directory_of",
    "has_numba",
    "is_placed_by_hand",
    "pass_runner",
    "row_runner",
    "runner",
]

BY_HAND, BY_LLVM = 0.03, 1.0  # seconds of steps by NumPy's plan that are worth loading native code for


class UnsupportedError(CaptureError):
    """Steps that native code cannot do; NumPy's plan can."""


@cache
def has_numba() -> bool:
    """Tell whether Numba can be imported; it is not imported.

    A file ``numba.py`` that comes first on Python's path does not count.
    """
    return directory_of("numba") is not None


def directory_of(package: str) -> str | None:
    """Return the directory that a package is imported from; None if there is no such package."""
    module = sys.modules.get(package)
    try:
        spec = importlib.util.find_spec(package) if module is None else module.__spec__
    except ImportError:  # by who keeps others from importing it
        return None
    places = None if spec is None else spec.submodule_search_locations
    return os.path.dirname(os.path.abspath(next(iter(places)))) if places else None


@cache
def is_placed_by_hand() -> bool:
    """Tell whether object files of this machine are expected to need neither Numba nor LLVM."""
    return platform.machine() == "x86_64" and platform.system() in ("Linux", "FreeBSD")


def of_steps() -> tuple[str, int]:
    """Return the source of the function that executes instructions, and how many arguments it has."""
    from sknet.compile.executors.native._runner import ARGUMENTS, RUNNER

    return RUNNER, ARGUMENTS


def of_rows() -> tuple[str, int]:
    """Return the source of the function that encodes rows of tables, and how many arguments it has."""
    from sknet.compile.executors.native._table_rows import ARGUMENTS, ROWS

    return ROWS, ARGUMENTS


def of_passes() -> tuple[str, int]:
    """Return the source of the function that convolves channel by channel, and how many arguments it has."""
    from sknet.compile.executors.native._passes import ARGUMENTS, PASSES

    return PASSES, ARGUMENTS


class Runner:
    """A function in native code, shared by all of this process; by default that which executes instructions.

    Parameters
    ----------
    written : callable, default=None
        Returns the source of a module with a function ``steps`` of integers, and their number.

    Attributes
    ----------
    steps : callable or None
        The function, by default ``steps(address, n_turns)``; None until it has been loaded or compiled.
    """

    def __init__(self, written: Callable[[], tuple[str, int]] | None = None) -> None:
        self.steps: Callable[..., int] | None = None
        self._written = written or of_steps
        self._spent = 0.0

    @cached_property
    def _function(self) -> "Function":
        from sknet.compile.executors.native._cache import Function

        return Function(*self._written())

    @property
    def file(self) -> "Path | None":
        """The file of its machine code, which need not exist; None where none can be written."""
        return self._function.file

    def note(self, seconds: float) -> None:
        """Count time that steps have taken without native code."""
        self._spent += seconds

    def is_ready(self, remaining: float) -> bool:
        """Tell whether `steps` can be called; otherwise start loading or compiling it if worthwhile.

        Parameters
        ----------
        remaining : float
            Seconds that the remaining steps take without it.

        Returns
        -------
        bool
            Without waiting.
        """
        worth = self._spent + remaining  # as much again may well follow what a process has done so far
        if self.steps is None and worth > (BY_HAND if is_placed_by_hand() else BY_LLVM):
            self.steps = self._function.get(worth)
        return self.steps is not None

    def begin(self) -> None:
        """Compile the function in a child process, unless that has been done on this machine."""
        self._function.begin()

    def wait(self) -> None:
        """Load the function, or compile it now."""
        if self.steps is None:
            self.steps = self._function.wait()


_first = Lock()  # without it, threads that ask at the same time would each get a runner
_runners: dict[Callable[[], tuple[str, int]], Runner] = {}


def runner() -> Runner:
    """Return the runner of this process.

    Raises
    ------
    UnsupportedError
        If Numba is missing.
    """
    return _the_one(of_steps)


def row_runner() -> Runner:
    """Return what encodes rows of tables in this process, see `_table_rows`.

    Raises
    ------
    UnsupportedError
        If Numba is missing.
    """
    return _the_one(of_rows)


def pass_runner() -> Runner:
    """Return what convolves images channel by channel in this process, see `_passes`.

    Raises
    ------
    UnsupportedError
        If Numba is missing.
    """
    return _the_one(of_passes)


def _the_one(written: Callable[[], tuple[str, int]]) -> Runner:
    if not has_numba():
        raise UnsupportedError("Numba is not installed")
    with _first:
        if written not in _runners:
            _runners[written] = Runner(written)
        return _runners[written]
