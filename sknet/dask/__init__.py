"""One fit over many workers, on Dask.

`fit`, `partial_fit` and `predict` of estimators accept Dask arrays and data frames; this module has options
of such fits. Importing it needs the extra ``scikit-neural[dask]``.
"""

from sknet._late import installing

try:
    import dask  # noqa: F401  the library, not this package
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sknet.dask needs {error.name}, which is not installed: {installing('dask')}"
    ) from error

from sknet.dask._collections import batch_rows
from sknet.dask._exchange import Exchange, ExchangeError, WorkerExchange
from sknet.dask._fit import fit

__all__ = [
    "Exchange", "ExchangeError", "WorkerExchange", "batch_rows", "fit",
]  # fmt: skip

__dir__ = __all__.copy
