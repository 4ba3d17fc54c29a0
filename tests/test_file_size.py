"""A file holds one subject and a function fits a screen; docstrings do not count against either."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.project import ROOT, source_files
from tools.house import docstring_lines, statements

LINES_IN_FILE = 1500
CODE_LINES_IN_FILE = 1000
CODE_LINES_IN_FUNCTION = 60


def lines_of(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def too_long(text: str) -> Iterator[str]:
    """Return what is too long in a module of the package, not counting docstrings."""
    tree = ast.parse(text)
    code = len(text.splitlines()) - len(docstring_lines(tree))
    if code > CODE_LINES_IN_FILE:
        yield f"{code} lines without docstrings"
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef):
            lines = lines_of(node) - len(docstring_lines(node))
            if lines > CODE_LINES_IN_FUNCTION:
                yield f"{node.name}, line {node.lineno}: {lines} lines without docstrings"


def test_files_are_short():
    lengths = {
        path: len(path.read_text().splitlines()) for path in source_files("sknet", "tests", "examples")
    }
    long = [f"{relative(path)}: {lines} lines" for path, lines in lengths.items() if lines > LINES_IN_FILE]
    assert not long, "split by subject:\n" + "\n".join(long)


def test_code_is_short():
    long = [
        f"{relative(path)}: {fault}" for path in source_files("sknet") for fault in too_long(path.read_text())
    ]
    assert not long, "split by subject:\n" + "\n".join(long)


def test_the_checker_detects_a_long_function():
    body = "    x = 1\n" * CODE_LINES_IN_FUNCTION
    assert list(too_long(f"def f():\n{body}")) == [
        f"f, line 1: {CODE_LINES_IN_FUNCTION + 1} lines without docstrings"
    ]
