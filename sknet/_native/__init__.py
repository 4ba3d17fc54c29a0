"""Native code: the compiled extension, where it was built."""

import os
from functools import cache
from types import ModuleType
from typing import Any, Protocol

LAYOUT = 10  # of what native code is told, as in native.h; a build that knows another would misread it
OLD = "the compiled extension is of another version of the source, from which it must be built again"


class Core(Protocol):
    """The functions of the extension, which are given addresses and integers, and check nothing."""

    def steps(self, turns: int, count: int, /) -> int:
        """Carry out the instructions of turns; return the number of steps before the first that fails."""

    def unchecked(self, x: Any, turn: int, code: int, holds: bool, /) -> int:
        """Carry out the instructions of a turn for rows of an array; return 1, or 0 if it fails."""

    def rows(self, table: int, count: int, chosen: int, places: int, out: int, room: int, /) -> int:
        """Encode rows of a table."""

    def passes(self, place: int, size: int, work: int, /) -> int:
        """Go over arrays once, where NumPy makes many passes."""

    def serve(self, thread: int, /) -> None:
        """Take shares of works for ever, as the thread of this number, from 1 on."""

    def crew(self, threads: int, started: int, /) -> None:
        """Say how many threads may share works, and how many there are beside a leader; 0: forget all."""

    def share(
        self, fields: int, count: int, step: int, of_thread: int, size: int, threads: int, work: int, /
    ) -> None:
        """Do shares of a pass, in up to this many threads."""

    def shuffle(self, generator: Any, rows: Any, /) -> None:
        """Shuffle a contiguous array of int64 with NumPy's capsule of a generator, whose lock is held."""

    def isa(self) -> str:
        """Return the name of the set of instructions in use."""

    def isas(self) -> list[str]:
        """Return the names of the sets that this processor has, the newest first."""

    def use(self, name: str, /) -> None:
        """Use a set of instructions from now on."""


@cache
def core() -> Core | None:
    """Return the extension; None if it was not built."""
    found = _loaded()
    if isinstance(found, ImportError):
        return None
    if name := os.environ.get("SKNET_ISA"):
        found.use(name)
    return found


def needed() -> Core:
    found = core()
    if found is None:
        raise RuntimeError(
            f"native='always' needs sknet's compiled extension, which this installation lacks: {reason()}. "
            "It is built by an installation from source where there is a C compiler, and comes with wheels; "
            "with native='auto' or 'never', steps run on NumPy alone"
        )
    return found


def reason() -> str | None:
    """Return why there is no extension; None if there is one."""
    found = _loaded()
    return str(found) if isinstance(found, ImportError) else None


@cache
def _loaded() -> ModuleType | ImportError:
    try:
        from sknet._native import _core
    except ImportError as error:
        return error
    return _core if getattr(_core, "layout", 1) == LAYOUT else ImportError(OLD)
