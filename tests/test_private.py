"""Tests set no private attributes of sknet, nor of anything that is not imported from elsewhere."""

import ast
import re
from collections.abc import Iterator

from tests.project import ROOT, source_files


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


# What a text has that sets an attribute, as most do not; they are not parsed.
MAYBE = re.compile(r"setattr|\._\w+\s*(?:\W{0,3}=|:|in\b)")
OURS = ("sknet", "tests", "docs", "examples")


def from_elsewhere(tree: ast.AST) -> set[str]:
    """Return the names of modules, and of what is in them, that others than we have written."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for each in node.names:
                module = node.module if isinstance(node, ast.ImportFrom) else each.name
                if module and module.split(".")[0] not in OURS:
                    found.add(each.asname or each.name.split(".")[0])
    return found


def faults(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that set a private attribute of another object."""
    elsewhere = from_elsewhere(tree)
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if not isinstance(target, ast.Attribute) or not is_private(target.attr):
                continue
            if ast.unparse(target.value) not in ("self", "cls"):
                yield target.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            texts = [str(x.value) for x in node.args[:2] if isinstance(x, ast.Constant)]
            of = ast.unparse(node.args[0]) if node.args else ""
            if of not in elsewhere and any(is_private(text.rpartition(".")[2]) for text in texts):
                yield node.lineno


def faults_of(text: str) -> list[int]:
    return list(faults(ast.parse(text))) if MAYBE.search(text) else []


def test_no_test_sets_a_private_attribute():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in source_files("tests")
        for line in faults_of(path.read_text())
    ]
    assert not found


def test_a_violation_is_detected():
    ours = "import sknet\npatch.setattr(sknet, '_y', 1)"
    for text in ("x._y = 1", "x.y._z += 1", "setattr(x, '_y', 1)", "patch.setattr('a.b._c', 1)", ours):
        assert faults_of(text), text
    theirs = "from cupy.cuda import compiler\npatch.setattr(compiler, '_y', 1)"
    for text in ("self._y = 1", "x.y = 1", "patch.setattr(x, 'y', 1)", "x.__name__ = 'y'", theirs):
        assert not faults_of(text), text
