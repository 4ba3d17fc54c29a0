"""Print how large the project is and how many files a fit runs through, beside its targets.

python tools/house.py [--json PATH]
"""

import argparse
import ast
import gc
import io
import json
import re
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sknet"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
# Functions and files of a fit and of a prediction, each counted once.
TRACE = """
import collections, json, os, sys
os.environ["SKNET_NATIVE"] = "never"
import numpy as np
from sknet import MLPClassifier
from sknet.callbacks import Callback

root, seen = sys.argv[1], collections.Counter()
def watch(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        code = frame.f_code
        seen[code.co_filename, code.co_qualname, code.co_firstlineno] += 1

def files():
    return len({file for file, *_ in seen})

class Begin(Callback):
    def on_fit_begin(self, fit):
        before.append(files())

def small(callbacks=None):
    X = np.random.default_rng(0).normal(size=(64, 5))
    estimator = MLPClassifier((8,), max_iter=2, random_state=0, callbacks=callbacks)
    seen.clear()
    sys.setprofile(watch)
    try:
        estimator.fit(X, np.arange(64) % 2)
    finally:
        sys.setprofile(None)
    return estimator, X

import warnings
warnings.simplefilter("ignore")
before = []
estimator, X = small()
found = {"fit_files": files(), "fit_functions": len({key[:2] for key in seen})}
calls = +seen
found["modules_loaded"] = sum(name.partition(".")[0] == "sknet" for name in sys.modules)
small([Begin()])
found["files_before_training"] = before[0]
seen.clear()
sys.setprofile(watch)
estimator.predict(X)
sys.setprofile(None)
found["predict_files"] = files()
found["calls"] = [(file, line, count) for (file, _, line), count in (calls + seen).items()]
print(json.dumps(found))
"""
# An entry of the spine: a file, and names in it.
ENTRY = re.compile(r"^- (`sknet/[\w/]+\.py`(?:,\s+`[\w.]+`)*):", re.MULTILINE)


class Row(NamedTuple):
    """A measure, its value, and the value that it shall reach."""

    name: str
    value: float
    target: float
    is_least: bool = False  # whether the target is a minimum


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements in it; expressions, which are most of a tree, are passed over."""
    yield node
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, field, ()):
            yield from statements(each)


def docstring_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines that docstrings take."""
    lines: set[int] = set()
    for node in statements(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


@cache
def lines_of(path: Path) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines with code, docstrings excluded, and of those of docstrings."""
    code, text = set[int](), path.read_text()
    for kind, _, (first, _), (last, _), _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind not in NO_CODE:
            code.update((first,) if first == last else range(first, last + 1))
    documented = docstring_lines(parsed(path))
    return code - documented, documented


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(path.read_text())


def definitions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, range]]:
    """Yield names that a module or class defines, and the lines of each definition."""
    for node in tree.body:
        lines = range(node.lineno, (node.end_lineno or 0) + 1)
        if isinstance(node, ast.Assign):
            yield from ((prefix + x.id, lines) for x in node.targets if isinstance(x, ast.Name))
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield prefix + node.name, range(first, lines.stop)
            if isinstance(node, ast.ClassDef):
                yield from definitions(node, f"{prefix}{node.name}.")


def spine() -> dict[str, set[int]]:
    """Return the lines with code that `docs/spine.md` lists, by file, or raise a KeyError for a name."""
    found: dict[str, set[int]] = {}
    for entry in ENTRY.findall((ROOT / "docs" / "spine.md").read_text()):
        file, *names = re.findall(r"`([^`]+)`", entry)
        code, _ = lines_of(ROOT / file)
        listed: dict[str, set[int]] = {}
        for name, lines in definitions(parsed(ROOT / file)):
            listed.setdefault(name, set()).update(lines)
        chosen = set().union(*(listed[name] for name in names)) if names else code
        found.setdefault(file, set()).update(chosen & code)
    return found


def module_of(path: Path) -> str:
    """Return the name of a module of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: Iterable[str]) -> Iterator[str]:
    """Yield the modules of the package that a module imports, for types and in functions, too."""
    known = set(modules)
    for node in statements(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if (found := inner if inner in known else node.module) in known:
                    yield found
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def largest_circle(paths: list[Path]) -> int:
    """Return the number of modules in the largest circle of imports; 1 if there is none."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers = {module_of(path): i for i, path in enumerate(paths)}
    edges = [
        (i, numbers[name])
        for i, path in enumerate(paths)
        for name in imported(path, numbers)
        if numbers[name] != i
    ]
    rows, columns = zip(*edges, strict=True)
    graph = coo_array(([1] * len(edges), (rows, columns)), shape=(len(paths), len(paths)))
    _, labels = connected_components(graph.tocsr(), connection="strong")
    return max(list(labels).count(label) for label in set(labels))


def private_share(paths: list[Path]) -> float:
    """Return the share of files of tests, in percent, that import a private name or module of the package."""
    touching = 0
    for path in paths:
        names = [
            [*(node.module or "").split("."), *[alias.name for alias in node.names]]
            for node in statements(parsed(path))
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sknet"
        ]
        touching += any(part.startswith("_") for parts in names for part in parts)
    return 100 * touching / len(paths)


def share_within(calls: list[tuple[str, int, int]], lines: dict[str, set[int]]) -> float:
    """Return the share of calls, in percent, of functions that begin in these lines of files."""
    inside = [n for file, line, n in calls if line in lines.get(str(Path(file).relative_to(ROOT)), ())]
    return 100 * sum(inside) / sum(n for *_, n in calls)


def traced() -> dict[str, Any]:
    """Return what a small fit and a prediction run through, in a process of their own."""
    command = [sys.executable, "-c", TRACE, str(PACKAGE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def rows() -> list[Row]:
    """Return all measures."""
    gc.disable()  # trees have no cycles, and to look for them takes longer than to parse
    try:
        return _rows()
    finally:
        gc.enable()


def _rows() -> list[Row]:
    paths = python_files(PACKAGE)
    code, documented = (list(map(len, each)) for each in zip(*map(lines_of, paths), strict=True))
    native = [path for path in PACKAGE.rglob("*.[ch]") if path.suffix in (".c", ".h")]
    tests = [path for path in python_files(ROOT / "tests") if path.name.startswith("test_")]
    found, backbone = traced(), spine()
    return [
        Row("code lines of Python", sum(code), 45_000),
        Row("lines of C", sum(len(path.read_text().splitlines()) for path in native), 4_000),
        Row("docstring lines", sum(documented), 18_000),
        Row("files", len(paths), 280),
        Row("median code lines of a file", statistics.median(code), 150, True),
        Row("largest circle of imports, types included", largest_circle(paths), 1),
        Row("files of a small fit", found["fit_files"], 70),
        Row("functions of a small fit", found["fit_functions"], 500),
        Row("files before training", found["files_before_training"], 25),
        Row("files of a prediction", found["predict_files"], 15),
        Row("modules loaded by a small fit", found["modules_loaded"], 150),
        Row("code lines of the spine", sum(map(len, backbone.values())), 6_000),
        Row("calls within the spine, %", share_within(found["calls"], backbone), 75, True),
        Row("files of tests that import private names, %", private_share(tests), 5),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="PATH", help="a file for the values by name")
    arguments = parser.parse_args()
    found = rows()
    print(f"{'':<44} {'today':>8} {'target':>8}")
    for row in found:
        sign = ">=" if row.is_least else "<="
        print(f"{row.name:<44} {row.value:>8,.0f} {sign}{row.target:>7,.0f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({row.name: row.value for row in found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
