"""Steps in sequence, and steps side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._cached import cached_property
from sknet._fields import COUNT, SLICE, Each, Named
from sknet._frames import Frame
from sknet._scipy import issparse, scipy_sparse
from sknet.freezing._arrays import as_plain
from sknet.freezing._encoding import OneHot, Ordinal
from sknet.freezing._imputing import Imputing
from sknet.freezing._scaling import Elementwise, Scaling

__all__ = ["Branch", "Chain", "Columns", "Positions"]

Step = Callable[[Any], Any]
Positions = slice | tuple[int, ...]
IN_PLACE = (Imputing, Scaling)
STEP = Named(
    *(
        "Binarizing",
        "Bins",
        "BoxCox",
        "Chain",
        "Columns",
        "Elementwise",
        "Encoding",
        "Imputing",
        "Normalizing",
    ),
    *("OneHot", "Ordinal", "Powers", "Products", "Projection", "Quantiles", "Scaling", "Selection"),
)


@dataclass(frozen=True)
class Chain:
    """Steps in sequence."""

    steps: tuple[Step, ...]
    _stored_fields = {
        "steps": Each(tuple, STEP),
    }

    def __call__(self, X: Any) -> Any:
        """Return the output of the last step."""
        for step in self.steps:
            X = step(X)
        return X

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes for `n_features` columns; None if it cannot."""
        width: int | None = n_features
        for i, step in enumerate(self.steps):
            before, width = width, _row_width(step, width)
            # Steps after the first overwrite the previous step's outputs.
            if width is None or (i and (width != before or not isinstance(step, IN_PLACE))):
                return None
        return width

    def write(self, row: Any, out: Any) -> None:
        """Transform a row into `out`."""
        if not self.steps:
            out[:] = row
        for step in self.steps:
            step.write(row, out)  # type: ignore[attr-defined]
            row = out


@dataclass(frozen=True)
class Branch:
    """A step for some of the columns."""

    step: Step
    positions: Positions
    weight: float | None = None
    _stored_fields = {
        "step": STEP,
        "positions": [SLICE, Each(tuple, COUNT)],
    }

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
    """Steps for some of the columns each, with their outputs concatenated."""

    branches: tuple[Branch, ...]
    is_sparse: bool | None

    def __call__(self, X: Any) -> Any:
        """Return the outputs of all steps."""
        if type(X) is np.ndarray and len(X) == 1 and self._writers is not None and X.dtype.char in "dO":
            out = np.zeros((1, self._writers[0]))
            self.write(X[0], out[0])
            return out
        if not self.branches:
            return np.zeros((X.shape[0], 0))
        parts = [branch(X) for branch in self.branches]
        if self.is_sparse or (self.is_sparse is None and any(map(issparse, parts))):
            return scipy_sparse().hstack([_numbers(part) for part in parts]).tocsr()
        return np.hstack([part.toarray() if issparse(part) else as_plain(part) for part in parts])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_writers"}

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes; None if it cannot."""
        return None if self._writers is None else self._writers[0]

    def write(self, row: Any, out: Any) -> None:
        """Write the outputs for a row, an array or list of values, into `out`, zeros of shape (width,)."""
        _, writers = self._writers  # type: ignore[misc]
        is_list = type(row) is list
        is_float = not is_list and row.dtype.char == "d"
        for write, positions, reads_numbers, part in writers:
            if is_list and type(positions) is not slice:
                values = [row[i] for i in positions.tolist()]
            else:
                values = row[positions]
            write(np.array(values, np.float64) if reads_numbers and not is_float else values, out[part])

    @cached_property
    def _writers(self) -> "tuple[int, list[Any]] | None":
        """For each branch its step, and its slices of input and output row; None if a branch cannot write."""
        found, start = [], 0
        for branch in self.branches:
            positions = _numbered(branch.positions)
            if self.is_sparse or branch.weight is not None or not positions:
                return None
            width = _row_width(branch.step, len(positions))
            if width is None:
                return None
            first = branch.step
            while isinstance(first, Chain) and first.steps:
                first = first.steps[0]
            reads_numbers = not isinstance(first, (OneHot, Ordinal))
            if isinstance(first, (Chain, Elementwise)):
                return None  # passes objects through
            step: Any = branch.step
            while isinstance(step, Chain) and len(step.steps) == 1:
                (step,) = step.steps
            write = step.write
            found.append((write, _as_slice(positions), reads_numbers, slice(start, start + width)))
            start += width
        return (start, found) if found else None

    @property
    def used(self) -> Sequence[Positions]:
        """The columns that are read."""
        return [branch.positions for branch in self.branches]


def _row_width(step: Any, n_features: int | None) -> int | None:
    known = getattr(step, "row_width", None)
    found: int | None = None if known is None or n_features is None else known(n_features)
    return found


def _numbered(positions: Positions) -> tuple[int, ...]:
    """Return the individual positions; none if a slice counts from the end."""
    if not isinstance(positions, slice):
        return positions
    start, stop, step = positions.start or 0, positions.stop, positions.step or 1
    return () if stop is None or min(start, stop, step) < 0 else tuple(range(start, stop, step))


def _as_slice(positions: tuple[int, ...]) -> Any:
    """Return contiguous positions as a slice, which needs no copy."""
    first = positions[0]
    if positions == tuple(range(first, first + len(positions))):
        return slice(first, first + len(positions))
    return np.array(positions)


def _numbers(part: Any) -> Any:
    if issparse(part):
        return part
    part = part.array() if type(part) is Frame else part
    return part.astype(np.float64) if part.dtype == object else part
