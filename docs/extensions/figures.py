"""Draws the figures of the benchmarks from what their scripts have written, before a build."""

from pathlib import Path

from matplotlib.figure import Figure
from sphinx.application import Sphinx

from docs.make_benchmarks import MEASURED, tables
from examples.benchmarks.measured import Table

__all__ = ["draw", "setup"]

TEXT = "#7d8590"  # legible on white and on black
COLORS = {
    "sknet": "#3b82c4",
    "sknet eager": "#8fb8de",
    "scikit-learn": "#e08a1e",
    "PyTorch": "#c25b56",
    "floor": TEXT,
}
SMALL, LARGE = 8, 9  # points, of a figure as wide as a phone


def draw(table: Table) -> Figure:
    """Return horizontal bars on a logarithmic scale: a group for each row, a bar for each drawn column.

    Parameters
    ----------
    table : Table
        With columns to draw. Rows that lack all of them are left out.

    Returns
    -------
    Figure
        Without background, for light and dark pages.
    """
    places = [list(table.columns).index(name) for name in table.drawn]
    rows = {
        name: [figures[place] for place in places]
        for name, figures in table.rows.items()
        if any(figures[place] is not None for place in places)
    }
    height = 0.8 / len(places)
    figure = Figure(figsize=(6, 0.7 + len(rows) * (0.2 + 0.15 * len(places))), layout="constrained")
    ax = figure.subplots()
    for number, name in enumerate(table.drawn):
        y = [row + (number - (len(places) - 1) / 2) * height for row in range(len(rows))]
        widths = [float("nan") if row[number] is None else row[number] for row in rows.values()]
        label = name.removesuffix(", s")
        bars = ax.barh(y, widths, height, label=label, color=COLORS.get(label, COLORS["sknet"]))
        ax.bar_label(bars, fmt=shown, padding=3, fontsize=SMALL - 1, color=TEXT)
    ax.set_yticks(range(len(rows)), [name.replace("`", "") for name in rows], fontsize=SMALL)
    ax.invert_yaxis()
    ax.set(xscale="log" if logarithmic(rows) else "linear")
    ax.set_xlabel(table.unit + (", logarithmic" if logarithmic(rows) else ""), fontsize=SMALL)
    ax.margins(y=0.01, x=0.1)
    ax.tick_params(colors=TEXT, which="both", labelsize=SMALL)
    ax.xaxis.label.set_color(TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[:].set_color(TEXT)
    if len(places) > 1:
        figure.legend(
            loc="outside upper center", ncols=len(places), frameon=False, labelcolor=TEXT, fontsize=LARGE
        )
    return figure


def shown(figure: float) -> str:
    """Return a figure with three digits, or with all before the point."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def logarithmic(rows: dict[str, list[float | None]]) -> bool:
    """Tell whether the figures differ by so much that small ones would vanish."""
    figures = [figure for row in rows.values() for figure in row if figure]
    return max(figures) > 10 * min(figures)


def write(app: Sphinx) -> None:
    """Draw a figure for each table of measurements with columns to draw."""
    folder = Path(app.srcdir) / "figures"
    folder.mkdir(exist_ok=True)
    for (name, key), table in tables().items():
        target, source = folder / f"{name}-{key}.svg", MEASURED / f"{name}.json"
        if table.drawn and not (target.exists() and target.stat().st_mtime > source.stat().st_mtime):
            draw(table).savefig(target, transparent=True, metadata={"Date": None})


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect it."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
