"""Packages that only some callbacks need."""

from importlib import import_module
from typing import Any

__all__ = ["optional"]


def optional(module: str, who: str, extra: str) -> Any:
    """Return a module of an optional package."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{who} needs {package}: pip install 'sknet[{extra}]'") from error
