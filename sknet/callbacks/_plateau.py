"""Detection of plateaus: no improvement for too many epochs."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from sknet._fields import COUNT, FINITE, Number

__all__ = ["Plateau"]


class Plateau:
    """Counts the epochs without an improvement, as scikit-learn's networks do."""

    _stored_fields = {
        "patience": Number(Real, 0, math.inf),
        "tol": FINITE,
        "higher_is_better": bool,
        "best": float,
        "count": COUNT,
        "waited": COUNT,
        "cooling": COUNT,
        "is_best": bool,
        "_cools_count": bool,
    }

    def __init__(self, patience: float, tol: float, higher_is_better: bool) -> None:
        self.patience, self.tol, self.higher_is_better = patience, tol, higher_is_better
        self.best = -math.inf if higher_is_better else math.inf
        self.count = self.waited = self.cooling = 0
        self.is_best = self._cools_count = False

    def observe(self, value: float) -> bool:
        """Record the value of an epoch, and return whether patience is exhausted."""
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
        """Continue from a state, if it is of the same kind of value."""
        if state["higher_is_better"] == self.higher_is_better:
            self.best, self.count = float(state["best"]), int(state["count"])
            self.waited, self.cooling = int(state["waited"]), int(state["cooling"])
            self._cools_count = bool(state["cools_count"])

    def restart(self, also_count: bool = True, cooldown: int = 0) -> None:
        """Restart the patience, as after a reduction of the rate; the best value is kept."""
        self.waited = 0
        self.cooling = cooldown
        self._cools_count = also_count
        if also_count:
            self.count = 0
