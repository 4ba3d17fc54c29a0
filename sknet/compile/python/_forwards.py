"""The source of a primitive's forward without output arguments: often a single expression."""

import ast
import inspect
import textwrap
from functools import cache
from typing import Any

__all__ = ["Function", "bound_names", "expression_of", "parsed", "without_memory", "without_native_code"]

GIVEN = ("out", "scratch")  # arguments for preallocated memory, which a file does not use

Function = ast.FunctionDef | ast.Lambda
Names = frozenset[str]


@cache
def _module_tree(file: str) -> ast.Module:
    with open(file, encoding="utf-8") as source:
        return ast.parse(source.read())


def parsed(function: Any) -> Function:
    """Return a copy of the syntax tree of a function or lambda of the package."""
    code = function.__code__
    if function.__name__ != "<lambda>":
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for node in ast.walk(_module_tree(code.co_filename)):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if tuple(a.arg for a in given) == names:
                found = ast.parse(ast.unparse(node), mode="eval").body
                assert isinstance(found, ast.Lambda)
                return found
    raise OSError(f"the source of a lambda in line {code.co_firstlineno} of {code.co_filename} is not found")


def bound_names(tree: ast.AST) -> set[str]:
    """Return the names that a function binds: arguments, variables, inner functions."""
    found = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found | {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not tree}


# -- without preallocated memory ----------------------------------------------------------------


def without_memory(tree: Function) -> Function:
    """Return a function without the arguments in `GIVEN`, as if they were None."""
    arguments = tree.args
    removed = {a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg in GIVEN}
    count = len(arguments.args)
    first = count - len(arguments.defaults)
    kept = [(i, a) for i, a in enumerate(arguments.args) if a.arg not in removed]
    defaults = [arguments.defaults[i - first] for i, _ in kept if i >= first]
    only = [pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if pair[0].arg not in removed]  # fmt: skip
    arguments.args, arguments.defaults = [a for _, a in kept], defaults
    arguments.kwonlyargs, arguments.kw_defaults = [a for a, _ in only], [value for _, value in only]
    if isinstance(tree, ast.Lambda):
        tree.body = _Without(frozenset(removed)).visit(tree.body)
        return tree
    tree.body, _ = _block(tree.body, frozenset(removed))
    return tree


def _block(statements: list[ast.stmt], none: Names) -> tuple[list[ast.stmt], Names | None]:
    """Simplify statements given names that are None; also return those still None, or None if it returns."""
    body: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.If):
            found, after = _branches(statement, none)
        else:
            if isinstance(statement, (ast.For, ast.While, ast.With)):
                none -= _stored(statement)
            found, after = [_Without(none).visit(statement)], none - _stored(statement)
            if isinstance(statement, (ast.Return, ast.Raise)):
                after = None
        body += found
        if after is None:
            return body, None
        none = after
    return body, none


def _branches(statement: ast.If, none: Names) -> tuple[list[ast.stmt], Names | None]:
    statement.test = _Without(none).visit(statement.test)
    decided = _decided(statement.test)
    if decided is not None:
        return _block(statement.body if decided else statement.orelse, none)
    statement.body, first = _block(statement.body, none)
    statement.orelse, second = _block(statement.orelse, none)
    after = second if first is None else first if second is None else first & second
    return [statement], after


def _stored(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and _is_stored(n)}


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


class _Without(ast.NodeTransformer):
    """Replaces names by None, and resolves conditions that depend on them."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names and not _is_stored(node):
            return ast.Constant(None)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [k for k in node.keywords if not (k.arg in GIVEN and _is_none(k.value))]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        decided = _decided(node.test)
        return node if decided is None else node.body if decided else node.orelse


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _decided(test: ast.expr) -> bool | None:
    """Return the value of ``None is None`` or ``None is not None``; None for other conditions."""
    if not isinstance(test, ast.Compare) or not all(map(_is_none, (test.left, *test.comparators))):
        return None
    return isinstance(test.ops[0], ast.Is)


# -- without native code ------------------------------------------------------------------------


def without_native_code(tree: ast.AST) -> ast.AST:
    """Return functions without what they do only where there is native code."""
    return _WithoutNativeCode().visit(tree)  # type: ignore[no-any-return]


class _WithoutNativeCode(ast.NodeTransformer):
    """Leaves out the branches of ``if xp.may_be_native() and ...``."""

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        test = node.test
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test = test.values[0]
        return node.orelse if ast.unparse(test) == "xp.may_be_native()" else node


# -- as one expression --------------------------------------------------------------------------


def expression_of(tree: Function) -> ast.expr | None:
    """Return the expression that a function returns, if it does nothing else."""
    if isinstance(tree, ast.Lambda):
        return tree.body
    body = [part for part in tree.body if not _is_text(part)]
    last = body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return None
    if len(body) == 1:
        return last.value
    assigned, value = body[0], last.value
    if len(body) == 2 and isinstance(assigned, ast.Assign) and isinstance(value, ast.Name):
        [target] = assigned.targets
        if isinstance(target, ast.Name) and target.id == value.id:
            return assigned.value
    return None


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)
