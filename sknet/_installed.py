"""Versions of installed packages."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["version_of"]


@cache  # reading what is installed takes milliseconds
def version_of(package: str) -> str | None:
    """Return the version of an installed package; None if there is none, as when run from source."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
