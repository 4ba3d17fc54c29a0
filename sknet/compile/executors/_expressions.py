"""Facts about scalar expressions for the executors that generate code."""

import ast
from functools import cache
from typing import Any

from sknet.device import result_dtype

__all__ = ["computing_dtype", "parsed", "used"]

Operands = tuple[Any, ...]


@cache
def parsed(expression: str) -> ast.expr:
    """Return the syntax tree of an expression; it is cached, so it must not be changed."""
    return ast.parse(expression, mode="eval").body


@cache
def used(expression: str) -> frozenset[int]:
    """Return the positions of the operands that an expression names."""
    names = {node.id for node in ast.walk(parsed(expression)) if isinstance(node, ast.Name)}
    return frozenset(i for i, name in enumerate("xyz") if name in names)


@cache
def _is_predicate(expression: str) -> bool:
    return isinstance(parsed(expression), (ast.BoolOp, ast.Call, ast.Compare))


def computing_dtype(expression: str, values: Operands, dtype: Any) -> Any:
    """Return the dtype that operands are converted to before an element is computed."""
    return result_dtype(*values) if dtype.kind == "b" and _is_predicate(expression) else dtype
