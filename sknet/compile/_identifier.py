"""Names in generated Python code for what users name as they like."""

import re
from collections.abc import Collection
from keyword import iskeyword

__all__ = ["identifier", "unused"]

OTHERS = re.compile(r"[^A-Za-z0-9_]+")


def identifier(name: str) -> str:
    """Return a Python identifier like a name.

    Parameters
    ----------
    name : str
        Any text, such as the name of a primitive.

    Returns
    -------
    str
        The name itself if it is an identifier of ASCII characters that does not begin with an underscore.

    Examples
    --------
    >>> identifier("exp2"), identifier("acme.soft-clip"), identifier("2nd"), identifier("lambda")
    ('exp2', 'acme_soft_clip', 'f2nd', 'lambda_')
    """
    text = OTHERS.sub("_", name).lstrip("_")
    if not text or text[0].isdigit():
        return f"f{text}"
    return f"{text}_" if iskeyword(text) else text


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name, with underscores behind it if it is taken.

    Examples
    --------
    >>> unused("step", {"step", "step_"})
    'step__'
    """
    while name in taken:
        name += "_"
    return name
