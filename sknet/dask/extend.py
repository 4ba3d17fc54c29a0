"""Fits and predictions of estimators on Dask collections."""

from sknet.dask._collections import map_blocks
from sknet.dask._fit import fit_collections

__all__ = ["fit_collections", "map_blocks"]
