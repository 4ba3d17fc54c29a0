"""Flatten: several axes into one."""

import math
from typing import Any

from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.ops import reshape

__all__ = ["Flatten"]


class Flatten(Module):
    """Join all axes but the first, so that every sample is a vector.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.Flatten()(np.zeros((5, 3, 2))).shape
    (5, 6)
    """

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0:
            raise ShapeError("Flatten: expected an input of shape (n_samples, ...), got a scalar")
        return reshape(x, (x.shape[0], math.prod(x.shape[1:])))  # not -1, which an empty batch leaves open
