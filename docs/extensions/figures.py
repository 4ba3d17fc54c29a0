"""Draws the figures of the benchmarks from what their scripts have written, before a build."""

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx.application import Sphinx

__all__ = ["draw", "setup"]

MEASURED = Path(__file__).parents[1] / "measured"
TEXT = "#7d8590"  # legible on white and on black
COLORS = {
    "sknet": "#3b82c4",
    "sknet eager": "#8fb8de",
    "scikit-learn": "#e08a1e",
    "torch": "#c25b56",
    "floor": TEXT,
}


def draw(measured: dict[str, Any]) -> Figure:
    """Return horizontal bars on a logarithmic scale: a group for each row, a bar for each library.

    Parameters
    ----------
    measured : dict
        ``"unit"``, and ``"rows"``: numbers by library by row.

    Returns
    -------
    Figure
        Without background, for light and dark pages.
    """
    rows = measured["rows"]
    names = list(dict.fromkeys(name for values in rows.values() for name in values))
    height = 0.8 / len(names)
    figure = Figure(figsize=(8, 0.5 + len(rows) * (0.1 + 0.13 * len(names))), layout="constrained")
    ax = figure.subplots()
    for place, name in enumerate(names):
        y = [row + (place - (len(names) - 1) / 2) * height for row in range(len(rows))]
        widths = [values.get(name, float("nan")) for values in rows.values()]
        bars = ax.barh(y, widths, height, label=name, color=COLORS[name.split(" 2.")[0]])
        ax.bar_label(bars, fmt="%.3g", padding=3, fontsize=6, color=TEXT)
    ax.set_yticks(range(len(rows)), list(rows), fontsize=8)
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel=f"{measured['unit']} (logarithmic)")
    ax.margins(y=0.01, x=0.08)
    ax.tick_params(colors=TEXT, which="both")
    ax.xaxis.label.set_color(TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_color(TEXT)
    figure.legend(loc="outside upper center", ncols=len(names), frameon=False, labelcolor=TEXT, fontsize=8)
    return figure


def write(app: Sphinx) -> None:
    """Draw a figure for each file of measurements."""
    folder = Path(app.srcdir) / "figures"
    folder.mkdir(exist_ok=True)
    for path in sorted(MEASURED.glob("*.json")):
        target = folder / f"{path.stem}.svg"
        if not target.exists() or target.stat().st_mtime < path.stat().st_mtime:
            draw(json.loads(path.read_text())).savefig(target, transparent=True, metadata={"Date": None})


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
