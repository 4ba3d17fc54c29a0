"""Run the notebooks and store what their cells show: ``python -m docs.make_notebooks``."""

import ast
import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from tests.project import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
DPI = 60  # of pictures
# HTML that is stored: viewers of files leave out the styles and scripts of panels of estimators.
STORED = {"<div>\n<style scoped": "text/html", "<svg": "image/svg+xml"}
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def document_of(path: Path) -> Any:
    """Return a notebook."""
    return json.loads(path.read_text())


def run(document: Any, name: str) -> list[list[dict[str, Any]]]:
    """Run the cells of a notebook, and return the outputs of each that holds code."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    found: list[list[dict[str, Any]]] = []
    backend = mpl.get_backend()
    plt.close("all")  # what an earlier notebook or test has left open
    plt.switch_backend("agg")
    try:
        for cell in document["cells"]:
            if cell["cell_type"] == "code":
                source, number = "".join(cell["source"]), len(found) + 1
                found.append(outputs_of(source, namespace, number, f"{name}[{number}]"))
    finally:
        plt.close("all")
        plt.switch_backend(backend)
    return found


def outputs_of(source: str, namespace: dict[str, object], number: int, name: str) -> list[dict[str, Any]]:
    """Run a cell as a notebook does: what is printed, the value of its last line, and pictures."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        result = {"data": shown(value), "execution_count": number, "metadata": {}}
        found.append({**result, "output_type": "execute_result"})
    for figure in map(plt.figure, plt.get_fignums()):
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    plt.close("all")
    return found


def shown(value: object) -> dict[str, list[str]]:
    """Return the texts that a notebook shows of a value, by their kinds."""
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    texts = {kind: html for start, kind in STORED.items() if html.startswith(start)}
    return {kind: lines(text) for kind, text in {**texts, "text/plain": ADDRESS.sub("", repr(value))}.items()}


def lines(text: str) -> list[str]:
    """Return the lines of a text, as notebooks hold it."""
    return text.splitlines(keepends=True)


NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def texts_of(outputs: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return kinds and texts of a cell's outputs without numbers, which depend on the machine."""
    found = []
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text", ())})
        plain = NUMBER.sub("0", "".join(data.get("text/plain", ())))
        found.append((output["output_type"], *sorted(data), " ".join(plain.split())))
    return found


def main(names: list[str]) -> None:
    """Write the outputs of all notebooks, or of those of some names."""
    for path in NOTEBOOKS:
        if names and path.stem not in names:
            continue
        document = document_of(path)
        code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
        for number, (cell, outputs) in enumerate(zip(code, run(document, path.name), strict=True), 1):
            cell.update(execution_count=number, outputs=outputs)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
