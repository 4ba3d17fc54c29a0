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
    """Import a module, and what it needs, without garbage collections meanwhile.

    What modules define stays. A full collection in between looks at all of scikit-learn's objects, too, which
    takes as long as importing sknet. Afterwards all objects count as old ones: the next collection of young
    ones, often in the first fit, would look at 27,000 of sknet's, and take longer than that fit.

    Parameters
    ----------
    module : str
        Its full name.

    Returns
    -------
    module
        As of `importlib.import_module`.
    """
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
    """Names of a package and what they stand for, whose modules are imported when they are first used.

    Parameters
    ----------
    homes : mapping of str to sequence of str, or to mapping of str to str
        Names by the module that defines them; a mapping says what they are called there.

    Examples
    --------
    >>> names = Names({"fractions": ("Fraction",)})
    >>> names["Fraction"](1, 2)
    Fraction(1, 2)
    """

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
        """Return the `__getattr__` of a package with these names.

        Parameters
        ----------
        package : dict
            Its `globals`, which keep what has been loaded.
        missing : callable, default=None
            Raises the AttributeError for another name.

        Returns
        -------
        callable
            Loads what a name stands for, and raises an AttributeError for others.
        """

        def load(name: str) -> Any:
            if name not in self._homes:
                if missing is not None:
                    return missing(name)
                raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
            value = package[name] = self[name]
            return value

        return load


def completed_by(package: str, load: Callable[[], object]) -> None:
    """Have `load` called at the end of the first import of a package.

    Parameters
    ----------
    package : str
        Its full name.
    load : callable
        Imports the module that attaches something to the package's objects.
    """
    _loaders[package] = load


def complete(package: str) -> None:
    """Load what completes a package; called in its last statement.

    Parameters
    ----------
    package : str
        Its full name.
    """
    _loaders[package]()


def offered(name: str, load: Callable[[], Any]) -> None:
    """Make a function available to lower packages.

    Parameters
    ----------
    name : str
        Its name for `above`.
    load : callable
        Returns the function.
    """
    _offers[name] = load


def above(name: str) -> Any:
    """Return a function of an upper package, for a method that calls it.

    Parameters
    ----------
    name : str
        As it was offered.

    Returns
    -------
    callable
        The function.
    """
    return _offers[name]()
