"""Short reprs of many arrays: names and shapes in one line."""

from collections.abc import Mapping
from typing import Any

__all__ = ["shapes"]

MOST = 6  # arrays that are listed


def shapes(arrays: Mapping[str, Any]) -> str:
    """Return the names and shapes of arrays as text, the first few of many."""
    named = [f"{name!r}: {tuple(array.shape)}" for name, array in list(arrays.items())[:MOST]]
    left_out = len(arrays) - len(named)
    return "{" + ", ".join(named + [f"... {left_out} more"] * (left_out > 0)) + "}"
