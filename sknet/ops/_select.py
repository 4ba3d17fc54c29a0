"""Interpolation between two values, and replacements for what is not finite."""

import math
from typing import Any

import numpy as np

from sknet.core import Tensor, as_operand, as_tensor
from sknet.ops._elementwise import equal, less, where
from sknet.ops._logical import isnan

__all__ = ["lerp", "nan_to_num"]


def lerp(x: Any, y: Any, weight: Any) -> Tensor:
    """Return x + weight * (y - x), exactly x for a `weight` of 0 and y for 1.

    Parameters
    ----------
    x, y : Tensor or array
        The ends; they broadcast.
    weight : float, Tensor or array
        How far from x to y; below 0 and above 1 it extrapolates.

    Returns
    -------
    Tensor
        ``x + weight * (y - x)``, computed from the nearer end.

    Examples
    --------
    >>> lerp([0.0, 10.0], [1.0, 20.0], 0.25).numpy()
    array([ 0.25, 12.5 ])
    """
    start, end, weight = as_tensor(x), as_tensor(y), as_operand(weight)
    way = end - start
    if not isinstance(weight, Tensor):
        part = float(weight)
        return start + way * part if part < 0.5 else end - way * (1.0 - part)
    return where(less(weight, 0.5), start + way * weight, end - way * (1.0 - weight))


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return x with numbers instead of NaN and the infinities; no gradient flows to those elements.

    Parameters
    ----------
    x : Tensor or array
        Any shape.
    nan : float, default=0.0
        Replaces NaN.
    posinf, neginf : float or None, default=None
        Replace the infinities; None takes the largest and the smallest finite number of the dtype.

    Returns
    -------
    Tensor
        Of x's shape and dtype.

    Examples
    --------
    >>> nan_to_num([1.0, float("nan"), float("-inf")], neginf=-9.0).numpy()
    array([ 1.,  0., -9.])
    """
    tensor = as_tensor(x)
    if tensor.dtype.kind != "f":
        return tensor
    limits = np.finfo(tensor.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = where(equal(tensor, math.inf), high, where(equal(tensor, -math.inf), low, tensor))
    return where(isnan(tensor), nan, finite)
