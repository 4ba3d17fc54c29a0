"""Forks that wait for what other threads import for sknet.

A child has no other threads, but the locks that they held. Those of sknet are renewed there, see
`sknet._locks`; a module that was half imported stays so, with its lock held, and whatever needs it in the
child would wait forever.
"""

import os
import sys
import time
from _thread import get_ident
from types import FrameType

__all__: list[str] = []

PATIENCE = 30.0  # seconds; what another thread imports may itself wait for the one that forks
IMPORT = "<frozen importlib._bootstrap>", "_find_and_load"


def _is_of(name: object, package: str) -> bool:
    return isinstance(name, str) and (name == package or name.startswith(f"{package}."))


def _is_loading(frame: FrameType | None) -> bool:
    """Tell whether the thread whose innermost call this is imports something for sknet."""
    is_found = False
    while frame is not None:
        name, code = frame.f_globals.get("__name__"), frame.f_code
        if is_found and _is_of(name, "sknet"):
            return True
        if (code.co_filename, code.co_name) == IMPORT:
            is_found = True
            if _is_of(frame.f_locals.get("name"), "sknet"):
                return True
        frame = frame.f_back
    return False


def _wait_for_others() -> None:
    deadline, this = time.monotonic() + PATIENCE, get_ident()
    if _is_loading(sys._getframe()):
        return  # others may wait for what this thread imports
    while time.monotonic() < deadline:
        if not any(_is_loading(frame) for thread, frame in sys._current_frames().items() if thread != this):
            return
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_others)
