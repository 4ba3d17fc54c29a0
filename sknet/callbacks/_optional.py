"""Packages that only some callbacks need."""

from importlib import import_module
from typing import Any

__all__ = ["optional"]


def optional(module: str, who: str, extra: str) -> Any:
    """Return a module of an optional package.

    Parameters
    ----------
    module : str
        Its name.
    who : str
        The callback that needs it.
    extra : str
        The extra of sknet that installs it.

    Returns
    -------
    module
        Imported.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{who} needs {package}: pip install 'sknet[{extra}]'") from error
