"""Parts of SciPy, loaded when they are first needed: it takes longer to load than all of sknet.

A predictor computes with NumPy alone, unless its network has a function that NumPy lacks.
"""

import sys
from functools import cache
from importlib import import_module
from typing import Any

__all__ = ["SPECIAL_FUNCTIONS", "SpecialFunction", "issparse", "scipy_sparse", "sparsetools", "special"]

SPECIAL_FUNCTIONS = ("erf", "erfc", "expit", "logit", "xlogy")


def special(name: str) -> Any:
    """Return a ufunc of `scipy.special` by its name."""
    # Private, but the ufuncs themselves: with SCIPY_ARRAY_API=1 the public names are functions around them.
    return getattr(import_module("scipy.special._ufuncs"), name)


class SpecialFunction:
    """A ufunc of `scipy.special` that is loaded by the first call."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return special(self.__name__)(*args, **kwargs)

    def resolve_dtypes(self, dtypes: Any) -> Any:
        """Return the dtypes of operands and results, as `numpy.ufunc.resolve_dtypes` does."""
        return special(self.__name__).resolve_dtypes(dtypes)


@cache
def scipy_sparse() -> Any:
    """Return `scipy.sparse`."""
    return import_module("scipy.sparse")


@cache
def sparsetools() -> Any:
    """Return the loops behind sparse matrices, which write into given arrays; private, too."""
    return import_module("scipy.sparse._sparsetools")


def issparse(x: Any) -> bool:
    """Tell whether x is a sparse matrix or array of SciPy: none is unless SciPy has been loaded."""
    loaded: Any = sys.modules.get("scipy.sparse")
    return loaded is not None and isinstance(x, (loaded.sparray, loaded.spmatrix))
