"""HTML of summaries: a table and a small curve that follow the colours of the page, light or dark."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["curve", "html_of"]

WIDTH, HEIGHT, LEFT, BOTTOM = 360, 130, 46, 18
# Middle tones, which are legible on white and on black; everything else has the colour of the page's text.
COLORS = {"loss": "#3b82c4", "validation_loss": "#e08a1e", "smooth loss": "#3b82c4", "sharp loss": "#c4567a"}
STYLE = """\
.sknet { color: var(--jp-ui-font-color1, var(--vscode-editor-foreground, inherit)); margin: .6em 0;
  font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: .9em; max-width: 58em; }
.sknet details { border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: .4em;
  padding: .4em .8em; overflow-x: auto; }
.sknet summary { cursor: pointer; font-weight: 600; }
.sknet .parts { display: flex; flex-wrap: wrap; gap: .2em 2em; align-items: flex-start; }
.sknet table { border-collapse: collapse; margin: .5em 0; background: none;
  font-size: inherit; }
.sknet tr, .sknet tr:nth-child(even) { background: none !important; }
.sknet th, .sknet td { border: 0; padding: .15em .9em .15em 0; text-align: left !important; color: inherit;
  white-space: pre; font-variant-numeric: tabular-nums; }
.sknet td:first-child { white-space: pre-wrap; }
.sknet th { border-bottom: 1px solid color-mix(in srgb, currentColor 40%, transparent); }
.sknet td:nth-child(3), .sknet th:nth-child(3) { text-align: right !important; padding-right: 0; }
.sknet dl { margin: .3em 0; display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; }
.sknet dt { opacity: .7; font-weight: 400; white-space: nowrap; float: none; width: auto; }
.sknet dd { margin: 0; overflow-wrap: anywhere; }
.sknet svg { max-width: 100%; height: auto; margin: .5em 0; }
.sknet svg text { fill: currentColor; font-size: 10px; }"""


def html_of(
    title: str,
    table: Sequence[tuple[str, str, str]],
    lines: Mapping[str, str],
    history: Mapping[str, Sequence[float]],
    best_epoch: int | None,
) -> str:
    """Return a summary as HTML."""
    escape = html.escape
    head = "".join(f"<th>{name}</th>" for name in ("layer", "output shape", "parameters"))
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table)
    said = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in lines.items())
    return (
        f'<style>{STYLE}</style><div class="sknet"><details open="">'
        f"<summary>Network of {escape(title)}</summary>"
        f'<div class="parts"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"{curve(history, best_epoch)}</div><dl>{said}</dl></details></div>"
    )


def curve(history: Mapping[str, Sequence[float]], best_epoch: int | None) -> str:
    """Return the losses of a fit as an SVG picture; nothing for less than two epochs."""
    losses = {name: history[name] for name in COLORS if name in history}
    finite = [value for column in losses.values() for value in column if math.isfinite(value)]
    epochs = max(map(len, losses.values()), default=0)
    if epochs < 2 or not finite:
        return ""
    low, high = min(finite), max(finite)
    span = high - low or 1.0

    def x(epoch: float) -> float:
        return LEFT + (WIDTH - LEFT - 8) * (epoch - 1) / (epochs - 1)

    def y(value: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (high - value) / span

    parts = [
        f'<path d="M{LEFT} 8V{HEIGHT - BOTTOM}H{WIDTH - 8}" fill="none" stroke="currentColor" opacity=".4"/>',
        f'<text x="{LEFT - 4}" y="12" text-anchor="end">{high:.3g}</text>',
        f'<text x="{LEFT - 4}" y="{HEIGHT - BOTTOM}" text-anchor="end">{low:.3g}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 5}">1</text>',
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 5}" text-anchor="end">epoch {epochs}</text>',
    ]
    if best_epoch:
        best = f"{x(best_epoch):.1f}"
        parts.append(
            f'<path d="M{best} 8V{HEIGHT - BOTTOM}" stroke="currentColor" stroke-dasharray="3 3" '
            f'opacity=".6"><title>best epoch {best_epoch}</title></path>'
        )
    for place, (name, column) in enumerate(losses.items()):
        points = [
            (x(epoch), y(value)) if math.isfinite(value) else None for epoch, value in enumerate(column, 1)
        ]
        parts.append(
            f'<path d="{"".join(_steps(points))}" fill="none" stroke="{COLORS[name]}" stroke-width="1.8"/>'
        )
        label = f'<text x="{WIDTH - 14}" y="{18 + 13 * place}" text-anchor="end" style="fill:{COLORS[name]}">'
        parts.append(f"{label}{name.replace('_', ' ')}</text>")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="loss by epoch">{"".join(parts)}</svg>'
    )


def _steps(points: Sequence[tuple[float, float] | None]) -> Iterator[str]:
    """Yield the commands of a path through the points, with a gap at each None."""
    pen = "M"
    for point in points:
        if point is not None:
            yield f"{pen}{point[0]:.1f} {point[1]:.1f}"
        pen = "M" if point is None else "L"
