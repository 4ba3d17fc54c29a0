"""What a package needs from a package above it.

Imports point down only, so the package below cannot load it, and a user may well import nothing but
the package below. The root of sknet, which Python always loads first and which knows all packages,
says what completes which; the package below ends by calling `complete`.
"""

from collections.abc import Callable

__all__ = ["complete", "completed_by"]

_loaders: dict[str, Callable[[], object]] = {}


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
