"""The state of a fit in memory, so that another fit can go on from it."""

from sknet.callbacks._callback import Callback
from sknet.callbacks._checkpoint import SavedFit
from sknet.callbacks._view import FitView

__all__ = ["KeepState"]

PLACE = "the kept state"  # in the place of a path


class KeepState(Callback):
    """Keep the state that a fit has ended with, for ``fit(..., resume_from=...)``."""

    order = 1
    needs = "state"
    may_warn = False
    saved_: SavedFit | None = None

    def on_fit_begin(self, fit: FitView) -> None:
        self.saved_ = None

    def on_block_end(self, fit: FitView) -> None:
        # A break within an epoch truncates its numbers, so the state before is the one to resume from.
        if fit.stopped_by is not None and fit.stopped_by.pauses:
            self.saved_ = SavedFit(PLACE, fit.state())

    def on_fit_end(self, fit: FitView) -> None:
        if fit.exception is None and self.saved_ is None and fit.model.optimizer.goes_in_steps:
            self.saved_ = SavedFit(PLACE, fit.state())
