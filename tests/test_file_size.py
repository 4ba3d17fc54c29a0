"""A file holds one subject and a function fits a screen; docstrings do not count against either."""

import ast
from pathlib import Path

import pytest

from tests.project import ROOT, source_files

LINES_IN_FILE = 600
CODE_LINES_IN_FILE = 400
CODE_LINES_IN_FUNCTION = 60
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of(node: ast.AST) -> int:
    return node.end_lineno - node.lineno + 1


def docstring_lines(tree: ast.AST) -> int:
    """Count the lines that the docstrings in a tree take."""
    return sum(
        lines_of(node.body[0])
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
    )


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", source_files("sknet", "tests", "examples"), ids=relative)
def test_file_is_short(path):
    lines = len(path.read_text().splitlines())
    assert lines <= LINES_IN_FILE, f"{lines} lines: split it by subject"


@pytest.mark.parametrize("path", source_files("sknet"), ids=relative)
def test_code_is_short(path):
    text = path.read_text()
    tree = ast.parse(text)
    code = len(text.splitlines()) - docstring_lines(tree)
    assert code <= CODE_LINES_IN_FILE, f"{code} lines without docstrings: split it by subject"
    long = [
        f"{node.name}, line {node.lineno}: {lines} lines without docstrings"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and (lines := lines_of(node) - docstring_lines(node)) > CODE_LINES_IN_FUNCTION
    ]
    assert not long
