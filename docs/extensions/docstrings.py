"""Docstrings are prose for readers of code: what only reStructuredText would read as markup is escaped."""

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from docs import operations
from sknet.nn import Module

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["constrained", "escaped", "escaped_line", "setup"]

SPAN = re.compile(r"(``.*?``|:\w+:`[^`]*`|`[^`]*`)")
FITTED = re.compile(r"(?<![\w.])(\w*[^\W_])_(?=[\s,.;:)\]}\"']|$)")  # coefs_ is not a link
BARS = re.compile(r"\|(\w+)\|")  # |x| is no substitution
INITIAL = re.compile(r"^(\s*\.\. \[\w+\] [A-Z])\. ")  # the initial of an author numbers no list
# When parameters are checked, by package; layers check them when they are created, estimators in `fit`.
WHEN = dict.fromkeys(("losses", "optim", "nn"), "When it is used")
STARRED = re.compile(r"(?<=, )\*(?=\w)")  # nor is (..., *shape) emphasis


def escaped_line(line: str) -> str:
    r"""Escape the prose of a line, but neither code nor formulas.

    >>> escaped_line("The mean of |x|, `coefs_` and coefs_, see [1]_.")
    'The mean of \\|x\\|, `coefs_` and coefs\\_, see [1]_.'
    """
    parts = SPAN.split(line)
    for place in range(0, len(parts), 2):
        text = FITTED.sub(r"\1\\_", parts[place])
        parts[place] = STARRED.sub(r"\\*", BARS.sub(r"\|\1\|", text))
    return "".join(parts)


def escaped(lines: Iterable[str]) -> Iterator[str]:
    """Escape the prose of a docstring; examples and the bodies of directives stay as they are."""
    verbatim = -1  # the indentation that ends a directive's body, or -1
    example = False
    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        example = bool(text) and (example or text.startswith(">>>"))
        if text and indent <= verbatim:
            verbatim = -1
        if text.startswith(".. math::"):
            verbatim = indent
        name, colon, kind = line.partition(" : ")
        if example or verbatim >= 0 or re.fullmatch(r"[\w, *]+", line):
            yield line
        elif colon and re.fullmatch(r"[\w, *]+", name):  # a parameter, whose name numpydoc escapes
            yield name + colon + escaped_line(kind)
        else:
            yield escaped_line(INITIAL.sub(r"\1\\. ", line))


def constrained(cls: type, doc: str) -> list[str]:
    """Return the section on errors that the docstring of a class lacks, whose parameters have constraints.

    >>> from sknet.nn import Linear
    >>> constrained(Linear, "A linear layer.")[3]
    'InvalidParameterError'
    """
    constraints = getattr(cls, "_parameter_constraints", None)
    if not constraints or "Raises\n---" in doc:
        return []
    when = "" if issubclass(cls, Module) else f"{WHEN.get(cls.__module__.split('.')[1], 'In `fit`')}, "
    said = f"{when}if a parameter has a type or value that it must not have; the message names it."
    return ["", "Raises", "------", "InvalidParameterError", f"    {said[0].upper()}{said[1:]}"]


def process(app: "Sphinx", what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Complete the docstring of an operation, and escape it, before numpydoc reads it."""
    if what == "function" and name.startswith("sknet.ops.") and callable(value):
        lines += operations.sections(value, "\n".join(lines))
    if what == "class" and isinstance(value, type):
        lines += constrained(value, "\n".join(lines))
    lines[:] = list(escaped(lines))


def signature(
    app: "Sphinx", what: str, name: str, value: Any, options: object, given: str | None, returned: str | None
) -> tuple[str, str] | None:
    """Return the signature of a class as `inspect` sees it, also where a metaclass makes its objects."""
    if what != "class":
        return None
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    bare = [x.replace(annotation=x.empty) for x in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=found.empty)), ""


def setup(app: "Sphinx") -> dict[str, bool]:
    """Connect the escape."""
    app.connect("autodoc-process-docstring", process, priority=100)
    app.connect("autodoc-process-signature", signature, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
