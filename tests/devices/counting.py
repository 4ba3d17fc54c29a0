"""Counts of what is done on the fake devices, and how often."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["COUNTS", "Counts", "counted"]


@dataclass
class Counts:
    """Counts of events on the fake devices: `launches` are of generated kernels and of the library's.

    `nbytes` are those of the arrays that launches are given, each array once for each launch; `sent_bytes`
    those of `sent` arrays, which were copied beside what the device computes; `precisions` are those of
    matrix products of float32 arrays; `returns` are of unused memory to the device.
    """

    allocations: int = 0
    reads: int = 0
    kernels: int = 0
    launches: int = 0
    nbytes: int = 0
    sent: int = 0
    sent_bytes: int = 0
    precisions: Counter[str] = field(default_factory=Counter)
    returns: int = 0


COUNTS: list[Counts] = []


@contextmanager
def counted() -> Iterator[Counts]:
    """Count allocations, reads by the host and launches of generated kernels."""
    counts = Counts()
    COUNTS.append(counts)
    try:
        yield counts
    finally:
        COUNTS.remove(counts)
