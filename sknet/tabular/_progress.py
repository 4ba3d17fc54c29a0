"""How far the members of an ensemble are: a line for each, or a bar with the time that is left."""

import threading
import time
from typing import TYPE_CHECKING, Any

from sknet.callbacks import Callback
from sknet.callbacks.extend import shared_bar
from sknet.tabular._members import Setting

if TYPE_CHECKING:
    from sknet.callbacks import FitView
    from sknet.tabular._training import Member

__all__ = ["Progress", "work_of"]


def work_of(setting: Setting) -> int:
    """Return about how much work an epoch of a member is: its multiplications for a row."""
    return sum(size * size for size in setting.hidden_layer_sizes) or 1


class Progress:
    """Tells how far the members are, which are trained in several threads."""

    def __init__(self, verbose: Any, settings: list[Setting]) -> None:
        self._prints = bool(verbose) and not isinstance(verbose, str)
        self._n_members, self._n_ended = len(settings), 0
        self._works = sum(setting.epochs * work_of(setting) for setting in settings)
        self._done, self._began, self._lock = 0, time.monotonic(), threading.Lock()
        self._bar = shared_bar(self._works, self._text()) if isinstance(verbose, str) else None

    def callbacks(self, setting: Setting) -> tuple[Callback, ...]:
        """Return the callbacks for the training of a member."""
        return (_Ticks(self, work_of(setting)),) if self._bar is not None else ()

    def advance(self, work: int) -> None:
        """Move the bar."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(work)

    def begun(self, setting: Setting, epochs: int) -> None:
        """Count the epochs that a member has been trained for to measure it."""
        self.advance(epochs * work_of(setting))

    def ended(self, member: "Member", setting: Setting, seconds: float) -> None:
        """Tell that a member has been trained."""
        with self._lock:
            self._n_ended += 1
            self._done += setting.epochs * work_of(setting)
            if self._bar is not None:
                self._bar.set_description_str(self._text(), refresh=False)
            elif self._prints:
                print(self._line(member, seconds))

    def close(self) -> None:
        """Let the bar stay as it is."""
        if self._bar is not None:
            self._bar.close()

    def _text(self) -> str:
        return f"member {self._n_ended}/{self._n_members}"

    def _line(self, member: "Member", seconds: float) -> str:
        left = (time.monotonic() - self._began) * (self._works - self._done) / self._done
        return (
            f"Member {self._n_ended} of {self._n_members} ({member.kind}, fold {member.fold}), "
            f"loss = {member.history['loss'][-1]:.8f}, time = {seconds:.3f} s, left = {left:.0f} s"
        )


class _Ticks(Callback):
    """Moves the bar after each epoch."""

    may_warn = False

    def __init__(self, progress: Progress, work: int) -> None:
        self.progress = progress
        self.work = work

    def on_epoch_end(self, fit: "FitView") -> None:
        self.progress.advance(self.work)
