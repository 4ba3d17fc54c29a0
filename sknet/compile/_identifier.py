"""Names in generated Python code for what users name as they like."""

import re
from collections.abc import Collection
from keyword import iskeyword

__all__ = ["identifier", "unused"]

OTHERS = re.compile(r"[^A-Za-z0-9_]+")


def identifier(name: str) -> str:
    """Return a Python identifier like a name."""
    text = OTHERS.sub("_", name).lstrip("_")
    if not text or text[0].isdigit():
        return f"f{text}"
    return f"{text}_" if iskeyword(text) else text


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores behind it if it is taken."""
    while name in taken:
        name += "_"
    return name
