"""The Markdown table of the times of steps."""

from collections.abc import Mapping
from typing import Any

__all__ = ["table"]

COLUMNS = ("sknet, µs", "launches", "PyTorch, µs", "PyTorch, one CUDA graph, µs", "least time, µs")


def table(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of what the stages of times measured; what is not known is left empty."""
    lines = [f"| Network | products | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    names = dict.fromkeys(name for timed in figures.values() for name in timed if name != "rates")
    for name in names:
        for dtype in [dtype for dtype, timed in figures.items() if name in timed]:
            row = figures[dtype][name]
            torch = row.get("torch")
            torch = torch if isinstance(torch, Mapping) else {}
            cells = [
                _written(row.get("sknet"), 1e6),
                _written(row.get("launches"), 1),
                _written(torch.get("torch eager"), 1e6),
                _written(torch.get("torch graph"), 1e6),
                _written(row.get("floor"), 1e6),
            ]
            lines.append(f"| {' | '.join([name, dtype, *cells])} |")
    return "\n".join(lines)


def _written(figure: Any, factor: float) -> str:
    return f"{figure * factor:.1f}" if isinstance(figure, float) else ""
