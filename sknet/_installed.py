"""Installed packages: their versions, and how to install optional ones."""

from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["DISTRIBUTION", "installing", "optional", "version_of"]

DISTRIBUTION = "scikit-neural"  # the name that pip knows; "sknet" belongs to another project there


@cache  # reading what is installed takes milliseconds
def version_of(package: str) -> str | None:
    """Return the version of an installed package; None if there is none, as when run from source."""
    try:
        return version(DISTRIBUTION if package == "sknet" else package)
    except PackageNotFoundError:
        return None


def installing(extra: str) -> str:
    """Return the command that installs an extra of sknet."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def optional(module: str, who: str, extra: str) -> Any:
    """Import a module of an optional package; raise an ImportError that says how to install it."""
    package = module.partition(".")[0]
    try:
        import_module(package)
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{who} needs {package}, which is not installed: {installing(extra)}") from error
