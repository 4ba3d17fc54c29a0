"""Early stopping of a training that comes in parts."""

from typing import Literal

from sknet.callbacks import EarlyStopping, FitView

__all__ = ["StoppingInParts"]


class StoppingInParts(EarlyStopping):
    """Early stopping over calls of `partial_fit`, each of which is one epoch."""

    _ends = False

    def on_epoch_end(self, fit: FitView) -> Literal["stop"] | None:
        answer = super().on_epoch_end(fit)
        self._ends = answer is not None
        return answer

    def on_fit_end(self, fit: FitView) -> None:
        if self._ends or fit.failed:
            super().on_fit_end(fit)
