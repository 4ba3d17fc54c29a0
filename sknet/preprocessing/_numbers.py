"""Numbers: robust scaling with smooth clipping, and a piecewise-linear encoding over bins."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sknet._cached import cached_property
from sknet._fields import FINITE, NOT_NEGATIVE, Arrays, Items
from sknet.preprocessing._edges import edges_of
from sknet.preprocessing._targets import Target
from sknet.preprocessing._values import HUGE

__all__ = [
    "NumberColumn",
    "Numbers",
    "chunk_of",
    "encode_numbers",
    "fit_number",
    "quartiles_of",
    "smoothly_clipped",
]

# Bins that are computed at a time, so that temporaries stay in the cache.
CHUNK = 2**17
QUARTILES = (0.25, 0.5, 0.75)
FEW_ROWS = 1000


def chunk_of(n_bins: int) -> int:
    """Return how many rows with so many bins are encoded at a time."""
    return max(64, min(1024, CHUNK // max(n_bins, 1)))


def smoothly_clipped(z: np.ndarray) -> np.ndarray:
    """Return ``z / sqrt(1 + (z / 3)**2)``: about z for small z, never beyond 3."""
    third = z / 3.0
    result: np.ndarray = z / np.sqrt(1.0 + third * third)
    return result


def encode_numbers(
    numbers: np.ndarray, out: np.ndarray, centers: Any, values: Any, phases: Any, bins: Any, flags: Any
) -> None:
    """Write the outputs of numbers into `out`."""
    missing = np.isnan(numbers)
    filled = np.where(missing, centers, numbers)
    kept, middles, scales = values
    z = filled[:, kept]
    z -= middles
    # The largest differences divided by the smallest scales overflow, and are clipped anyway.
    with np.errstate(over="ignore"):
        z /= scales
    np.clip(z, -HUGE, HUGE, out=z)
    found = smoothly_clipped(z)
    if len(phases):
        found[:, phases] = z[:, phases]
    out[:, : len(kept)] = found
    number, low, inverse, smallest, largest = bins
    if len(number):
        t = filled[:, number]
        t -= low
        with np.errstate(over="ignore"):
            t *= inverse
        np.clip(t, smallest, largest, out=t)
        t -= 0.5
        out[:, len(kept) : len(kept) + len(number)] = t
    if len(flags):
        out[:, len(kept) + len(number) :] = missing[:, flags]


@dataclass(frozen=True)
class NumberColumn:
    """The encoding of a number."""

    name: str
    center: float
    scale: float
    edges: Mapping[str, np.ndarray] = field(default_factory=dict)
    has_flag: bool = False
    is_phase: bool = False
    is_known: bool = True
    _stored_fields = {
        "center": FINITE,
        "scale": NOT_NEGATIVE,
        "edges": Items(Literal["tree", "quantile"], Arrays("f", "n_edges")),
    }

    def _check_stored(self) -> None:
        if any(len(edges) < 2 or not np.isfinite(edges).all() for edges in self.edges.values()):
            raise ValueError(f"{self.name} has bins without edges, or with edges that are not finite")
        if any((np.diff(edges) < 0).any() for edges in self.edges.values()):
            raise ValueError(f"{self.name} has edges of bins that are not sorted")

    def with_flag(self, is_missing: bool) -> "NumberColumn":
        """Return the same with a flag, if some values are missing and some are not."""
        return replace(self, has_flag=is_missing and self.is_known and not self.is_phase)


def fit_number(
    name: str,
    values: np.ndarray,
    target: Target | None,
    piecewise: str | None,
    n_bins: int,
    *,
    is_phase: bool = False,
    quartiles: Any = None,
) -> NumberColumn:
    """Fit the encoding of a number."""
    usable = np.abs(values) < HUGE  # a comparison with NaN is False
    seen = values[usable]
    if not len(seen) or seen.min() == seen.max():
        center = float(seen[0]) if len(seen) else 0.0
        return NumberColumn(name, center, 0.0, is_phase=is_phase, is_known=not np.isnan(values).all())
    if is_phase:
        return NumberColumn(name, 0.0, 1.0, is_phase=True)
    first, center, third = np.quantile(seen, QUARTILES) if quartiles is None else quartiles
    scale = third - first or (seen.max() - seen.min()) / 2
    edges = edges_of(seen, None if target is None else target.take(usable), piecewise, n_bins)
    return NumberColumn(name, float(center), float(scale), edges)


def quartiles_of(values: np.ndarray) -> dict[int, np.ndarray]:
    """Return the quartiles of columns that are finite, found at once: of few rows, a call takes long."""
    if len(values) > FEW_ROWS:
        return {}
    usable = np.flatnonzero((np.abs(values) < HUGE).all(axis=0))
    return dict(zip(usable.tolist(), np.quantile(values[:, usable], QUARTILES, axis=0).T, strict=True))


@dataclass(frozen=True)
class Numbers:
    """All numbers of a table, encoded together."""

    columns: tuple[NumberColumn, ...]

    @cached_property
    def names(self) -> list[str]:
        """Names of the outputs: all values, then all bins, then all flags."""
        values = [column.name for column in self.columns if column.scale]
        bins = [
            f"{column.name}_{kind}{i}"
            for column in self.columns
            for kind, edges in column.edges.items()
            for i in range(len(edges) - 1)
        ]
        return [*values, *bins, *(f"{column.name}_missing" for column in self.columns if column.has_flag)]

    @cached_property
    def values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Indices of the numbers with a value, their centers and scales."""
        kept = [i for i, column in enumerate(self.columns) if column.scale]
        used = [self.columns[i] for i in kept]
        return (
            np.array(kept, dtype=np.intp),
            np.array([column.center for column in used]),
            np.array([column.scale for column in used]),
        )

    @cached_property
    def phases(self) -> np.ndarray:
        """Indices of the values that are passed through."""
        used = [column for column in self.columns if column.scale]
        return np.array([i for i, column in enumerate(used) if column.is_phase], dtype=np.intp)

    @cached_property
    def bins(self) -> tuple[np.ndarray, ...]:
        """For every bin the index of its number, lower edge, inverse width, and clipping bounds."""
        rows = []
        for i, column in enumerate(self.columns):
            for edges in column.edges.values():
                last = len(edges) - 2
                widths = np.maximum(np.diff(edges), 1 / HUGE)
                # Outer bins extrapolate beyond their edges, by their own width.
                rows += [
                    (i, edges[k], 1 / widths[k], -1.0 if k == 0 else 0.0, 2.0 if k == last else 1.0)
                    for k in range(last + 1)
                ]
        found = np.array(rows, dtype=np.float64).reshape(-1, 5)
        return (found[:, 0].astype(np.intp), *(np.ascontiguousarray(x) for x in found[:, 1:].T))

    @cached_property
    def flags(self) -> np.ndarray:
        """Which numbers have an output that says that they are missing."""
        return np.array([i for i, column in enumerate(self.columns) if column.has_flag], dtype=np.intp)

    @cached_property
    def centers(self) -> np.ndarray:
        """What stands for each number where it is missing."""
        return np.array([column.center for column in self.columns])

    @property
    def parts(self) -> tuple[Any, ...]:
        """The last arguments of `encode_numbers`."""
        return self.centers, self.values, self.phases, self.bins, self.flags

    def encode(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """Encode numbers of shape (n_samples, n_numbers) into `out`, of shape (n_samples, n_outputs)."""
        size = chunk_of(len(self.bins[0]))
        for start in range(0, len(numbers), size):
            encode_numbers(numbers[start : start + size], out[start : start + size], *self.parts)
