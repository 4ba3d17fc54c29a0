"""Sums over rows as products with a vector, of some rows at a time: native code calls the same products."""

import math
from typing import Any

from sknet.device import Namespace

__all__ = ["BLOCK", "MOST", "block_of", "matrices", "products_of", "rooms_of"]

MOST = 8192  # elements that a product with a vector sums; from 9216 on, BLAS may take several threads
BLOCK = 4096  # elements at a time, unless a row is longer: two or three such arrays stay in the nearest cache


def block_of(width: int) -> int:
    """Return how many rows are multiplied at a time."""
    return max(1, BLOCK // max(width, 1))


def products_of(xp: Namespace, x: Any, column: Any, out: Any) -> Any:
    """Write the product of rows and a column, block by block, and return it as a column."""
    rows, width = x.shape
    block, found = block_of(width), out[:rows, None]
    whole = rows - rows % block
    xp.matmul(x[:whole].reshape(-1, block, width), column, out=found[:whole].reshape(-1, block, 1))
    if whole < rows:
        xp.matmul(x[whole:], column, out=found[whole:])
    return found


def rooms_of(xp: Namespace, given: Any) -> list[Any]:
    """Return arrays of given shapes and dtypes."""
    return [xp.empty(shape, dtype=dtype) for shape, dtype in given]


def matrices(*arrays: Any) -> list[Any]:
    """Return arrays as contiguous matrices with their last axes."""
    contiguous = [x if x.flags.c_contiguous else x.copy() for x in arrays]
    return [x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) for x in contiguous]
