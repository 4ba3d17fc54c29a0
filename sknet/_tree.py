"""Trees: nested dicts, lists and tuples with arrays (or anything else) as leaves."""

from collections.abc import Callable, Iterator
from typing import Any

Tree = Any


def leaves(tree: Tree) -> list[Any]:
    """Return the leaves from left to right; dicts in their own order, None is an empty tree."""
    found: list[Any] = []
    _gather(tree, found)
    return found


def paths(tree: Tree) -> list[str]:
    """Return the dotted path of every leaf, in the order of `leaves`."""
    return [path for path, _ in named_leaves(tree)]


def named_leaves(tree: Tree) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    _gather_named(tree, "", found)
    return found


def map_leaves(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Apply `function` to every leaf (and the leaves of `others` at the same place)."""
    for other in others:
        expected, got = paths(tree), paths(other)
        if expected != got:
            raise ValueError(f"trees of different structure: expected leaves at {expected}, got {got}")
    return rebuild(tree, iter(list(map(function, *map(leaves, (tree, *others))))))


def rebuild(tree: Tree, values: Iterator[Any]) -> Tree:
    """Return a tree of the same structure whose leaves are taken from `values`, in order."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return type(tree)((key, rebuild(child, values)) for key, child in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuild(child, values) for child in tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(rebuild(child, values) for child in tree)
    return next(values)


def _gather(tree: Tree, found: list[Any]) -> None:
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        if tree is not None:
            found.append(tree)
        return
    for child in tree:
        _gather(child, found)


def _gather_named(tree: Tree, prefix: str, found: list[tuple[str, Any]]) -> None:
    if isinstance(tree, dict):
        children: Any = tree.items()
    elif isinstance(tree, (list, tuple)):
        children = zip(tree._fields, tree, strict=True) if hasattr(tree, "_fields") else enumerate(tree)
    else:
        if tree is not None:
            found.append((prefix, tree))
        return
    for key, child in children:
        _gather_named(child, f"{prefix}.{key}" if prefix else str(key), found)
