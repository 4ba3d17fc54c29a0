"""How much memory one row of a batch takes on its way through a module, found without computing anything."""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive
from sknet.nn._module import Module
from sknet.nn._shape_pass import Shadow, copy_for_shapes, shadows, shape_pass

__all__ = ["largest_activation"]


class _Sizes:
    """The elements that each operation of a pass allocates, in order."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def seen(self, primitive: Primitive, operands: list[Any], result: Shadow) -> None:
        self.found.append(max(int(result.size), result.scratch))


def largest_activation(module: Module, shape: Any, dtype: Any = "float32") -> int:
    """Return how many elements the largest array of a forward pass has for each row of a batch.

    Parameters
    ----------
    module : Module
        Not changed, and its hooks are not called.
    shape : tuple of int, or dict of those
        Of one row of the input, without the batch's axis; for several inputs, by the names of arguments.
    dtype : dtype, or dict of those, default="float32"
        Of the input, or of each.

    Returns
    -------
    int
        Inputs, results of operations and their working memory are counted; arrays whose size does not
        depend on the number of rows are not.

    Raises
    ------
    DeviceError
        If the forward pass reads values, and so cannot run without data.
    ShapeError
        If the input does not fit.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.largest_activation(nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)), (784,))
    784
    >>> nn.largest_activation(nn.Conv2d(1, 64, 3), (1, 224, 224)) == 64 * 222 * 222
    True
    """
    one, two = (_sizes(module, n_rows, shape, dtype) for n_rows in (1, 2))
    if len(one) != len(two):  # the code branches on the number of rows
        return max(-(-size // 2) for size in two)
    return max(b - a for a, b in zip(one, two, strict=True))


def _sizes(module: Module, n_rows: int, shape: Any, dtype: Any) -> list[int]:
    twin, sizes = copy_for_shapes(module), _Sizes()  # a copy, for what its code may set
    for each in twin.modules():
        vars(each).pop("_hooks", None)
    shapes = shape if isinstance(shape, dict) else {"": shape}
    dtypes = dtype if isinstance(dtype, dict) else dict.fromkeys(shapes, dtype)
    given = {
        name: shadows((n_rows, *each), np.dtype(dtypes[name]), sizes.seen) for name, each in shapes.items()
    }
    sizes.found += [math.prod((n_rows, *each)) for each in shapes.values()]
    shape_pass(twin, given if isinstance(shape, dict) else (given[""],), False, sizes.seen)
    return sizes.found
