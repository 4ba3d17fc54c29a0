"""What is loaded late: names of a package when they are used, and what it needs from a package above it.

Imports point down only, so the package below cannot load it, and a user may well import nothing but
the package below. The root of sknet, which Python always loads first and which knows all packages,
says what completes which; the package below ends by calling `complete`. A method
that is the short way to a function of a package above asks for it by `above`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["Names", "above", "complete", "completed_by", "offered"]

_loaders: dict[str, Callable[[], object]] = {}
_offers: dict[str, Callable[[], Any]] = {}


class Names(Mapping[str, Any]):
    """Names of a package and what they stand for, whose modules are imported when they are first used.

    Parameters
    ----------
    homes : mapping of str to sequence of str
        Names by the module that defines them.

    Examples
    --------
    >>> names = Names({"fractions": ("Fraction",)})
    >>> names["Fraction"](1, 2)
    Fraction(1, 2)
    """

    def __init__(self, homes: Mapping[str, Sequence[str]]) -> None:
        self._homes = {name: home for home, names in homes.items() for name in names}

    def __getitem__(self, name: str) -> Any:
        return getattr(import_module(self._homes[name]), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)

    def into(self, package: dict[str, Any]) -> Callable[[str], Any]:
        """Return the `__getattr__` of a package with these names.

        Parameters
        ----------
        package : dict
            Its `globals`, which keep what has been loaded.

        Returns
        -------
        callable
            Loads what a name stands for, and raises an AttributeError for others.
        """

        def load(name: str) -> Any:
            if name not in self._homes:
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
        Imports what attaches something to the package's objects.
    """
    _loaders[package] = load


def complete(package: str) -> None:
    """Load what completes a package; its last statement.

    Parameters
    ----------
    package : str
        Its full name.
    """
    _loaders[package]()


def offered(name: str, load: Callable[[], Any]) -> None:
    """Let packages below call a function.

    Parameters
    ----------
    name : str
        What they call it.
    load : callable
        Returns the function.
    """
    _offers[name] = load


def above(name: str) -> Any:
    """Return a function of a package above, for a method that is the short way to it.

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
