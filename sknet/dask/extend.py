"""What methods of estimators call that are given Dask collections."""

from sknet.dask._fit import fit_collections
from sknet.dask._predict import map_blocks

__all__ = ["fit_collections", "map_blocks"]
