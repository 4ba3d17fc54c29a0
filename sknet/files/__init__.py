"""Files for estimators, models and networks that execute no code when they are loaded."""

from sknet.files._save import load, save, trusted_types

__all__ = ["load", "save", "trusted_types"]

__dir__ = __all__.copy
