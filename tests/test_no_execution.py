"""Nothing in the package compiles or executes text on the host."""

import ast

import pytest

from tests.project import ROOT, source_files

EXECUTING = {"exec", "eval", "compile", "__import__"}
MODULES = {"code", "codeop", "runpy"}


def defined(tree):
    """The names that a module imports or defines, which are not Python's own."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def executing(tree):
    """Yield the lines that execute text."""
    own = defined(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                found = name in EXECUTING - own
            case ast.Import(names=names):
                found = not MODULES.isdisjoint(alias.name for alias in names)
            case ast.ImportFrom(module=module):
                found = module in MODULES | {"builtins"}
            case _:
                found = False
        if found:
            yield node.lineno


@pytest.mark.slow
def test_no_text_is_executed():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in source_files("sknet")
        for line in executing(ast.parse(path.read_text()))
    ]
    assert not found


@pytest.mark.parametrize(
    "text",
    ["exec('x')", "f = eval", "compile('x', '', 'exec')", "import runpy", "from builtins import exec"],
)
def test_execution_is_found(text):
    assert list(executing(ast.parse(text))) == [1]


def test_functions_of_the_same_name_are_not():
    assert not list(executing(ast.parse("from sknet.compile import compile\ncompile(f, ())\nmodule.eval()")))
