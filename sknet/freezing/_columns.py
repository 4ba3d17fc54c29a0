"""Steps one after the other, and steps side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import hstack, issparse

from sknet._frames import Frame
from sknet.freezing._arrays import as_plain

__all__ = ["Branch", "Chain", "Columns", "Positions"]

Step = Callable[[Any], Any]
Positions = slice | tuple[int, ...]


@dataclass(frozen=True)
class Chain:
    """Steps one after the other.

    Attributes
    ----------
    steps : tuple of callable
        Maybe none.
    """

    steps: tuple[Step, ...]

    def __call__(self, X: Any) -> Any:
        """Return what the last step makes of X."""
        for step in self.steps:
            X = step(X)
        return X


@dataclass(frozen=True)
class Branch:
    """A step for some of the columns.

    Attributes
    ----------
    step : callable
        From these columns to outputs.
    positions : slice or tuple of int
        Of the columns.
    weight : float or None
        By which outputs are multiplied.
    """

    step: Step
    positions: Positions
    weight: float | None = None

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        positions = self.positions
        if type(X) is Frame:
            is_slice = isinstance(positions, slice)
            X = X.take(range(X.shape[1])[positions] if is_slice else positions)  # type: ignore[arg-type,index]
        else:
            X = X[:, positions if isinstance(positions, slice) else list(positions)]
        found = self.step(X)
        return found if self.weight is None else as_plain(found) * self.weight


@dataclass(frozen=True)
class Columns:
    """Steps for some of the columns each, and their outputs side by side.

    Attributes
    ----------
    branches : tuple of Branch
        In the order of their outputs.
    is_sparse : bool
        Whether the outputs are a sparse matrix.
    """

    branches: tuple[Branch, ...]
    is_sparse: bool

    def __call__(self, X: Any) -> Any:
        """Return the outputs of all steps."""
        if not self.branches:
            return np.zeros((X.shape[0], 0))
        parts = [branch(X) for branch in self.branches]
        if self.is_sparse:
            return hstack([_numbers(part) for part in parts]).tocsr()
        return np.hstack([part.toarray() if issparse(part) else as_plain(part) for part in parts])

    @property
    def used(self) -> Sequence[Positions]:
        """Which columns are read."""
        return [branch.positions for branch in self.branches]


def _numbers(part: Any) -> Any:
    if issparse(part):
        return part
    part = part.array() if type(part) is Frame else part
    return part.astype(np.float64) if part.dtype == object else part
