"""Trees of arrays in tests: nested dicts, lists and tuples."""

from collections.abc import Callable
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """List the leaves from left to right; None has none."""
    if tree is None:
        return []
    if not isinstance(tree, (dict, list, tuple)):
        return [tree]
    return [leaf for part in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(part)]


def map_leaves(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to each leaf, and to those at its place in other trees."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {name: map_leaves(function, part, *(x[name] for x in others)) for name, part in tree.items()}
    if not isinstance(tree, (list, tuple)):
        return function(tree, *others)
    found = [map_leaves(function, *parts) for parts in zip(tree, *others, strict=True)]
    return type(tree)(*found) if hasattr(tree, "_fields") else type(tree)(found)
