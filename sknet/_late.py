"""Late binding: names of a package loaded on first use, and what a package needs from one above it.

Imports point down only, so a lower package cannot import an upper one, and a user may import only the
lower package. `sknet/__init__.py`, which Python always loads first, registers what completes which
package; the lower package calls `complete` at its end. A method that calls a function of an upper
package looks it up by `above`.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["Names", "above", "complete", "completed_by", "imported", "offered"]

_loaders: dict[str, Callable[[], object]] = {}
_offers: dict[str, Callable[[], Any]] = {}


def imported(module: str) -> Any:
    """Import a module, and what it needs, without garbage collections meanwhile."""
    if module in sys.modules or not gc.isenabled():
        return import_module(module)
    gc.disable()
    try:
        return import_module(module)
    finally:
        if hasattr(gc, "freeze") and not gc.get_freeze_count():  # what the user has frozen stays so
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()


class Names(Mapping[str, Any]):
    """Names of a package and what they stand for, whose modules are imported when they are first used."""

    def __init__(self, homes: Mapping[str, Sequence[str] | Mapping[str, str]]) -> None:
        self._homes: dict[str, tuple[str, str]] = {}
        for home, names in homes.items():
            there = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
            self._homes.update({name: (home, known) for name, known in there.items()})
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            home, known = self._homes[name]
            self._loaded[name] = getattr(imported(home), known)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def into(
        self, package: dict[str, Any], missing: Callable[[str], Any] | None = None
    ) -> Callable[[str], Any]:
        """Return the `__getattr__` of a package with these names."""

        def load(name: str) -> Any:
            if name not in self._homes:
                if missing is not None:
                    return missing(name)
                raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
            value = package[name] = self[name]
            return value

        return load


def completed_by(package: str, load: Callable[[], object]) -> None:
    """Have `load` called at the end of the first import of a package."""
    _loaders[package] = load


def complete(package: str) -> None:
    """Load what completes a package; called in its last statement."""
    _loaders[package]()


def offered(name: str, load: Callable[[], Any]) -> None:
    """Make a function available to lower packages."""
    _offers[name] = load


def above(name: str) -> Any:
    """Return a function of an upper package, for a method that calls it."""
    return _offers[name]()
