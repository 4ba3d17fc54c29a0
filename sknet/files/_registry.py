"""The classes and functions that a file may name, and their names.

All come from the public packages of sknet: from their ``__all__``, or from the table ``PARTS`` of a package's
``extend`` for parts of fitted objects that users never name. A name in a file is looked up only here: of
modules, a file can load sknet's own.
"""

import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.files._kinds import is_stored

__all__ = [
    "NotKnownError",
    "Registry",
    "all_known",
    "full_name",
    "inner_names",
    "is_ours",
    "splitters",
    "stored_name",
]

HOUSE = Path(__file__).parents[1]
NOT_STORED = ("display", "files", "dask", "exceptions", "persistence")
NUMPYS = {f"numpy.random.{each.__name__}": each for each in (np.random.RandomState, np.random.Generator)}
INNER = ("sknet.device", "sknet.engine", "sknet.estimators", "sknet.nn", "sknet.optim")
SPLITTERS = "sklearn.model_selection"  # splitters, for `validation_split`


@cache
def _packages() -> tuple[str, ...]:
    """Return the public packages and modules of sknet whose objects are stored."""
    found = ["sknet"]
    for info in pkgutil.iter_modules([str(HOUSE)]):
        if info.name.startswith("_") or info.name in NOT_STORED:
            continue
        found.append(f"sknet.{info.name}")
        inner = pkgutil.iter_modules([str(HOUSE / info.name)]) if info.ispkg else ()
        found += [f"sknet.{info.name}.{each.name}" for each in inner if not each.name.startswith("_")]
    return (*found, SPLITTERS)


@cache
def _names_in(package: str) -> Mapping[str, Any]:
    """Return the objects of a package that files may name, by name."""
    module = import_module(package)
    if package == SPLITTERS:
        return {name: value for name, value in vars(module).items() if _is_splitter(value)}
    names = [name for name in getattr(module, "__all__", ()) if name not in NOT_STORED]  # some need extras
    found = {name: getattr(module, name) for name in names}
    known = {name: value for name, value in found.items() if _is_ours(value) and is_stored(value)}
    if package == "sknet.ops":
        known |= {name: found[name] for name in found if isinstance(found[name], FunctionType)}
    return {**known, **vars(module).get("PARTS", {})}


def _named(package: str, name: str) -> Any:
    """Return the object that files may name so, or None; others of its package are not loaded."""
    if package == SPLITTERS:
        return _names_in(package).get(name)
    module = import_module(package)
    parts: Mapping[str, Any] = vars(module).get("PARTS", {})  # getattr would look for similar names
    if name in parts:
        return parts[name]
    value: Any = getattr(module, name) if name in getattr(module, "__all__", ()) else None
    is_function = package == "sknet.ops" and isinstance(value, FunctionType)
    return value if is_function or (_is_ours(value) and is_stored(value)) else None


def _is_ours(value: Any) -> bool:
    return isinstance(value, type) and value.__module__.startswith("sknet.")


def _is_splitter(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "split") and hasattr(value, "get_n_splits")


def full_name(thing: Any) -> str:
    """Return the qualified name of a class or function."""
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def stored_name(thing: Any) -> str:
    """Return the name of a class or function in files: the public one, if it is sknet's."""
    for name, value in NUMPYS.items():
        if value is thing:
            return name
    home = getattr(thing, "__module__", None) or ""
    top = ".".join(home.split(".")[:2])
    for package in _packages():
        if package == top or package.startswith(f"{top}."):
            for name, value in _names_in(package).items():
                if value is thing:
                    return f"{package}.{name}"
    if top.startswith("sknet.") and vars(sys.modules[home]).get(thing.__qualname__) is thing:
        raise TypeError(f"{full_name(thing)} cannot be stored in a file")
    return full_name(thing)


def is_ours(x: Any) -> bool:
    """Tell whether an object's class is sknet's, or derived from one of sknet's."""
    packages = [cls.__module__.partition(".")[0] for cls in type(x).__mro__]
    return "sknet" in packages and not isinstance(x, type)


def splitters() -> Iterable[type]:
    """Return scikit-learn's splitters."""
    return _names_in(SPLITTERS).values()


def all_known() -> Iterable[Any]:
    """Return every class and function that a file may name without being trusted."""
    return [value for package in _packages() if package != SPLITTERS for value in _names_in(package).values()]


def inner_names() -> set[str]:
    """Return the qualified names of internal classes of models and estimators, for pickles."""
    modules = [(name, module) for name, module in list(sys.modules.items()) if name.startswith(INNER)]
    return {
        full_name(value)
        for name, module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == name
    }


class NotKnownError(LookupError):
    """A name in a file that is neither sknet's nor trusted."""


class Registry:
    """Looks up the names in one file."""

    def __init__(self, trusted: Iterable[Any] = ()) -> None:
        self._trusted: dict[str, Any] = {}
        if isinstance(trusted, (str, type)) or not isinstance(trusted, Iterable):
            raise TypeError(
                f"trusted must be a list of classes and functions, as [MyNet], got {shown(trusted)}"
            )
        for thing in trusted:
            if not (isinstance(thing, type) or callable(thing)) or not hasattr(thing, "__qualname__"):
                raise TypeError(
                    f"trusted must hold classes and functions, as in trusted=[MyNet], got {shown(thing)}"
                )
            self._trusted[full_name(thing)] = thing

    def find(self, name: str, fits: Callable[[Any], bool]) -> Any:
        """Return the object that a name stands for."""
        package, _, last = name.rpartition(".")
        found = _named(package, last) if package in _packages() else NUMPYS.get(name)
        if found is None:
            found = self._trusted.get(name) or self._by_qualified_name(name)
        if found is None or not fits(found):
            short = last.rpartition(">.")[2] or name
            raise NotKnownError(
                f"it needs {name}, which is not part of sknet: load(path, trusted=[{short}]) if it is yours"
                if found is None
                else f"it has {name} where an object of that kind is not allowed"
            )
        return found

    def _by_qualified_name(self, name: str) -> Any:
        """Return the only trusted object with this qualified name, whatever its module."""
        found = [each for full, each in self._trusted.items() if name.endswith(f".{each.__qualname__}")]
        return found[0] if len(found) == 1 else None
