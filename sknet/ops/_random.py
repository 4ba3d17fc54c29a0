"""Random draws inside a step: functions of a counter, so that a step can be repeated bit for bit."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, TracedArray, as_operand, as_tensor, bind, is_capturing
from sknet.device import Device, Namespace, backend, is_array, philox_uniform, to_host
from sknet.exceptions import CaptureError
from sknet.ops._create import zeros_like
from sknet.ops._elementwise import greater_equal, maximum, where
from sknet.ops._rules import check_floating

__all__ = ["dropout", "dropout_mask"]


def _mask_forward(
    xp: Namespace,
    like: Any,
    step: Any,
    *,
    shape: tuple[int, ...],
    p: float,
    key: tuple[int, int],
    site: int,
    dtype: Any,
    out: Any = None,
) -> Any:
    # Drawn on the host: the same bits on every device.
    step = int(to_host(step)) if is_array(step) else step
    keep = philox_uniform(key, step, site, shape, np.float32) >= p
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    mask = xp.asarray(keep.astype(dtype) * np.dtype(dtype).type(scale))
    if out is None:
        return mask
    out[...] = mask
    return out


_mask = Primitive("dropout_mask").define(
    forward=_mask_forward,
    shape=lambda like, step, shape, p, key, site, dtype: (shape, np.dtype(dtype)),
    vjp=None,
)


def _draws_forward(
    xp: Namespace,
    like: Any,
    step: Any,
    *,
    shape: tuple[int, ...],
    key: tuple[int, int],
    site: int,
    dtype: Any,
    out: Any = None,
) -> Any:
    step = int(to_host(step)) if is_array(step) else step
    draws = xp.asarray(philox_uniform(key, step, site, shape, np.float32).astype(dtype))
    if out is None:
        return draws
    out[...] = draws
    return out


_draws = Primitive("uniform_draws").define(
    forward=_draws_forward,
    shape=lambda like, step, shape, key, site, dtype: (shape, np.dtype(dtype)),
    vjp=None,
)


def dropout_mask(
    shape: tuple[int, ...],
    p: float | Tensor,
    *,
    key: tuple[int, int],
    step: int | Tensor,
    site: int,
    dtype: Any,
    device: Device,
) -> Tensor:
    """Draw a mask of zeros (with probability p) and 1 / (1 - p): multiplying by it keeps expectations.

    Parameters
    ----------
    shape : tuple of int
        Shape of the mask.
    p : float in [0, 1], or Tensor of shape (), dtype=floating
        Probability of a zero. A tensor stays an input of what is captured.
    key : tuple of two int
        Which random stream.
    step : int or Tensor of shape (), dtype=integer
        Counter: the step of the fit.
    site : int
        Counter: which draw within the step.
    dtype : dtype
        Floating-point dtype of the mask.
    device : Device
        Where the mask should live.

    Returns
    -------
    Tensor of shape `shape`
        The same bits on every device, and for the same arguments.

    Raises
    ------
    CaptureError
        If the step is a plain number while a function is captured.

    Examples
    --------
    >>> from sknet.device import Device
    >>> dropout_mask((2, 3), 1.0, key=(0, 0), step=0, site=0, dtype="float32", device=Device("cpu")).numpy()
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    step = as_operand(step)
    if is_capturing() and not (isinstance(step, Tensor) and isinstance(step.data, TracedArray)):
        raise CaptureError(
            f"dropout_mask: the step of the random stream is {step!r}, a constant, so that a captured "
            "function would draw the same numbers at every call: pass the step to the function, as an "
            "integer array of shape ()"
        )
    like = Tensor(backend(device.kind).zeros((), dtype, device))
    params = {"shape": shape, "key": key, "site": site, "dtype": np.dtype(dtype)}
    if not isinstance(p, Tensor):
        return bind(_mask, (like, step), {**params, "p": p})
    p = p.astype(dtype)
    scale = 1.0 / maximum(1.0 - p, 1e-30)  # of a probability of 1 nothing is kept
    return where(greater_equal(bind(_draws, (like, step), params), p), scale, zeros_like(p))


def dropout(x: Any, p: float | Tensor = 0.5, *, key: tuple[int, int], step: Any = 0, site: int = 0) -> Tensor:
    """Return x with elements set to zero at random, the others divided by 1 - p (Srivastava et al., 2014).

    Parameters
    ----------
    x : Tensor or array, dtype=floating
        Any shape.
    p : float or Tensor of shape (), default=0.5
        Probability of a zero, from 0 to 1. A tensor stays an input of what is captured.
    key : tuple of two int
        Which random stream.
    step : int or Tensor of shape (), default=0
        Counter: the step of the fit. The same key, step and site give the same zeros on every device.
    site : int, default=0
        Counter: which draw within the step.

    Returns
    -------
    Tensor
        Of x's shape; its expectation is x.

    Examples
    --------
    >>> dropout([1.0, 1.0, 1.0, 1.0], key=(0, 0)).numpy()
    array([0., 0., 2., 0.])
    """
    values = as_tensor(x)
    check_floating("dropout", values)
    shape, dtype, device = values.shape, values.dtype, values.device
    return values * dropout_mask(shape, p, key=key, step=step, site=site, dtype=dtype, device=device)
