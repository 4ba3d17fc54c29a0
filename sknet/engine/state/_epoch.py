"""How far the epoch under way is, for schedules that count epochs in a loop of a user's own."""

from typing import NamedTuple

from sknet.exceptions import StateError
from sknet.optim.schedules import Progress

__all__ = ["Epoch"]


class Epoch(NamedTuple):
    """What has been done since the last epoch's end.

    Attributes
    ----------
    began : int
        Steps before it.
    rows : int
        Rows that `Model.step` has seen.
    """

    began: int = 0
    rows: int = 0

    def seen(self, n_rows: int) -> "Epoch":
        """Return the epoch after a step on so many rows."""
        return Epoch(self.began, self.rows + n_rows)

    def check_length(self, progress: Progress, n_steps: int | None) -> None:
        """Raise a StateError unless `n_steps` steps have been made in it; None is any number."""
        done = progress.step - self.began
        if n_steps is not None and done != n_steps:
            raise StateError(f"this epoch was to have {n_steps} steps, and {done} were made: not counted")

    def ended(self, progress: Progress, plateau: bool = False) -> Progress:
        """Return the progress after this epoch, which counts if a step was made in it.

        Parameters
        ----------
        progress : Progress
            Before.
        plateau : bool, default=False
            Whether rates are to be lowered.

        Returns
        -------
        Progress
            From now on, epochs are counted.
        """
        if progress.step != self.began:
            progress = progress.epoch_ended(self.rows)
        return progress._replace(counts_epochs=True, reductions=progress.reductions + bool(plateau))
