"""Samples in shares, which threads take one after the other, and in parts, which are computed at a time."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sknet._parallel import CORES

MOST = 8  # shares
SUMS = 1 << 24  # bytes of the sums of all shares, if there are more than two
MEMORY = 1 << 28  # bytes of what threads compute at a time, if there are more than two threads


class Shares(NamedTuple):
    """Division of samples by sizes alone, so that results do not depend on the number of threads."""

    n_samples: int
    part: int
    n_shares: int
    n_rooms: int

    @classmethod
    def of(cls, n_samples: int, n_bytes: int, cache: int, wanted: int, of_sums: int = 0) -> "Shares":
        """Divide samples into about as many shares as wanted, in parts that fit into the cache if any do."""
        n_samples, n_bytes = max(n_samples, 1), max(n_bytes, 1)
        most = max(2, SUMS // of_sums) if of_sums else MOST
        n_shares = 1 << max(1, min(MOST, most, n_samples, wanted)).bit_length() - 1
        n_parts = n_shares * math.ceil(n_samples / (max(cache // n_bytes, 1) * n_shares))
        part = math.ceil(n_samples / n_parts)
        n_shares = min(n_shares, math.ceil(n_samples / part))
        return cls(n_samples, part, n_shares, min(n_shares, CORES, max(2, MEMORY // (part * n_bytes))))

    def rooms(self, arrays: Sequence[Any]) -> list[list[Any]]:
        return [[array[i] for array in arrays] for i in range(self.n_rooms)]

    def samples(self, share: int) -> slice:
        """Return the samples of a share."""
        n_parts = math.ceil(self.n_samples / self.part)
        first, last = (n_parts * k // self.n_shares for k in (share, share + 1))
        return slice(first * self.part, min(last * self.part, self.n_samples))

    def parts(self, share: int) -> Iterator[slice]:
        """Yield the samples of a share that are computed at a time."""
        samples = self.samples(share)
        for start in range(samples.start, min(samples.stop, self.n_samples), self.part):
            yield slice(start, min(start + self.part, samples.stop))
