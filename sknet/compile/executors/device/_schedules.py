"""Division of a reduction among threads, by numbers of elements alone, and so the same on every device."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["BLOCK", "WARP", "Schedule", "lanes_for", "pieces", "pieces_of_all", "schedule"]

WARP = 32  # lanes that exchange values without a barrier
BLOCK = 256  # threads per block
BLOCKS = 512  # of a kernel whose totals are divided: several per multiprocessor of any GPU
WORTHWHILE = 16  # elements of a thread for which a second kernel is worth its launch


class Schedule(NamedTuple):
    """Division of a number of totals among threads."""

    kind: str
    width: int
    pieces: int
    length: int


def schedule(n_totals: int, n_elements: int, along: bool) -> Schedule:
    """Return how to compute some totals of as many elements each."""
    if n_elements <= 4 or (n_elements <= WARP and not along and n_totals > 1):
        return Schedule("thread", 1, 1, n_elements)
    if along or n_totals == 1:
        if n_elements <= 4 * WARP or n_totals >= BLOCKS:
            return Schedule("lanes", lanes_for(n_elements), 1, n_elements)
        return Schedule("block", 1, *pieces(n_elements, BLOCK, BLOCKS // n_totals))
    width = lanes_for(n_totals)
    tiles = -(-n_totals // width)
    return Schedule("tile", width, *pieces(n_elements, BLOCK // width, BLOCKS // tiles))


def lanes_for(n: int) -> int:
    """Return the number of lanes for `n` neighbours: a power of two."""
    return min(WARP, 1 << (n - 1).bit_length())


def pieces(n_elements: int, at_once: int, most: int) -> tuple[int, int]:
    """Divide the elements of a total among blocks that take some at once."""
    number = min(n_elements // (at_once * WORTHWHILE), most)
    if number < 4:
        return 1, n_elements
    length = -(-n_elements // number)
    return -(-n_elements // length), length


def pieces_of_all(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Divide the elements of several ranges that have one total, each as `pieces` does."""
    return [pieces(n, BLOCK, max(1, BLOCKS // len(sizes))) for n in sizes]
