"""The current epoch, for schedules that count epochs in custom loops."""

from typing import NamedTuple

from sknet.exceptions import StateError
from sknet.optim.schedules import Progress

__all__ = ["Epoch"]


class Epoch(NamedTuple):
    """The progress since the end of the last epoch."""

    began: int = 0
    rows: int = 0

    def seen(self, n_rows: int) -> "Epoch":
        """Return the epoch after a step on `n_rows` rows."""
        return Epoch(self.began, self.rows + n_rows)

    def check_length(self, progress: Progress, n_steps: int | None) -> None:
        """Raise a StateError unless `n_steps` steps have been made in this epoch; None allows any number."""
        done = progress.step - self.began
        if n_steps is not None and done != n_steps:
            raise StateError(f"this epoch is not counted: it should have {n_steps} steps, but has {done}")

    def ended(self, progress: Progress, plateau: bool = False) -> Progress:
        """Return the progress after this epoch, which counts if a step was made in it."""
        if progress.step != self.began:
            progress = progress.epoch_ended(self.rows)
        return progress._replace(counts_epochs=True, reductions=progress.reductions + bool(plateau))
