"""Estimators, models and networks in files that execute nothing when they are read."""

from sknet.files._save import load, save, trusted_types

__all__ = ["load", "save", "trusted_types"]
