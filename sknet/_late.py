"""What a package needs from a package above it.

Imports point down only, so the package below cannot load it, and a user may well import nothing but
the package below. The root of sknet, which Python always loads first and which knows all packages,
says what completes which; the package below ends by calling `complete`. A method
that is the short way to a function of a package above asks for it by `above`.
"""

from collections.abc import Callable
from typing import Any

__all__ = ["above", "complete", "completed_by", "offered"]

_loaders: dict[str, Callable[[], object]] = {}
_offers: dict[str, Callable[[], Any]] = {}


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
