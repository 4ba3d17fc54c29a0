"""Computation of ensembles, for writing them in other forms."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.tabular._base import ensemble_computation, is_ensemble

__all__ = ["ensemble_computation", "is_ensemble"]

if not TYPE_CHECKING:
    __getattr__ = _Names({"sknet.tabular._base": ("ensemble_computation", "is_ensemble")}).into(globals())
