"""Names in a file: users choose those of parameters, inputs and primitives, and the file has others."""

import ast
import builtins
import re
from collections.abc import Collection

from sknet.compile._identifier import identifier, unused
from sknet.compile.python._lacking import LACKING

__all__ = ["FileNames", "names_in"]

RESERVED = LACKING.keys() | vars(builtins).keys() | {"n", "np", "base64", "decoded"}
RESULT = re.compile(r"[vk]\d+")  # of an equation, or a constant


class FileNames:
    """The names of a file, as they are given."""

    def __init__(self, others: Collection[str] | None = ()) -> None:
        self.is_draft = others is None
        self._others = frozenset(others or ())
        self._taken = set(RESERVED)

    def of_user(self, name: str) -> str:
        """Return a new name for what a user has named."""
        name = f"given{len(self._taken)}" if self.is_draft else identifier(name)
        if RESULT.fullmatch(name):
            name += "_"
        return self.take(unused(name, self._taken | self._others))

    def of_file(self, name: str) -> str:
        """Return a new name for a definition."""
        return self.take(unused(name, self._taken))

    def take(self, name: str) -> str:
        """Note that a name is taken, and return it."""
        self._taken.add(name)
        return name


def names_in(text: str) -> set[str]:
    """Return the names of all that a Python file defines or uses.

    Parameters
    ----------
    text : str
        The file.

    Returns
    -------
    set of str
        Names of variables, arguments, functions, classes and modules, not of attributes.

    Examples
    --------
    >>> sorted(names_in("import math" + chr(10) + "def half(x): return math.floor(x / two)"))
    ['half', 'math', 'two', 'x']
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
    return found
