"""The notebooks run from top to bottom, and what their cells show can be shown."""

import ast
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from tests.project import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    return [
        "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind
    ]


def run_cell(source: str, namespace: dict[str, object], name: str) -> object:
    """Run a cell as a notebook does, and return the value of its last line, unless a semicolon hides it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    return None if source.rstrip().endswith(";") else value


def shown(value: object) -> dict[str, str]:
    """Return what a notebook would show of a value, by the name of the method that makes it."""
    methods = ("_repr_html_", "_repr_svg_")
    return {name: getattr(value, name)() for name in methods if hasattr(value, name)}


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "own_network", "table_to_service"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, capsys):
    namespace: dict[str, object] = {"__name__": "__main__"}
    pictures = set()
    try:
        for number, source in enumerate(cells(path, "code")):
            value = run_cell(source, namespace, f"{path.name}[{number}]")
            pictures |= {name for name, text in shown(value).items() if text}
        for figure in map(plt.figure, plt.get_fignums()):
            figure.canvas.draw()
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert pictures


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_tidy(path):
    """It begins with a title, and holds neither results nor numbers of runs."""
    document = json.loads(path.read_text())
    assert document["nbformat"] == 4
    assert cells(path, "markdown")[0].startswith("# ")
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
