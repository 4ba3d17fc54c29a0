"""How modules are printed: a tree, with the arguments that differ from their defaults."""

import inspect
from collections.abc import Iterator
from itertools import islice
from typing import Any

from sknet.nn._protocols import Shown

__all__ = ["arguments", "tree"]

MOST_LINES, MOST_LEVELS = 1000, 100  # shared modules are shown wherever they are, and so may be endless


def arguments(module: Shown, leave_out: tuple[str, ...] = ()) -> str:
    """Return the constructor's arguments that the module keeps under their own names."""
    kept = vars(module)
    return ", ".join(
        f"{name}={kept[name]!r}"
        for name, parameter in inspect.signature(type(module)).parameters.items()
        if name in kept
        and name not in leave_out
        and name not in module._children
        and repr(kept[name]) != repr(parameter.default)
    )


def tree(module: Shown) -> str:
    """Return the module on one line, or its children on a line each, up to a limit."""
    lines = list(islice(_lines(module, 0), MOST_LINES + 1))
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], "..."])


def _lines(module: Shown, level: int) -> Iterator[str]:
    opening = f"{type(module).__name__}({module.extra_repr()}"
    if not module._children:
        yield from f"{opening})".split("\n")
    elif level == MOST_LEVELS:
        yield f"{opening}...)"
    else:
        yield from opening.split("\n")
        for name, child in module._children.items():
            own: Any = type(child).__repr__
            is_tree = own is type(module).__repr__
            inside = _lines(child, level + 1) if is_tree else iter(repr(child).split("\n"))
            yield f"  ({name}): {next(inside)}"
            yield from (f"  {line}" for line in inside)
        yield ")"
