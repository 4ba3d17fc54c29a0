"""Write docs/api.md from the docstrings: ``python -m docs.make_api``, in the project's folder."""

import inspect
import re
from types import ModuleType

from tests.project import ROOT, public_modules, public_objects

PAGE = ROOT / "docs/api.md"
HEAD = """\
# Every public name

The first line of each docstring; see `help(name)` for the rest. A name that can be imported from several
places is listed under the shortest. `python -m docs.make_api` writes this page, and a test compares it with
the code.
"""
# Ordered from everyday use to extensions of sknet; other modules follow.
ORDER = [
    "sknet",
    "sknet.neural_network",
    "sknet.model_selection",
    "sknet.preprocessing",
    "sknet.tabular",
    "sknet.callbacks",
    "sknet.losses",
    "sknet.optim",
    "sknet.optim.schedules",
    "sknet.nn",
    "sknet.nn.init",
    "sknet.ops",
    "sknet.ops.linalg",
    "sknet.autograd",
    "sknet.graphs",
    "sknet.onnx",
    "sknet.exceptions",
    "sknet.engine",
    "sknet.compile",
    "sknet.core",
    "sknet.device",
]
# A table is a dict, which has no docstring of its own; nor has a number.
TABLES = {
    "sknet.core.extend.OF_NUMPY": "Functions of `sknet.ops` by NumPy's of the same name.",
    "sknet.callbacks.extend.HOOKS": "The names of the hooks, in the order in which a fit calls them.",
    "sknet.callbacks.extend.PARTS": "What callbacks that have seen a fit consist of, by the names in files.",
    "sknet.core.SCALAR_FUNCTIONS": "The functions that scalar expressions may call, in NumPy, C and Numba.",
    "sknet.compile.passes.BLOCK": "Elements of a block of a long chain, which stay in the cache.",
    "sknet.core.PRIMITIVES": "Every primitive by its name.",
    "sknet.engine.extend.FEW_ROWS": "Up to this many rows, a predictor has a program for each number.",
    "sknet.engine.extend.MOST_ROWS": "Rows of the largest program of a predictor.",
    "sknet.engine.extend.PARTS": "What fits leave besides models, by the names in files.",
    "sknet.estimators.extend.PARTS": "What fitted estimators consist of, by the names in files.",
    "sknet.nn.extend.PARTS": "The functions by which layers draw weights, by the names in files.",
    "sknet.compile.extend.PARTS": "What graphs in files consist of, by the names in files.",
    "sknet.compile.extend.ROWS": "The numbers of rows for which a function is captured that is to take any.",
    "sknet.onnx.PARTS": "What networks that were read consist of, by the names in files.",
    "sknet.losses.LOSSES": "The losses that have a name, by scikit-learn's names.",
    "sknet.nn.ACTIVATIONS": "The activation layers that have a name, scikit-learn's names among them.",
    "sknet.nn.init.INITIALIZERS": "The initialisers that have a name.",
    "sknet.nn.init.SCHEMES": "The default initialiser of every kind of layer, by version.",
    "sknet.nn.init.VERSION": "The newest version of the default initial weights.",
    "sknet.optim.OPTIMIZERS": "The optimizers that have a name.",
}


def page() -> str:
    """Return the text of the page."""
    entries: dict[str, list[str]] = {}
    for path, value in public_objects().items():
        module, _, name = path.rpartition(".")
        if not isinstance(value, ModuleType) and name != "__version__":
            entries.setdefault(module, []).append(f"- `{name}`: {plain(summary(path, value))}")
    ordered = sorted(entries, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    return "\n".join([HEAD, *(section(name, entries[name]) for name in ordered)])


def section(module: str, entries: list[str]) -> str:
    """Return heading, introduction and entries of a module."""
    introduction = plain(first_paragraph(public_modules()[module]))
    return "\n".join([f"## `{module}`", "", introduction, "", *entries, ""])


def summary(path: str, value: object) -> str:
    """Return the line for a public name; a KeyError asks for the line of a new table in `TABLES`."""
    return TABLES[path] if isinstance(value, (dict, int)) else first_paragraph(value)


def first_paragraph(value: object) -> str:
    """Return the first paragraph of a docstring as one line."""
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")


def plain(text: str) -> str:
    """Return Markdown for what docstrings write in reStructuredText: formulas and double backticks."""
    formula = re.compile(r":math:`([^`]*)`")
    text = formula.sub(lambda match: "`" + re.sub(r"\\text|[\\{}]", "", match[1]) + "`", text)
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page())
