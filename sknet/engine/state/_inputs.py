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
    """Apply a function to the one input, or to each of several, with the corresponding items of `others`.

    Parameters
    ----------
    function : callable
        A function of an input and its corresponding items.
    X : array, CSR matrix, or dict of those
        The inputs.
    *others : object or dict
        Further arguments, of the same structure.

    Returns
    -------
    object or dict
        The results, in the same structure.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import each_input
    >>> each_input(len, np.eye(2)), each_input(len, {"left": np.eye(2), "right": np.eye(3)})
    (2, {'left': 2, 'right': 3})
    """
    if isinstance(X, dict):
        return {name: function(x, *(other[name] for other in others)) for name, x in X.items()}
    return function(X, *others)


def arguments(X: Any) -> Any:
    """Return inputs as `sknet.nn.run` takes them.

    Parameters
    ----------
    X : array, or dict of arrays
        The one input, or several by the names of the arguments.

    Returns
    -------
    tuple or dict
        A tuple of one input; a dict as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import arguments
    >>> type(arguments(np.eye(2))), arguments({"ids": 1})
    (<class 'tuple'>, {'ids': 1})
    """
    return X if isinstance(X, dict) else (X,)


def first_input(X: Any) -> Any:
    """Return the one input, or the first of several.

    Parameters
    ----------
    X : array, or dict of arrays
        Inputs.

    Returns
    -------
    array
        As it is.

    Examples
    --------
    >>> from sknet.engine.extend import first_input
    >>> first_input({"left": "L", "right": "R"})
    'L'
    """
    return next(iter(X.values())) if isinstance(X, dict) else X


def n_rows(X: Any) -> int:
    """Return how many rows there are.

    Parameters
    ----------
    X : array of shape (n_samples, ...), or dict of those
        Inputs.

    Returns
    -------
    int
        The number of rows of the first input.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import n_rows
    >>> n_rows({"left": np.ones((5, 2)), "right": np.ones((5, 3))})
    5
    """
    return int(first_input(X).shape[0])


def row_shapes(X: Any) -> Any:
    """Return the shape of a row of each input.

    Parameters
    ----------
    X : array of shape (n_samples, ...), or dict of those
        Inputs.

    Returns
    -------
    tuple of int, or dict of those
        Shapes without the axis of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import row_shapes
    >>> row_shapes(np.ones((5, 2))), row_shapes({"ids": np.ones((5, 7))})
    ((2,), {'ids': (7,)})
    """
    return each_input(lambda x: tuple(x.shape[1:]), X)


def any_sparse(X: Any) -> bool:
    """Tell whether an input is a CSR matrix.

    Parameters
    ----------
    X : array or CSR matrix, or dict of those
        Inputs.

    Returns
    -------
    bool
        Whether one of them is.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from sknet.engine.extend import any_sparse
    >>> any_sparse({"dense": np.eye(2), "sparse": scipy.sparse.eye_array(2, format="csr")})
    True
    """
    return any(map(ops.is_sparse, X.values())) if isinstance(X, dict) else ops.is_sparse(X)


def are_arrays(X: Any) -> bool:
    """Tell whether the one input, or each of several, is a dense array of the host.

    Parameters
    ----------
    X : array or CSR matrix, or dict of those
        Inputs.

    Returns
    -------
    bool
        Whether all are.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import are_arrays
    >>> are_arrays(np.eye(2)), are_arrays([[1.0]])
    (True, False)
    """
    return all(type(x) is np.ndarray for x in X.values()) if isinstance(X, dict) else type(X) is np.ndarray


def computed_dtype(x: Any, dtype: Any) -> Any:
    """Return the computing dtype of an input: `dtype` for real numbers, its own for integers.

    Parameters
    ----------
    x : array
        The input.
    dtype : dtype
        The model's.

    Returns
    -------
    dtype
        One of the two.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine.extend import computed_dtype
    >>> single = np.dtype("float32")
    >>> computed_dtype(np.ones(2), single), computed_dtype(np.arange(2), single)
    (dtype('float32'), dtype('int64'))
    """
    return dtype if x.dtype.kind == "f" else x.dtype
