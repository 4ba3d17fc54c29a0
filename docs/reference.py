"""What the API reference shows: a page for every public name, made from its docstring.

`write` is called by each build of the site. A new public name needs no line here, except a table or a
number, which has no docstring; a new public module belongs into one of the areas of ``docs/api/index.md``.
"""

import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from docs.extensions.docstrings import escaped_line
from sknet._params import ParameterObject
from tests.project import ROOT, public_modules, public_objects

__all__ = ["TABLES", "entries", "modules", "pages", "write"]

AREAS = ROOT / "docs/api/index.md"
# A table is a dict, which has no docstring of its own; nor has a number.
TABLES = {
    "sknet.core.SCALAR_FUNCTIONS": "The functions that scalar expressions may call, in NumPy and C.",
    "sknet.core.PRIMITIVES": "Every primitive by its name.",
    "sknet.losses.LOSSES": "The losses that have a name, by scikit-learn's names.",
    "sknet.nn.ACTIVATIONS": "The activation layers that have a name, scikit-learn's names among them.",
    "sknet.nn.AUGMENTATIONS": "The random changes of images that have a name.",
    "sknet.nn.NETWORKS": "The networks that estimators know by name.",
    "sknet.nn.init.INITIALIZERS": "The initializers that have a name.",
    "sknet.nn.init.SCHEMES": "The default initializer of every kind of layer, by version.",
    "sknet.nn.init.VERSION": "The newest version of the default initial weights.",
    "sknet.optim.OPTIMIZERS": "The optimizers that have a name.",
}
KINDS = (property, staticmethod, classmethod)
ESTIMATORS = ("sknet", "sknet.neural_network")
GROUPED = 40  # a module with more names is shown by subjects: the files that define them


@cache
def entries() -> dict[str, dict[str, object]]:
    """Map every public module to the names documented there, each object once, under its shortest name."""
    found: dict[str, dict[str, object]] = {name: {} for name in public_modules()}
    for path, value in public_objects().items():
        module, _, name = path.rpartition(".")
        if not isinstance(value, ModuleType) and name != "__version__":
            found[module][name] = value
    return {module: names for module, names in found.items() if names}


def modules() -> list[str]:
    """Return the modules in the order of ``docs/api/index.md``; one that is missing there comes last."""
    listed = [line.strip() for line in AREAS.read_text().splitlines()]
    order = {name: place for place, name in enumerate(listed)}
    return sorted(entries(), key=lambda name: (order.get(name, len(order)), name))


def pages() -> dict[str, str]:
    """Return the text of every page by its name below ``docs/api``."""
    found = {}
    for module, names in entries().items():
        found[f"{module}.rst"] = module_page(module, names)
        for name, value in names.items():
            found[f"names/{module}.{name}.rst"] = name_page(module, name, value)
    return found


def write(folder: Path) -> None:
    """Write the pages into a folder; those that are the same stay untouched, and old ones go."""
    wanted = pages()
    for path in folder.glob("**/*.rst"):
        if str(path.relative_to(folder)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def heading(text: str, line: str = "=") -> list[str]:
    return [text, line * len(text), ""]


def module_page(module: str, names: dict[str, object]) -> str:
    """Return the page of a module: its docstring, and a table of its names."""
    lines = [*heading(module), f".. automodule:: {module}", "   :no-members:", ""]
    for title, group in subjects(names):
        lines += heading(title, "-") if title else []
        lines += table(module, group)
    hidden = [f"   {name} <names/{module}.{name}>" for name in names]
    return "\n".join([*lines, ".. toctree::", "   :hidden:", "   :maxdepth: 1", "", *hidden, ""])


def subjects(names: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Divide the names of a large module by the files that define them, which are one subject each."""
    if len(names) <= GROUPED:
        yield "", names
        return
    groups: dict[str, dict[str, object]] = {}
    for name, value in names.items():
        groups.setdefault(subject(value), {})[name] = value
    rest = groups.pop("Others", {})
    yield from sorted(groups.items())
    if rest:
        yield "Others", rest


def subject(value: object) -> str:
    """Return what the file that defines a value is about, the first line of its docstring."""
    file = sys.modules.get(getattr(value, "__module__", None) or "")
    about = first_paragraph(file) if file else ""
    title = about.partition(":")[0].rstrip(".").replace("`", "")
    return title if 0 < len(title) <= 60 else "Others"


def table(module: str, names: dict[str, object]) -> list[str]:
    """Return a table of names, each linked to its page, with the first paragraph of its docstring."""
    rows = []
    for name, value in names.items():
        rows += [f"   * - :py:obj:`{name} <{module}.{name}>`", f"     - {summary(f'{module}.{name}', value)}"]
    return [".. list-table::", "   :widths: 30 70", "   :class: names", "", *rows, ""]


def name_page(module: str, name: str, value: object) -> str:
    """Return the page of one name."""
    path = f"{module}.{name}"
    lines = [*heading(path), f".. currentmodule:: {module}", ""]
    if isinstance(value, (dict, int, float)):
        lines += data(path, value)
    elif str(getattr(value, "__module__", "")).startswith("sklearn"):
        lines += [
            f".. py:class:: {name}",
            "",
            f"   {first_paragraph(value)} This is scikit-learn's class.",
            "",
        ]
    elif isinstance(value, type):
        lines += [f".. autoclass:: {path}", "", *(f"   {line}" for line in members(path, value))]
    elif callable(value):
        lines += [f".. autofunction:: {path}", ""]
    else:
        lines += [f".. py:data:: {name}", "", f"   {first_paragraph(value)}", ""]
    return "\n".join([*lines, ""])


def data(path: str, value: object) -> list[str]:
    """Return the description of a table or a number: what it is, and its keys or its value."""
    lines = [f".. py:data:: {path.rpartition('.')[2]}", "", f"   {TABLES[path]}", ""]
    if isinstance(value, dict):
        keys = ", ".join(f"``{key!r}``" for key in value)
        return [*lines, f"   Keys: {keys}.", ""] if keys else lines
    return [*lines, f"   Its value is ``{value!r}``.", ""]


def members(path: str, cls: type) -> Iterator[str]:
    """Yield directives for the members that a class defines, and the names of those that it inherits."""
    documented = {value: name for name, value in public_objects().items() if isinstance(value, type)}
    inherited: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for base in cls.__mro__ for name in vars(base)):
        owner = next(base for base in cls.__mro__ if name in vars(base))
        member = inspect.getattr_static(owner, name)
        value = member if isinstance(member, KINDS) else getattr(cls, name, None)
        if name.startswith("_") or not is_described(value):
            continue
        if owner is not cls and owner in documented and not is_estimator(path):
            inherited.setdefault(f":py:obj:`{documented[owner]}`", []).append(
                f":py:obj:`{name} <{documented[owner]}.{name}>`"
            )
        elif owner is ParameterObject or is_foreign(owner) or is_foreign(value):
            inherited.setdefault(foreign(owner, value), []).append(f"``{name}``")
        else:
            kind = "property" if isinstance(member, property) else "method"
            yield from (f".. auto{kind}:: {path}.{name}", "")
    for owner_name, names in inherited.items():
        yield from (f"Inherited from {owner_name}: {', '.join(sorted(names))}.", "")


def is_estimator(path: str) -> bool:
    """Tell whether a page is that of an estimator, which also describes what it inherits within sknet."""
    module, _, name = path.rpartition(".")
    return module in ESTIMATORS and hasattr(entries()[module][name], "fit")


def is_described(member: object) -> bool:
    """Tell whether a member of a class is a property or a method, also one that exists under a condition."""
    return isinstance(member, KINDS) or inspect.isfunction(member)


def is_foreign(value: object) -> bool:
    """Tell whether a class or a method is another library's."""
    return not isinstance(value, KINDS) and not str(value.__module__).startswith("sknet")


def foreign(owner: type, member: object) -> str:
    """Name a class of another library, or the library where the class is private."""
    if owner is ParameterObject:
        return "scikit-learn's parameter protocol"
    if any(x.__module__.startswith("sklearn") for x in (owner, member) if hasattr(x, "__module__")):
        return "scikit-learn"
    if owner.__module__ in ("builtins", "collections.abc"):
        return f":py:obj:`{owner.__name__}`"
    return "Python"


def summary(path: str, value: object) -> str:
    """Return the line for a public name; a KeyError asks for the line of a new table in `TABLES`."""
    return TABLES[path] if isinstance(value, (dict, int, float)) else first_paragraph(value)


def first_paragraph(value: object) -> str:
    """Return the first paragraph of a docstring as one line."""
    return escaped_line((inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " "))
