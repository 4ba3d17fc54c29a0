"""Files for estimators, models and networks that execute no code when they are loaded."""

from sknet.files._save import load, save, trusted_types

__all__ = ["load", "save", "trusted_types"]


def __dir__() -> list[str]:
    return __all__
