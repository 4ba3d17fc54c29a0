"""The path of an object in a document, for messages."""

from collections.abc import Sequence
from typing import Any

__all__ = ["path_to"]

Tree = Any
GROUPS = ("params", "state", "parameters", "buffers", "settings")  # of fields, in descriptions of objects
TAGS = ("dict", "pairs", "tuple", "set", "frozenset", "cells", "masked", "partial", "draw", "distribution")
MOST = 160  # characters of a path


def path_to(number: int, later: Sequence[Any], value: Tree) -> str:
    """Return the path of an object, such as ``MLPClassifier.model_.module.children['0'].weight``."""
    keys: list[Any] = []
    name = ""
    try:
        for place, described in enumerate(reversed(later), number + 1):
            name, state = described
            found = _keys_to(number, state)
            if found is not None:
                keys, number = [*found, *keys], place
        if _keys_to(number, value) is None:
            return ""
    except (TypeError, ValueError, RecursionError):  # a description that is none
        return ""
    text = str(name).rpartition(".")[2] + "".join(map(_shown, keys))
    return text if len(text) <= MOST else f"{text[: MOST // 2]}...{text[-MOST // 2 :]}"


def _keys_to(number: int, tree: Tree) -> list[Any] | None:
    """Return the keys that lead to a reference, or None."""
    if isinstance(tree, dict) and len(tree) == 1:
        ((tag, content),) = tree.items()
        if tag == "object":
            return [] if content == number else None
        tree = content if tag in TAGS else tree
    for key, item in _items(tree):
        found = _keys_to(number, item)
        if found is not None:
            return found if key in GROUPS else [key, *found]
    return None


def _items(tree: Tree) -> Any:
    if isinstance(tree, dict):
        return tree.items()
    return enumerate(tree) if isinstance(tree, list) else ()


def _shown(key: Any) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if key.isidentifier() else f"[{key[:40]!r}]"
