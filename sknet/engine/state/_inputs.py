"""Inputs of a network: one array, or a dict of several by the names of its arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet import ops

__all__ = [
    "any_sparse",
    "are_arrays",
    "arguments",
    "computed_dtype",
    "each_input",
    "first_input",
    "n_rows",
    "row_shapes",
]


def each_input(function: Callable[..., Any], X: Any, *others: Any) -> Any:
    """Apply a function to the one input, or to each of several, with the corresponding items of `others`."""
    if isinstance(X, dict):
        return {name: function(x, *(other[name] for other in others)) for name, x in X.items()}
    return function(X, *others)


def arguments(X: Any) -> Any:
    """Return inputs as `sknet.nn.run` takes them."""
    return X if isinstance(X, dict) else (X,)


def first_input(X: Any) -> Any:
    """Return the one input, or the first of several."""
    return next(iter(X.values())) if isinstance(X, dict) else X


def n_rows(X: Any) -> int:
    """Return how many rows there are."""
    return int(first_input(X).shape[0])


def row_shapes(X: Any) -> Any:
    """Return the shape of a row of each input."""
    return each_input(lambda x: tuple(x.shape[1:]), X)


def any_sparse(X: Any) -> bool:
    """Tell whether an input is a CSR matrix."""
    return any(map(ops.is_sparse, X.values())) if isinstance(X, dict) else ops.is_sparse(X)


def are_arrays(X: Any) -> bool:
    """Tell whether the one input, or each of several, is a dense array of the host."""
    return all(type(x) is np.ndarray for x in X.values()) if isinstance(X, dict) else type(X) is np.ndarray


def computed_dtype(x: Any, dtype: Any) -> Any:
    """Return the computing dtype of an input: `dtype` for real numbers, its own for integers."""
    return dtype if x.dtype.kind == "f" else x.dtype
