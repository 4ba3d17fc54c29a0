"""When to stop: no improvement for too many epochs."""

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["Plateau"]


class Plateau:
    """Counts the epochs without an improvement, as scikit-learn's networks do.

    Parameters
    ----------
    patience : float
        Epochs without improvement that are borne; infinity never stops.
    tol : float
        By how much a value must be better than the best so far to count as an improvement.
    higher_is_better : bool
        Whether the value is a score or a loss.

    Attributes
    ----------
    best : float
        The best value so far.
    count : int
        Epochs since the last improvement.
    waited : int
        Epochs since that or the last lowered learning rate.
    cooling : int
        Epochs that are still not counted in `waited`.

    Notes
    -----
    As in scikit-learn a score improves if it is at least ``best + tol``, a loss if it is at most
    ``best - tol``, while `best` moves with any better value; a NaN counts as an improvement and
    never becomes the best.

    Examples
    --------
    >>> plateau = Plateau(patience=1, tol=0.1, higher_is_better=False)
    >>> [plateau.observe(loss) for loss in (1.0, 0.5, 0.45, 0.44)]
    [False, False, False, True]
    """

    def __init__(self, patience: float, tol: float, higher_is_better: bool) -> None:
        self.patience, self.tol, self.higher_is_better = patience, tol, higher_is_better
        self.best = -math.inf if higher_is_better else math.inf
        self.count = self.waited = self.cooling = 0
        self.is_best = self._cools_count = False

    def observe(self, value: float) -> bool:
        """Take in the value of an epoch, and tell whether the patience is used up.

        Parameters
        ----------
        value : float
            The epoch's loss or score.

        Returns
        -------
        bool
            True after more than `patience` epochs without an improvement.
        """
        if self.higher_is_better:
            missed = value < self.best + self.tol
            self.is_best = value > self.best
        else:
            missed = value > self.best - self.tol
            self.is_best = value < self.best
        self.count, self.waited = (self.count + 1, self.waited + 1) if missed else (0, 0)
        if self.cooling:
            self.cooling -= 1
            self.waited = 0
            self.count = 0 if self._cools_count else self.count
        if self.is_best:
            self.best = value
        return self.count > self.patience

    def state(self) -> dict[str, float]:
        """Return all that changes from epoch to epoch."""
        return {
            "higher_is_better": self.higher_is_better,
            "best": self.best,
            "count": self.count,
            "waited": self.waited,
            "cooling": self.cooling,
            "cools_count": self._cools_count,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, if that is of the same kind of value."""
        if state["higher_is_better"] == self.higher_is_better:
            self.best, self.count = float(state["best"]), int(state["count"])
            self.waited, self.cooling = int(state["waited"]), int(state["cooling"])
            self._cools_count = bool(state["cools_count"])

    def restart(self, also_count: bool = True, cooldown: int = 0) -> None:
        """Begin to wait anew, as after a lowered rate; the best value stays.

        Parameters
        ----------
        also_count : bool, default=True
            Whether also to count anew the epochs without an improvement.
        cooldown : int, default=0
            For how many epochs not to begin.
        """
        self.waited = 0
        self.cooling = cooldown
        self._cools_count = also_count
        if also_count:
            self.count = 0
