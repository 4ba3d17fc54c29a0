"""Predictions of Dask collections: lazy, partition by partition."""

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet.dask._collections import blocks_of

__all__ = ["map_blocks"]


def map_blocks(method: Callable[..., Any], estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a method of an estimator makes of the rows of a collection, lazily."""
    check_is_fitted(estimator)
    blocks = blocks_of(X)
    like = _blank(X)
    known = method(estimator, like, *args, **kwargs)
    lengths = X.chunks[0] if isinstance(X, da.Array) else (np.nan,) * len(blocks)
    # One node of the graph holds the estimator, and says by its name that it is not to be compared.
    held = dask.delayed(
        estimator.slim() if hasattr(estimator, "slim") else estimator, pure=False, traverse=False
    )
    call = dask.delayed(_called, pure=False, nout=len(known) if isinstance(known, (tuple, list)) else None)
    results = [call(method.__name__, held, block, like, args, kwargs) for block in blocks]
    if isinstance(known, (tuple, list)):
        return type(known)(
            _joined([result[i] for result in results], lengths, each) for i, each in enumerate(known)
        )
    return _joined(results, lengths, known)


def _blank(X: Any) -> Any:
    """Return some rows of the kind of X, from which follows what is predicted."""
    if isinstance(X, da.Array):
        return np.zeros((1, *map(int, X.shape[1:])), X.dtype)
    return X._meta_nonempty  # Dask's own example of its partitions


def _called(name: str, estimator: Any, X: Any, like: Any, args: Any, kwargs: Any) -> Any:
    method = getattr(estimator, name)
    if len(X):
        return method(X, *args, **kwargs)
    known = method(like, *args, **kwargs)
    return type(known)(x[:0] for x in known) if isinstance(known, (tuple, list)) else known[:0]


def _joined(results: list[Any], lengths: Any, known: Any) -> Any:
    """Return an array of lazy partitions."""
    found = [
        da.from_delayed(result, (length, *known.shape[1:]), dtype=known.dtype, meta=known[:0])
        for result, length in zip(results, lengths, strict=True)
    ]
    return da.concatenate(found, allow_unknown_chunksizes=True)
