"""Flatten and Unflatten: several axes into one, and back."""

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from sknet._constraints import shown
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import reshape

__all__ = ["Flatten", "Unflatten"]

AXIS = [Interval(Integral, None, None, closed="neither")]


class Flatten(Module):
    """Join axes: by default all but the first, so that every sample is a vector.

    Parameters
    ----------
    start_dim : int, default=1
        The first axis to join.
    end_dim : int, default=-1
        The last one.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Flatten()(np.zeros((5, 3, 2))).shape
    (5, 6)
    >>> nn.Flatten(-2)(np.zeros((5, 4, 3, 2))).shape
    (5, 4, 6)
    """

    _parameter_constraints = {"start_dim": AXIS, "end_dim": AXIS}

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        check_arguments(self, start_dim=start_dim, end_dim=end_dim)
        self.start_dim, self.end_dim = int(start_dim), int(end_dim)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0:
            raise ShapeError("Flatten: expected an input of shape (n_samples, ...), got a scalar")
        n = x.ndim
        if n == 1 and (self.start_dim, self.end_dim) == (1, -1):
            return reshape(x, (x.shape[0], 1))
        start, end = (axis + n if axis < 0 else axis for axis in (self.start_dim, self.end_dim))
        if not 0 <= start <= end < n:
            raise ShapeError(f"{self!r}: an input of shape {x.shape} has no axes from start_dim to end_dim")
        # math.prod rather than -1, which is ambiguous for an empty batch
        return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


class Unflatten(Module):
    """Divide one axis into several, the inverse of `Flatten`.

    Parameters
    ----------
    dim : int
        The axis to divide.
    unflattened_size : sequence of int
        Lengths of the axes that replace it; one may be -1, which is inferred.

    Raises
    ------
    ValueError
        If `unflattened_size` holds no lengths, or -1 more than once.
    ShapeError
        If the input has no such axis, or its length cannot be divided so.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Unflatten(1, (3, -1))(np.zeros((5, 6))).shape
    (5, 3, 2)
    """

    _parameter_constraints = {"dim": AXIS, "unflattened_size": [tuple, list]}
    _stored_fields = {
        "unflattened_size": tuple[int, ...],
    }

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        check_arguments(self, dim=dim, unflattened_size=unflattened_size)
        lengths: tuple[Any, ...] = tuple(unflattened_size)
        are_lengths = all(isinstance(n, Integral) and int(n) >= -1 for n in lengths)
        if not lengths or not are_lengths or lengths.count(-1) > 1:
            raise ValueError(
                "The 'unflattened_size' parameter of Unflatten must hold lengths, of which one may be -1. "
                f"Got {shown(unflattened_size)} instead."
            )
        self.dim, self.unflattened_size = int(dim), tuple(int(n) for n in lengths)

    def forward(self, x: Any) -> Tensor:
        x, lengths = as_tensor(x), self.unflattened_size
        if not -x.ndim <= self.dim < x.ndim:
            raise ShapeError(f"{self!r}: an input of shape {x.shape} has no axis {self.dim}")
        axis = self.dim % x.ndim
        known = math.prod(n for n in lengths if n != -1)
        if -1 in lengths and known and x.shape[axis] % known == 0:
            lengths = tuple(x.shape[axis] // known if n == -1 else n for n in lengths)
        if math.prod(lengths) != x.shape[axis] or -1 in lengths:
            raise ShapeError(f"{self!r}: axis {self.dim} of an input of shape {x.shape} cannot be divided so")
        return reshape(x, (*x.shape[:axis], *lengths, *x.shape[axis + 1 :]))
