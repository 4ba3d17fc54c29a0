"""A quotient times a number, in whichever order is faster: the last operation of many update rules."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_operand, as_tensor, bind
from sknet.core.extend import primitives as p
from sknet.device import MetaArray
from sknet.ops._rules import unbroadcast

__all__ = ["scaled_quotient"]


def _shape(x: Any, y: Any, scale: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    found: tuple[tuple[int, ...], np.dtype[Any]] = p.divide.shape(MetaArray(*p.multiply.shape(scale, x)), y)
    return found


_scaled_quotient = Primitive("scaled_quotient").define(
    forward=lambda xp, x, y, scale: xp.divide(xp.multiply(scale, x), y),
    shape=_shape,
    vjp=(
        lambda g, _, x, y, scale: unbroadcast(scaled_quotient(scale, g, y), x),
        lambda g, _, x, y, scale: unbroadcast(-scaled_quotient(scale, g * x / y, y), y),
        lambda g, _, x, y, scale: unbroadcast(g * x / y, scale),
    ),
    writes_out=False,
)


def scaled_quotient(scale: Any, x: Any, y: Any) -> Tensor:
    """Return scale * x / y, if it does not matter which of the two is computed first.

    Uncompiled, and compiled with ``exact=True``, it is (scale * x) / y. Otherwise a compiled function may
    compute scale * (x / y), which saves a pass over memory where the scale is one number.

    Parameters
    ----------
    scale, x, y : Tensor, array or number
        Shapes that broadcast together. Neither scale * x nor x / y may leave the dtype's range.

    Returns
    -------
    Tensor
        Of the common shape.

    Examples
    --------
    >>> scaled_quotient(0.5, [4.0, 6.0], [1.0, 2.0]).numpy()
    array([2. , 1.5])
    """
    scale, x, y = (as_operand(v) for v in (scale, x, y))
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return bind(_scaled_quotient, (x, y, scale), {})
    return as_tensor(scale * x / y)
