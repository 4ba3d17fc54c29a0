"""Ctrl-C between two steps instead of inside one."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from sknet.engine.loop._group import current_group

# What `signal` consists of, without its conversion to enumerations, which takes longer.
try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # not CPython
    import signal as _signal

__all__ = ["InterruptGuard", "raise_if_cancelled"]

SIGINT = int(signal.SIGINT)


class InterruptGuard:
    """A context manager that defers Ctrl-C, so that no update is cut in half."""

    def __init__(self) -> None:
        self.is_urgent = self.is_pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        handles = threading.current_thread() is threading.main_thread()
        if handles and _signal.getsignal(SIGINT) is signal.default_int_handler:
            self._before = _signal.signal(SIGINT, self._hold)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            _signal.signal(SIGINT, self._before)
        if kind is None:
            self.poll()

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.is_pending:
            self.is_urgent = True
            raise KeyboardInterrupt
        self.is_pending = True

    def poll(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed since the last call, or the group is cancelled."""
        raise_if_cancelled()
        if self.is_pending:
            self.is_pending = False
            raise KeyboardInterrupt


def raise_if_cancelled() -> None:
    """Raise KeyboardInterrupt if the group of the fit that runs in this thread is cancelled."""
    group = current_group()
    if group is not None and group.is_cancelled:
        raise KeyboardInterrupt
